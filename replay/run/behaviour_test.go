package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/fifo"
	"github.com/kvreplay/kvreplay/policies/lfu"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/policies/window"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// asMine returns a policy under the name "mine". Two policies with this name stand for an edit of
// the policy's code, which keeps its name.
func asMine(t *testing.T, e policies.Entry) policies.Spec {
	t.Helper()
	e.Name = "mine"
	text := "mine"
	if e.Example != "" {
		text += ":" + e.Example
	}
	spec, err := policies.NewTable(e).Parse(text)
	fatal.If(t, err)
	return spec
}

// longerWindow returns an edited window policy: it has three steps, whatever its options say.
func longerWindow() policies.Entry {
	e := window.Entry
	e.New = func(options string) (func() policies.Policy, string, error) {
		_, canonical, err := window.Entry.New(options)
		longer, _, _ := window.Entry.New("3")
		return longer, canonical, err
	}
	return e
}

// cellFiles returns the number of cells in a store's folder.
func cellFiles(t *testing.T, s *Store) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "cells", "*", "*"))
	fatal.If(t, err)
	return len(files)
}

// A cell is replayed again if a policy on which it depends changes its decisions. This is its own
// policy, the policy of a cache above it, or the policy whose peak is its capacity. The new cells
// replace the old ones.
func TestEditedPolicyIsReplayed(t *testing.T) {
	f := manyStreams(t)
	for name, c := range map[string]struct {
		before, after policies.Entry
		set           func(o *Options, mine policies.Spec)
		changed       int // cells
		fromStore     int
	}{
		"own": {lru.Entry, fifo.Entry, func(o *Options, mine policies.Spec) {
			o.Policies, o.Capacities = append(specs(t, "lru"), mine), capacities(t, "1x", "2x", "3x")
		}, 3, 3},
		"above a tier": {lru.Entry, lfu.Entry, func(o *Options, mine policies.Spec) {
			o.Policies, o.Capacities, o.Tiers = append(specs(t, "fifo"), mine), capacities(t, "1x"), tiers(t, "dram=lru@2x", "cxl=fifo@2x")
		}, 3, 3},
		"a tier": {lru.Entry, lfu.Entry, func(o *Options, mine policies.Spec) {
			o.Policies, o.Capacities, o.Inclusive = specs(t, "fifo"), capacities(t, "1x", "2x"), true
			o.Tiers = append([]setting.Tier{{Name: "dram", Policy: mine, Capacity: capacities(t, "2x")[0]}}, tiers(t, "cxl=lru@2x")...)
		}, 4, 0}, // the cells of the GPU's cache are replayed with their tiers
		"peak": {window.Entry, longerWindow(), func(o *Options, mine policies.Spec) {
			o.Policies, o.Capacities = append(specs(t, "lru"), mine), capacities(t, "1x", "peak:mine:2")
		}, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := OpenStore(t.TempDir())
			fatal.If(t, err)
			run := func(e policies.Entry, kept *Store) *Result {
				o := Options{Store: kept}
				c.set(&o, asMine(t, e))
				r, err := Run(context.Background(), f, o)
				fatal.If(t, err)
				return r
			}
			first, files := run(c.before, store), cellFiles(t, store)
			if again := run(c.before, store); again.FromStore != files || again.Changed != nil {
				t.Fatalf("the same policy: %d of %d cells from the store, %v changed", again.FromStore, files, again.Changed)
			}
			edited, fresh := run(c.after, store), run(c.after, nil)
			if reflect.DeepEqual(fresh.Rows, first.Rows) {
				t.Fatal("the edit changes no count")
			}
			if !reflect.DeepEqual(edited.Rows, fresh.Rows) {
				t.Error("rows are not those of a replay without kept cells")
			}
			name := asMine(t, c.before).Name()
			if want := map[string]int{name: c.changed}; !maps.Equal(edited.Changed, want) || edited.FromStore != c.fromStore {
				t.Errorf("changed %v and %d cells from the store, expected %v and %d", edited.Changed, edited.FromStore, want, c.fromStore)
			}
			if n := cellFiles(t, store); n != files {
				t.Errorf("%d cells are kept, expected %d: new ones take the place of old ones", n, files)
			}
			if again := run(c.after, store); again.FromStore != files || again.Changed != nil || !reflect.DeepEqual(again.Rows, fresh.Rows) {
				t.Errorf("the edited policy again: %d of %d cells from the store, %v changed", again.FromStore, files, again.Changed)
			}
		})
	}
}

// Counts of a trace from before and after an edit of a policy are not pooled.
func TestEditedPolicyBeginsAgain(t *testing.T) {
	f, _ := manyChunks(t)
	store, err := OpenStore(t.TempDir())
	fatal.If(t, err)
	o := Options{Capacities: capacities(t, "2x"), Workers: 1, Checkpoint: time.Hour, Store: store}
	ctx, stop := context.WithCancel(t.Context())
	o.Policies, o.Progress = []policies.Spec{asMine(t, lru.Entry)}, func(int) { stop() }
	_, err = Run(ctx, f, o)
	var stopped *Interrupted
	if !errors.As(err, &stopped) || !stopped.Kept {
		t.Fatalf("stopped in the first stream: %v", err)
	}
	o.Policies, o.Progress = []policies.Spec{asMine(t, fifo.Entry)}, nil
	got := mustRun(t, f, o)
	if _, err := os.Stat(filepath.Join(store.dir, "partial")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what the first run counted is still kept: %v", err)
	}
	o.Store = nil
	if want := mustRun(t, f, o); !reflect.DeepEqual(got, want) {
		t.Errorf("misses %d, expected %d", got[0].Misses, want[0].Misses)
	}
}

// A profile is written again if a policy in it changes its decisions, even if the store has all
// cells.
func TestEditedPolicyIsProfiledAgain(t *testing.T) {
	f := manyStreams(t)
	store, err := OpenStore(t.TempDir())
	fatal.If(t, err)
	path := filepath.Join(store.dir, "p.parquet")
	job := func(e policies.Entry) *Job {
		j, err := Plan(f, Options{Policies: []policies.Spec{asMine(t, e)}, Capacities: capacities(t, "2x"), Store: store})
		fatal.If(t, err)
		return j
	}
	run := func(j *Job) {
		if _, err := j.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first := job(lru.Entry)
	profile, err := CreateProfile(path, false)
	if err == nil {
		err = first.Record(profile)
	}
	fatal.If(t, err)
	run(first)
	fatal.If(t, profile.Close())
	if !job(lru.Entry).Recorded(path, false) {
		t.Error("the profile is not known")
	}
	run(job(fifo.Entry))
	if job(fifo.Entry).Recorded(path, false) {
		t.Error("the profile of the policy before the edit passes for that of the policy after it")
	}
}

// Rows of planned windows state the same fingerprint under every plan. Their cells depend on the
// windows of the plan.
func TestFingerprintOfPlannedWindows(t *testing.T) {
	f := manyStreams(t)
	plan, _ := planOf(t, Options{Policies: specs(t, "window:1", "window:2", "window:3", "window:4")}, "2x")
	o := Options{Policies: specs(t, "window:1"), Allocation: plan}
	p, err := newPlan(f, &o)
	fatal.If(t, err)
	own := p.behaviours(&p.cells[0])
	if want := Fingerprint(specs(t, "window:2")[0]); own[0].fingerprint != want {
		t.Errorf("rows state %s, expected %s, that of window:2", own[0].fingerprint, want)
	}
	for i := range o.Allocation.Streams {
		o.Allocation.Streams[i].Size++
	}
	if other := p.behaviours(&p.cells[0]); other[0] != own[0] || other[1] == own[1] {
		t.Errorf("under another plan %v, before %v", other, own)
	}
}

// The name of a cell below many tiers is short enough for a file. It still depends on the policies
// of all tiers.
func TestNameOfManyBehaviours(t *testing.T) {
	k := cellKey{Policy: "lru"}
	for i := range 20 {
		k.Behaviours = append(k.Behaviours, behaviour{fmt.Sprintf("p%d", i), fmt.Sprintf("%016d", i)})
	}
	old := k.name()
	if len(old) > 240 {
		t.Errorf("%d bytes: %s", len(old), old)
	}
	for i, want := range map[int]string{0: "p0", 8: "p8", 9: "lru", 19: "lru"} {
		edited := k
		edited.Behaviours = slices.Clone(k.Behaviours)
		edited.Behaviours[i].fingerprint = "edited"
		if got := edited.changed(old); edited.name() == old || !slices.Contains(got, want) {
			t.Errorf("behaviour %d is edited: %v changed, expected %s", i, got, want)
		}
	}
}

// Rows of tiers and peaks state the other policies on which they depend.
func TestRowsStateWhatTheyDependOn(t *testing.T) {
	f := manyStreams(t)
	of := func(name string) string { return name + "=" + Fingerprint(specs(t, name)[0]) }
	o := Options{Policies: specs(t, "lru", "window:2"), Capacities: capacities(t, "2x"), Tiers: tiers(t, "dram=fifo@2x", "cxl=lru@2x")}
	want := map[string]string{
		"lru 2x": "", "lru peak:window:2": of("window:2"), "window:2 -": "",
		"fifo 2x below lru@2x": of("lru"), "fifo 2x below lru@peak:window:2": of("lru") + " " + of("window:2"), "fifo 2x below window:2": of("window:2"),
		"lru 2x below lru@2x > dram=fifo@2x": of("lru") + " " + of("fifo"), "lru 2x below window:2 > dram=fifo@2x": of("window:2") + " " + of("fifo"),
		"lru 2x below lru@peak:window:2 > dram=fifo@2x": of("lru") + " " + of("window:2") + " " + of("fifo"),
	}
	for _, r := range mustRun(t, f, o) {
		name := r.Policy + " -"
		if r.Capacity != nil {
			name = r.Policy + " " + *r.Capacity
		}
		if r.Tier > 0 {
			name += " below " + r.Above
		}
		if text, known := want[name]; !known || r.DependsOn != text {
			t.Errorf("%s depends on %q, expected %q", name, r.DependsOn, text)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("no rows of %v", want)
	}
}

// Rows state the fingerprint of their policy.
func TestRowsStateTheFingerprint(t *testing.T) {
	f := manyStreams(t)
	for _, e := range []policies.Entry{lru.Entry, fifo.Entry} {
		spec := asMine(t, e)
		for _, r := range mustRun(t, f, Options{Policies: []policies.Spec{spec}, Capacities: capacities(t, "2x")}) {
			if r.PolicyFingerprint != Fingerprint(spec) || r.Schema != result.RowSchema {
				t.Errorf("a row states %q, expected %q", r.PolicyFingerprint, Fingerprint(spec))
			}
		}
	}
}
