package synthetic

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// The bytes depend only on the dials, not on the number of workers. Their metadata describe them.
func TestWrite(t *testing.T) {
	d := small()
	d.About = "a test"
	dir := t.TempDir()
	var first []byte
	for _, workers := range []int{1, 3, 100} {
		path := filepath.Join(dir, "t.parquet")
		streams := 0
		fatal.If(t, Write(context.Background(), path, &d, Options{Workers: workers, Progress: func(n int) { streams += n }}))
		text, err := os.ReadFile(path)
		fatal.If(t, err)
		if first == nil {
			first = text
		}
		if !bytes.Equal(text, first) || streams != 12 {
			t.Errorf("%d workers: other bytes than one, or %d streams of 12 told", workers, streams)
		}
		v, err := trace.Validate(t.Context(), path, func(e *trace.Error) bool { t.Error(e); return true })
		if err != nil || v.Indices != 12*26*160 {
			t.Errorf("%d workers: %+v, %v", workers, v, err)
		}
	}
	f, err := trace.Open(filepath.Join(dir, "t.parquet"))
	fatal.If(t, err)
	defer f.Close()
	back := Default()
	if m := f.Meta(); m.Model != "synthetic" || m.Notes["about"] != "a test" || back.Decode([]byte(m.Notes["dials"])) != nil || back.Overlap != d.Overlap {
		t.Errorf("metadata %+v", m)
	}
}

// A run that fails or is stopped leaves nothing behind.
func TestWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	d := small()
	ctx, cancel := context.WithCancel(context.Background())
	err := Write(ctx, filepath.Join(dir, "a.parquet"), &d, Options{Workers: 2, Progress: func(int) { cancel() }})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "stopped, nothing was written to") {
		t.Errorf("a stopped run: %v", err)
	}
	d.Overlap = 2
	if err := Write(context.Background(), filepath.Join(dir, "b.parquet"), &d, Options{}); err == nil || !strings.Contains(err.Error(), "overlap 2") {
		t.Errorf("bad dials: %v", err)
	}
	full := errors.New("the disk is full")
	d = small()
	if err := drawAll(context.Background(), &d, Options{Workers: 3}, func(trace.StreamInfo, iter.Seq2[*trace.Stream, error]) error { return full }); !errors.Is(err, full) {
		t.Errorf("a full disk: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
