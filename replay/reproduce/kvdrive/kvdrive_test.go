package kvdrive

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// sections reproduces from the bundled traces, with a library that change may modify.
func sections(t *testing.T, traces []string, change func(*hardware.Library)) (all []reproduce.Section, past []string) {
	t.Helper()
	b := begin(t, traces)
	if change != nil {
		change(b.Library)
	}
	all, err := b.Run()
	fatal.If(t, err)
	return all, reproduce.Past(all)
}

func begin(t *testing.T, traces []string) *reproduce.Study {
	t.Helper()
	s, err := reproduce.Begin(t.Context(), Paper(), reproduce.Inputs{Traces: traces})
	fatal.If(t, err)
	t.Cleanup(s.Close)
	return s
}

func bundled(t *testing.T) []string {
	t.Helper()
	traces, err := filepath.Glob("../../../datasets/bundled/*.parquet")
	if err != nil || len(traces) < 3 {
		t.Fatalf("bundled traces %v, %v", traces, err)
	}
	return traces
}

func TestReproduced(t *testing.T) {
	all, past := sections(t, bundled(t), nil)
	if past != nil {
		t.Errorf("past their gates: %q", past)
	}
	if i := slices.IndexFunc(all, func(s reproduce.Section) bool { return s.Name == "fig-3" }); i < 0 || len(all[i].Figures) != 1 || len(all[i].Lines) < 6 {
		t.Error("Fig. 3 is not made of the bundled traces")
	}
}

// Sections that need traces say so if there are none.
func TestWithoutTraces(t *testing.T) {
	all, past := sections(t, nil, nil)
	if past != nil {
		t.Errorf("past their gates: %q", past)
	}
	named := 0
	for _, s := range all {
		for i := range s.Lines {
			if strings.Contains(s.Lines[i].Note, "--traces") {
				named++
			}
		}
	}
	if named < 8 {
		t.Errorf("%d lines say that traces are missing, expected at least 8", named)
	}
}

// Entries of another size and other weights are detected.
func TestGatesBite(t *testing.T) {
	for what, change := range map[string]func(*testing.T, *hardware.Library){
		"entry": func(t *testing.T, lib *hardware.Library) {
			m := model(t, lib, "llama-3-8b-1048k")
			m.KVHeads.Value, m.Entry.Value = 2*m.KVHeads.Value, 2*m.Entry.Value
		},
		"GPU": func(t *testing.T, lib *hardware.Library) {
			m, err := lib.Machine("l20")
			fatal.If(t, err)
			m.GPU.Memory.Value = 80e9
		},
	} {
		if _, past := sections(t, nil, func(lib *hardware.Library) { change(t, lib) }); len(past) == 0 {
			t.Errorf("a changed %s is not noticed", what)
		}
	}
}

// The model confirms the reasons for known misses, one change at a time.
func TestReasonsOfMisses(t *testing.T) {
	traces, err := filepath.Glob("../../../datasets/corpus/deep_*.parquet")
	if err != nil || len(traces) != 3 {
		t.Fatalf("deep traces %v, %v", traces, err)
	}
	b := newBench(begin(t, traces))
	var none, readAhead pipeline.Options
	readAhead.Ahead.Accuracy = 1
	ratio := func(f *source, tokens int, o pipeline.Options) float64 {
		_, ratio := b.drive(f, tokens, o)
		return ratio
	}
	// Fig. 21: the size of a read and the trace change the throughput. Read-ahead does not.
	first := b.real()[0]
	base := ratio(first, chunk, none)
	if ahead := ratio(first, chunk, readAhead); math.Abs(ahead-base) > 0.02 {
		t.Errorf("Fig. 21: read-ahead changes %.3f to %.3f", base, ahead)
	}
	if larger := ratio(first, 2*chunk, none); larger < base+0.1 {
		t.Errorf("Fig. 21: chunks of twice the size change %.3f to %.3f", base, larger)
	}
	if other := ratio(b.traces[1], chunk, none); math.Abs(other-base) < 0.1 {
		t.Errorf("Fig. 21: another trace changes %.3f to %.3f", base, other)
	}
	// Fig. 16: lookup takes as long in a large cache as in a small one, except in a list.
	for structure, grows := range map[string]bool{"page": false, "list": true} {
		var lookups []float64
		for _, policy := range []string{"window:2", "window:4"} {
			o := pipeline.Options{Batch: 1, Context: k60, Lookup: structure}
			r := b.price(b.profile(first, policy, "", "", 0), "sequential:lookup=cpu", kvdrives, o)
			lookups = append(lookups, r.Causes[schedule.Lookup])
		}
		if (lookups[1] > lookups[0]) != grows {
			t.Errorf("Fig. 16: lookup in a %s takes %g s with a window of 2 and %g s with 4", structure, lookups[0], lookups[1])
		}
	}
}

func model(t *testing.T, lib *hardware.Library, name string) *hardware.Model {
	t.Helper()
	m, err := lib.Model(name)
	fatal.If(t, err)
	return m
}
