package derive

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// meanwhile is a context that calls a function once, while a derivation reads its error.
type meanwhile struct {
	context.Context
	looks int // reads before the call
	do    func()
}

func (m *meanwhile) Err() error {
	if m.looks--; m.looks == 0 {
		m.do()
	}
	return nil
}

// A source whose content changes while it is read makes no trace. A source with only a new
// modification time does.
func TestSourceThatChanges(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, path string)
		want string
	}{
		"touched": {func(t *testing.T, path string) {
			if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)); err != nil {
				t.Error(err)
			}
		}, ""},
		"overwritten": {func(t *testing.T, path string) {
			text, err := os.ReadFile(source(t, 2, rankMeta))
			fatal.If(t, err)
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Error(err)
			}
			if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)); err != nil {
				t.Error(err)
			}
		}, "was changed while kvreplay read it"},
	} {
		t.Run(name, func(t *testing.T) {
			src, out := source(t, 1, rankMeta), filepath.Join(t.TempDir(), "out.parquet")
			const streams = 8
			_, err := Derive(&meanwhile{t.Context(), streams, func() { c.do(t, src) }}, src, out, Options{})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, expected %q", err, c.want)
			}
			if _, err := os.Stat(out); (err == nil) != (c.want == "") {
				t.Errorf("the derived trace: %v", err)
			}
		})
	}
}
