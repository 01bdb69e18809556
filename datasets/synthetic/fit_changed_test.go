package synthetic

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/trace"
)

// counting is a context that is asked whether it ended before each stream, and does
// something when it is asked for the n-th time.
type counting struct {
	context.Context
	asked, n int
	do       func() error
	err      error
}

func (c *counting) Err() error {
	if c.asked++; c.asked == c.n {
		c.err = c.do()
	}
	return c.Context.Err()
}

// A trace that is written to while it is measured gives no dials.
func TestFitTraceChangesMeanwhile(t *testing.T) {
	content, err := os.ReadFile("../bundled/smollm2_niah_1k_sglang.parquet")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "t.parquet")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := trace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx := &counting{Context: t.Context(), n: len(f.Streams()), do: func() error { // the first stream, when the last one is about to be read
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt([]byte("changed"), int64(len(content)/3))
		return errors.Join(err, f.Close())
	}}
	if _, err := Fit(ctx, f, FitOptions{}); err == nil || !strings.Contains(err.Error(), "was changed while it was being read") {
		t.Errorf("%v", err)
	}
	if ctx.asked < ctx.n || ctx.err != nil {
		t.Errorf("asked %d times of %d, %v", ctx.asked, ctx.n, ctx.err)
	}
}
