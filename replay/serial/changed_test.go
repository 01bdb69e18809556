package serial

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

// counting is a context that is asked whether it ended before each stream, and does
// something when it is asked for the n-th time.
type counting struct {
	context.Context
	asked atomic.Int64
	n     int64
	do    func()
}

func (c *counting) Err() error {
	if c.asked.Add(1) == c.n {
		c.do()
	}
	return c.Context.Err()
}

// A trace that is written to while its accesses are read gives neither rows nor accesses that
// pass for those of its digest.
func TestTraceChangesMeanwhile(t *testing.T) {
	content, err := os.ReadFile("../../datasets/bundled/smollm2_niah_1k_sglang.parquet")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "t.parquet")
	capacity, err := replay.ParseCapacity("2x")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Policies: specs(t, "lru"), Capacities: []replay.Capacity{capacity}}
	for name, read := range map[string]func(context.Context, *trace.File) error{
		"run":     func(ctx context.Context, f *trace.File) error { _, _, err := Run(ctx, f, o); return err },
		"flatten": func(ctx context.Context, f *trace.File) error { return Flatten(ctx, io.Discard, f, o) },
	} {
		run := func(ctx *counting) error {
			ctx.Context = t.Context()
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
			f, err := trace.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			return read(ctx, f)
		}
		whole := &counting{}
		if err := run(whole); err != nil {
			t.Fatal(err)
		}
		late := &counting{n: whole.asked.Load(), do: func() { // of the first stream, when the last one is about to be read
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt([]byte("changed"), int64(len(content)/3))
			}
			if err := errors.Join(err, f.Close()); err != nil {
				t.Error(err)
			}
		}}
		if err := run(late); err == nil || !strings.Contains(err.Error(), "was changed while it was being read") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
