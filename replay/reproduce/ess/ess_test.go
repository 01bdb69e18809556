package ess

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

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
			t.Logf("%s | %s | %.6g, ours %.6g %s, %+.2f %%, %s, %v %s", s.Name, l.Item, l.Target.Value(), l.Ours, l.Unit, 100*l.Error(), l.Kind, l.Passes(), l.Note)
		}
	}
	for name, least := range map[string]int{"table-2-identities": 23, "headlines": 3, "memory": 9, "small-blocks": 4, "table-2": 18, "table-2-unseen": 10,
		"fig-2": 4, "fig-4": 6, "fig-5": 6, "fig-7": 6, "fig-8": 2, "fig-9": 6} {
		if lines[name] < least {
			t.Errorf("%s has %d lines, expected at least %d", name, lines[name], least)
		}
	}
	if sections[0].Name != "table-2-unseen" || len(sections[0].Assumptions) < 4 {
		t.Errorf("the paper begins with %s and %d assumptions, expected the table without constants from offloading", sections[0].Name, len(sections[0].Assumptions))
	}
	for i := range sections[1].Lines { // the calibration cells were chosen with the others in view
		if l := &sections[1].Lines[i]; sections[1].Name != "table-2" || l.Kind == reproduce.Transferred || l.Kind == reproduce.Prediction {
			t.Errorf("%s, %s is called %s", sections[1].Name, l.Item, l.Kind)
		}
	}
	if figures < 8 {
		t.Errorf("%d figures, expected at least 8", figures)
	}
}

// Joined positions, as replay --mtp counts them, miss more than single ones. A step of the
// largest batch then takes longer than printed, and the line says so.
func TestJoinedPositionsContradict(t *testing.T) {
	s, at := models(t, reproduce.Inputs{Short: true})
	m := at[short]
	f, err := fit(m.errors(plain), start[:2])
	if err != nil {
		t.Fatal(err)
	}
	for _, mtp := range []int{2, 4} {
		l, err := m.joinedPositions(mtp, stepOf(f.at))
		if err != nil {
			t.Fatal(err)
		}
		if l.Passes() || !l.Known || l.Error() < 0.1 || l.Error() > 0.3 {
			t.Errorf("%s: %+.1f %%, known %v", l.Item, 100*l.Error(), l.Known)
		}
	}
	trace, err := s.synthetic(short)
	if err != nil {
		t.Fatal(err)
	}
	single, err := s.replay(trace, "lru:32", "0.21ctx")
	if err != nil {
		t.Fatal(err)
	}
	joined, err := s.joined(trace, "lru:32", 2, "0.21ctx")
	if err != nil {
		t.Fatal(err)
	}
	if one, two := pool(single[0]), pool(joined[0]); len(two.steps) != (len(one.steps)+1)/2 {
		t.Errorf("%d steps of two positions are made of %d", len(two.steps), len(one.steps))
	}
}

// Of three cells on a line y = a·x of relative errors, each choice of one cell leaves the
// errors that one can work out. Cells that do not determine the constants are left out.
func TestChoices(t *testing.T) {
	f := &fitted{at: []float64{1}, errors: []float64{0.1, -0.1, 0.3}, slopes: mat.NewDense(3, 1, []float64{1, 1, 1})}
	c := f.choices()
	for i, want := range []float64{0.2, 0.4, 0.4} { // errors less that of the chosen cell
		if math.Abs(c.worst[i]-want) > 1e-12 {
			t.Errorf("cell %v leaves %g, expected %g", c.cells[i], c.worst[i], want)
		}
	}
	if text := c.text([]int{0}); !strings.Contains(text, "range from 20.0 % to 40.0 %, median 40.0 %") || !strings.Contains(text, "leave 20.0 %, and 0 of") {
		t.Error(text)
	}
	parallel := &fitted{at: []float64{1, 1}, errors: []float64{0.1, 0.1, 0.1}, slopes: mat.NewDense(3, 2, []float64{1, 2, 2, 4, 1, 3})}
	if c := parallel.choices(); len(c.cells) != 2 || c.vague != 1 {
		t.Errorf("%d choices determine the constants and %d do not, expected 2 and 1", len(c.cells), c.vague)
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
