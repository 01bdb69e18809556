package run

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// The error of an interrupted run states which counts are kept, or why none are.
func TestInterruptedSays(t *testing.T) {
	f := manyStreams(t)
	store, err := OpenStore(t.TempDir())
	fatal.If(t, err)
	for want, set := range map[string]func(*Options){
		"No counts of this trace are kept":            func(*Options) {},
		"No counts of this trace are kept: profiles":  func(o *Options) { o.Store, o.Profile = store, newProfile(t) },
		"No counts of this trace are kept: --referee": func(o *Options) { o.Store, o.Referee = store, true },
		"No counts of this trace are kept: no part":   func(o *Options) { o.Store = store },
	} {
		o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x")}
		set(&o)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		_, err := Run(ctx, f, o)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "after 0 of ") {
			t.Errorf("%v, expected %q", err, want)
		}
	}
	kept := &Interrupted{Trace: "t", Done: 2, Streams: 3, Kept: true}
	if want := "interrupted in t after 2 of 3 streams. The counts are kept: run the same command again to continue"; kept.Error() != want {
		t.Errorf("%v", kept)
	}
}

// An interrupted run keeps its finished chunks, even if no checkpoint was due. The next run replays
// only the other chunks.
func TestInterruptedKeeps(t *testing.T) {
	f, rows := manyChunks(t)
	streams := len(f.Streams())
	o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x"), Workers: 1, Checkpoint: time.Hour}
	calm := mustRun(t, f, o)
	var err error
	if o.Store, err = OpenStore(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	o.Progress = func(int) { stop() }
	_, err = Run(ctx, f, o)
	var stopped *Interrupted
	if !errors.As(err, &stopped) || !stopped.Kept || stopped.Done != 1 || stopped.Streams != streams {
		t.Fatalf("stopped in the first stream: %v", err)
	}
	replayed := 0
	o.Progress = func(rows int) { replayed += rows }
	if again := mustRun(t, f, o); !reflect.DeepEqual(again, calm) {
		t.Errorf("the run that went on has other rows")
	}
	if want := (streams - 1) * rows; replayed != want {
		t.Errorf("the run that went on replays %d rows, expected %d", replayed, want)
	}
}

// A run stops after the current cell, in the middle of a chunk. The chunk is replayed again.
func TestInterruptedStopsAfterACell(t *testing.T) {
	f := manyStreams(t)
	o := Options{Policies: specs(t, "fifo", "lookahead", "lru", "opt"), Capacities: capacities(t, "1.5x", "2x"), Workers: 1, oneByOne: true}
	if job, err := Plan(f, o); err != nil || len(job.Chunks()) != 1 {
		t.Fatalf("%d chunks (%v), expected one", len(job.Chunks()), err)
	}
	calm := mustRun(t, f, o)
	var err error
	o.Store, err = OpenStore(t.TempDir())
	fatal.If(t, err)
	ctx, stop := context.WithCancel(t.Context())
	cells := 0
	o.Progress = func(int) {
		if cells++; cells == 3 {
			stop()
		}
	}
	var stopped *Interrupted
	if _, err := Run(ctx, f, o); !errors.As(err, &stopped) || stopped.Done != 0 || cells != 3 {
		t.Fatalf("%d cells are replayed, expected 3 (%v)", cells, err)
	}
	if again := mustRun(t, f, o); !reflect.DeepEqual(again, calm) {
		t.Errorf("the next run has other rows")
	}
}

// With Whole, a chunk that is stopped in its first cell is counted.
func TestCountFinishesBegunChunks(t *testing.T) {
	f, _ := manyChunks(t)
	for _, whole := range []bool{false, true} {
		ctx, stop := context.WithCancel(t.Context())
		job, err := Plan(f, Options{Policies: specs(t, "lru", "fifo", "opt"), Capacities: capacities(t, "2x"), Workers: 1, oneByOne: true,
			Progress: func(int) { stop() }})
		fatal.If(t, err)
		counts, err := job.Count(ctx, Counting{To: len(job.Chunks()), Whole: whole})
		var stopped *Interrupted
		if !errors.As(err, &stopped) || (stopped.Done == 1) != whole || counts != nil && (len(counts.Chunks) == 1) != whole {
			t.Errorf("whole %v: %v", whole, err)
		}
	}
}

// Counts that cannot be saved end the run at once.
func TestCountEndsIfASaveFails(t *testing.T) {
	f, _ := manyChunks(t)
	job, err := Plan(f, Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x"), Workers: 1})
	fatal.If(t, err)
	full, saves := errors.New("disk full"), 0
	_, err = job.Count(t.Context(), Counting{To: len(job.Chunks()), Every: time.Nanosecond, Save: func(*Checkpoint) error {
		saves++
		return full
	}})
	if !errors.Is(err, full) || saves != 1 {
		t.Errorf("%d saves, %v, expected one and its error", saves, err)
	}
}

// manyChunks returns a trace of three streams. Each has enough rows to be a chunk of work.
func manyChunks(t *testing.T) (f *trace.File, rows int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.parquet")
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: 64, BlockTokens: 1})
	fatal.If(t, err)
	const streams = 3
	rows = chunkIndices/1024 + 1
	for layer := range int32(streams) {
		s := replaytest.Overlapping(uint64(layer), 4096, 64, 1024, rows, 0.9)
		s.Layer = layer
		fatal.If(t, w.Write(s))
	}
	return reopen(t, w, path), rows
}

func newProfile(t *testing.T) *Profile {
	t.Helper()
	p, err := CreateProfile(filepath.Join(t.TempDir(), "p.parquet"), false)
	fatal.If(t, err)
	t.Cleanup(p.Abort)
	return p
}
