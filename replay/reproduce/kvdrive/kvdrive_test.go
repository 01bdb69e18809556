package kvdrive

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// sections reproduces from the bundled traces, with a library that change may change.
func sections(t *testing.T, traces []string, change func(*hardware.Library)) (all []reproduce.Section, past []string) {
	t.Helper()
	lib, err := hardware.Load("")
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(lib)
	}
	all, err = Of(t.Context(), reproduce.Inputs{Traces: traces}, lib)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		for i := range s.Lines {
			if l := &s.Lines[i]; l.Verdict() == reproduce.PastGate {
				past = append(past, s.Name+": "+l.Item)
			}
		}
	}
	return all, past
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

// Without traces, the sections that need some say so.
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

// Entries of another size, or weights, are noticed.
func TestGatesBite(t *testing.T) {
	for what, change := range map[string]func(*testing.T, *hardware.Library){
		"entry": func(t *testing.T, lib *hardware.Library) { model(t, lib, "llama-3-8b-1048k").Entry.Value *= 1.1 },
		"GPU": func(t *testing.T, lib *hardware.Library) {
			m, err := lib.Machine("l20")
			if err != nil {
				t.Fatal(err)
			}
			m.GPU.Memory.Value = 80e9
		},
	} {
		if _, past := sections(t, nil, func(lib *hardware.Library) { change(t, lib) }); len(past) == 0 {
			t.Errorf("a changed %s is not noticed", what)
		}
	}
}

func model(t *testing.T, lib *hardware.Library, name string) *hardware.Model {
	t.Helper()
	m, err := lib.Model(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
