package derive

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A cancelled derivation leaves no file.
func TestCancelled(t *testing.T) {
	src, dir := source(t, 1, rankMeta), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Derive(ctx, src, filepath.Join(dir, "out.parquet"), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, expected that of the context", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
