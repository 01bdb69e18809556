package ess

import (
	"path/filepath"
	"testing"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

func library(t *testing.T) *hardware.Library {
	t.Helper()
	lib, err := hardware.Load("")
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

// past are the lines that are past their gates.
func past(sections []reproduce.Section) (lines []string) {
	for _, s := range sections {
		for _, l := range s.Lines {
			if !l.Passes() && !l.Known {
				lines = append(lines, s.Name+": "+l.Item)
			}
		}
	}
	return lines
}

// Every line is within its gate or a known miss, and every part of the paper is there.
func TestESS(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short the section is not reproduced")
	}
	traces, err := filepath.Glob(filepath.Join("..", "..", "..", "datasets", "bundled", "*.parquet"))
	if err != nil || len(traces) == 0 {
		t.Fatalf("%d bundled traces (%v)", len(traces), err)
	}
	sections, err := Of(t.Context(), reproduce.Inputs{Traces: traces, Short: true}, library(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range past(sections) {
		t.Error(line)
	}
	lines, figures := map[string]int{}, 0
	for _, s := range sections {
		lines[s.Name] = len(s.Lines)
		figures += len(s.Figures)
		for _, l := range s.Lines {
			t.Logf("%s | %s | %.6g, ours %.6g %s, %+.2f %%, %s, %v %s", s.Name, l.Item, l.Printed, l.Ours, l.Unit, 100*l.Error(), l.Status, l.Passes(), l.Note)
		}
	}
	for name, least := range map[string]int{"table-2-identities": 23, "headlines": 3, "memory": 9, "small-blocks": 4, "table-2": 18, "table-2-unseen": 10,
		"fig-2": 4, "fig-4": 6, "fig-5": 6, "fig-7": 6, "fig-8": 2, "fig-9": 6} {
		if lines[name] < least {
			t.Errorf("%s has %d lines, expected at least %d", name, lines[name], least)
		}
	}
	if figures < 8 {
		t.Errorf("%d figures, expected at least 8", figures)
	}
}

// Wrong constants of the link, the model and the paper are noticed.
func TestGatesBite(t *testing.T) {
	s, err := newStudy(t.Context(), reproduce.Inputs{Short: true}, library(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for name, c := range map[string]struct {
		value *float64
		part  func() ([]reproduce.Section, error)
	}{
		"descriptors of per-block copies": {(*float64)(&s.machine.Link.HostToDevice.Call.Regimes[0].Descriptor.Value), s.blocks},
		"rate of the gather":              {(*float64)(&s.machine.Link.HostToDevice.Kernel.Regimes[0].Rate.Value), s.blocks},
		"bytes of the index":              {(*float64)(&s.model.Indexer.Entry.Value), s.memory},
		"memory of the GPU":               {(*float64)(&s.machine.GPU.Memory.Value), s.memory},
		"a throughput":                    {&table2[3].throughput, s.arithmetic},
		"a best throughput":               {&table2[4].throughput, s.arithmetic},
	} {
		right := *c.value
		for _, factor := range []float64{1, 1.2} {
			*c.value = right * factor
			sections, err := c.part()
			if err != nil {
				t.Fatal(err)
			}
			if lines := past(sections); len(lines) > 0 != (factor > 1) {
				t.Errorf("%s times %g: past their gates are %q", name, factor, lines)
			}
		}
		*c.value = right
	}
}
