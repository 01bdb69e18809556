package ess

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/kvreplay/kvreplay/datasets/synthetic"
	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// begin starts the study with short synthetic traces unless whole ones are requested.
func begin(t *testing.T, in reproduce.Inputs) *bench {
	t.Helper()
	in.Synthetic = func(ctx context.Context, path, preset string, steps int) error {
		d, err := synthetic.Preset(preset)
		if err != nil {
			return err
		}
		if d.Candidates = d.TopK; steps > 0 {
			d.Steps = steps
		}
		return synthetic.Write(ctx, path, d, synthetic.Options{})
	}
	s, err := reproduce.Begin(t.Context(), Paper(), in)
	fatal.If(t, err)
	t.Cleanup(s.Close)
	return newBench(s)
}

// Every line is within its gate or a known miss, and every part of the paper is covered.
func TestESS(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short the section is not reproduced")
	}
	traces, err := filepath.Glob(filepath.Join("..", "..", "..", "datasets", "bundled", "*.parquet"))
	if err != nil || len(traces) == 0 {
		t.Fatalf("%d bundled traces (%v)", len(traces), err)
	}
	sections, err := begin(t, reproduce.Inputs{Traces: traces, Short: true}).Run()
	fatal.If(t, err)
	for _, line := range reproduce.Past(sections) {
		t.Error(line)
	}
	lines, figures := map[string]int{}, 0
	for _, s := range sections {
		lines[s.Name] = len(s.Lines)
		figures += len(s.Figures)
		for _, l := range s.Lines {
			t.Logf("%s | %s | %v %v, ours %.6g %s, %+.2f %%, %s, %s %s", s.Name, l.Item, l.Printed, l.Reference, l.Ours, l.Unit, 100*l.Error, l.Kind, l.Result, l.Note)
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
	for i := range sections[1].Lines { // the calibration cells were chosen in view of the others
		if l := &sections[1].Lines[i]; sections[1].Name != "table-2" || l.Kind == reproduce.Transferred || l.Kind == reproduce.Prediction {
			t.Errorf("%s, %s is called %s", sections[1].Name, l.Item, l.Kind)
		}
	}
	if figures < 8 {
		t.Errorf("%d figures, expected at least 8", figures)
	}
}

// Joined positions, as replay --mtp counts them, miss more than single ones. A step of the largest
// batch then takes longer than printed.
func TestJoinedPositionsContradict(t *testing.T) {
	b := begin(t, reproduce.Inputs{Short: true})
	m := b.newModel(short)
	f, err := fit(m.errors(b.plain()), start[:2])
	fatal.If(t, err)
	for _, r := range []*row{b.find(short, 2, 1.7, 160), b.find(short, 4, 2.8, 160)} {
		p := m.replay(b.synthetic(short), "lru:32", r.mtp, capacitiesOf(r.ratio)...)[0]
		if e := m.with(r, p).priced(r, stepOf(f.at)).Mean/r.seconds() - 1; e < 0.1 || e > 0.3 {
			t.Errorf("MTP %d: a step of joined positions takes %+.1f %%", r.mtp, 100*e)
		}
	}
	single, joined := b.replay(b.synthetic(short), "lru:32", 1, "0.21ctx"), b.replay(b.synthetic(short), "lru:32", 2, "0.21ctx")
	if one, two := pool(single[0]), pool(joined[0]); len(two.steps) != (len(one.steps)+1)/2 {
		t.Errorf("%d steps of two positions are made of %d", len(two.steps), len(one.steps))
	}
}

// Three cells have relative errors on a line y = a·x. The errors after each choice of one cell can
// then be worked out by hand. Choices that do not determine the constants are left out.
func TestChoices(t *testing.T) {
	f := &fitted{at: []float64{1}, errors: []float64{0.1, -0.1, 0.3}, slopes: mat.NewDense(3, 1, []float64{1, 1, 1})}
	c := f.choices()
	for i, want := range []float64{0.2, 0.4, 0.4} { // errors minus that of the chosen cell
		if math.Abs(c.worst[i]-want) > 1e-12 {
			t.Errorf("cell %v leaves %g, expected %g", c.cells[i], c.worst[i], want)
		}
	}
	for name, want := range map[string]float64{"least": 20, "median": 40, "most": 40, "own": 20, "better": 0, "choices": 3, "all": 3} {
		if got := c.compare([]int{0}).Number(name); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %g, expected %g", name, got, want)
		}
	}
	parallel := &fitted{at: []float64{1, 1}, errors: []float64{0.1, 0.1, 0.1}, slopes: mat.NewDense(3, 2, []float64{1, 2, 2, 4, 1, 3})}
	if c := parallel.choices(); len(c.cells) != 2 {
		t.Errorf("%d of 3 choices determine the constants, expected 2", len(c.cells))
	}
}

// Wrong constants of the link, the model or the paper are detected.
func TestGatesBite(t *testing.T) {
	blocks, memory, identities := (*bench).blocks, (*bench).memory, (*bench).identities
	for name, c := range map[string]struct {
		value    func(*bench) *float64
		part     func(*bench)
		sections []string
	}{
		"descriptors of per-block copies": {func(b *bench) *float64 {
			return (*float64)(&b.machine.Link.HostToDevice.Call.Regimes[0].Descriptor.Value)
		}, blocks, []string{"small-blocks"}},
		"rate of the gather": {func(b *bench) *float64 { return (*float64)(&b.machine.Link.HostToDevice.Kernel.Regimes[0].Rate.Value) }, blocks, []string{"small-blocks"}},
		"bytes of the index": {func(b *bench) *float64 { return (*float64)(&b.model.Indexer.Entry.Value) }, memory, []string{"memory"}},
		"memory of the GPU":  {func(b *bench) *float64 { return (*float64)(&b.machine.GPU.Memory.Value) }, memory, []string{"memory"}},
		"a throughput":       {func(b *bench) *float64 { return &b.table2[3].throughput }, identities, []string{"table-2-identities", "headlines"}},
		"a best throughput":  {func(b *bench) *float64 { return &b.table2[4].throughput }, identities, []string{"table-2-identities", "headlines"}},
	} {
		for _, factor := range []float64{1, 1.2} {
			b := begin(t, reproduce.Inputs{Short: true})
			*c.value(b) *= factor
			c.part(b)
			var sections []reproduce.Section
			for _, name := range c.sections {
				sections = append(sections, b.Section(name).Finish())
			}
			if lines := reproduce.Past(sections); len(lines) > 0 != (factor > 1) {
				t.Errorf("%s times %g: past their gates are %q", name, factor, lines)
			}
		}
	}
}

// An H20 is too slow for the paper: the weights' products of a query token, at its peak, take longer
// than the whole fitted computation of a query token.
func TestH20IsTooSlow(t *testing.T) {
	b := begin(t, reproduce.Inputs{Short: true, Sections: []string{"table-2-unseen"}})
	sections, err := b.Run()
	fatal.If(t, err)
	i := slices.IndexFunc(sections[0].Constants, func(c reproduce.Constant) bool { return strings.HasSuffix(c.Name, "a query token") })
	if i < 0 {
		t.Fatalf("constants %+v", sections[0].Constants)
	}
	model, weights := b.Model("deepseek-v3.2"), 0.
	for layer := range int(model.Layers.Value) {
		_, active := model.FFNParameters(layer)
		weights += active.Sum() + model.AttentionParameters().Sum()
	}
	took := 1e3 * 2 * weights / float64(b.Machine("h20").GPU.FP8.Value)
	if fitted := float64(sections[0].Constants[i].Value); took <= fitted {
		t.Errorf("products take %g ms, the fitted computation %g ms", took, fitted)
	}
}
