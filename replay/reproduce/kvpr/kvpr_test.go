package kvpr

import (
	"math"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

func newBench(t *testing.T) *bench {
	t.Helper()
	s, err := reproduce.Begin(t.Context(), Paper(), reproduce.Inputs{})
	fatal.If(t, err)
	t.Cleanup(s.Close)
	return &bench{s}
}

// Every cell is within its gate or contradicted by the paper. Cells that constants are fitted to do
// not count, and they are no more than the constants.
func TestWithinGates(t *testing.T) {
	sections, err := newBench(t).Run()
	fatal.If(t, err)
	lines, known := map[reproduce.Kind]int{}, map[reproduce.Kind]int{}
	for _, s := range sections {
		for _, l := range s.Lines {
			switch {
			case l.Result == reproduce.KnownMiss:
				known[l.Kind]++
			case l.Result == reproduce.PastGate:
				t.Errorf("%s, %s: %g, the paper prints %g (%+.1f %%), past ± %g", s.Name, l.Item, l.Ours, l.Printed, 100*l.Error, l.Relative)
			}
			lines[l.Kind]++
		}
	}
	// Table 1: 3 links and 3 sizes are arithmetic, and 3 reads are predictions. Tables 2 to 5 have
	// 18, 12, 12 and 12 cells, each predicted by default and compared again with fitted constants.
	// Six of the latter are fitted cells. Table 5 also predicts 6 gains.
	if lines[reproduce.Fitted] != 6 || lines[reproduce.Transferred] != 48 || lines[reproduce.Prediction] != 3+54+6 {
		t.Errorf("%d cells are fitted, %d transferred, %d predicted, expected 6, 48, 63", lines[reproduce.Fitted], lines[reproduce.Transferred], lines[reproduce.Prediction])
	}
	if known[reproduce.Transferred] != 6 {
		t.Errorf("%d transferred cells are known misses, expected half of Table 3's", known[reproduce.Transferred])
	}
}

// A constant slightly outside its range puts a judged cell past its gate.
func TestGatesBite(t *testing.T) {
	c := newBench(t).fit()
	for _, change := range []struct {
		name, section string
		constant      *float64
		factor        float64
	}{
		{"link", "table-4", &c.row.link, 1.06}, {"link", "table-4", &c.row.link, 0.94}, {"overhead", "table-4", &c.row.overhead, 2}, {"overhead", "table-4", &c.row.overhead, 0.3},
		{"recomputation", "table-4", &c.row.flops, 2}, {"recomputation", "table-4", &c.row.flops, 0.5}, {"link", "table-3", &c.row.link, 1.1},
		{"link", "table-2", &c.column.link, 1.03}, {"link", "table-2", &c.column.link, 0.96},
		{"recomputation", "table-5", &c.low.flops, 1.5}, {"link", "table-5", &c.low.link, 1.04}, {"once", "table-5", &c.once, 0.8},
	} {
		was := *change.constant
		*change.constant *= change.factor
		b := newBench(t)
		map[string]func(*constants){"table-2": b.table2, "table-3": b.table3, "table-4": b.table4, "table-5": b.table5}[change.section](c)
		*change.constant = was
		past := 0
		for _, l := range b.Section(change.section).Finish().Lines {
			if l.Kind == reproduce.Transferred && l.Result == reproduce.PastGate {
				past++
			}
		}
		if past == 0 {
			t.Errorf("%s, %s × %g: every judged cell is still within its gate", change.section, change.name, change.factor)
		}
	}
}

// The pipeline gives KVPR's Eq. 10 and FlexGen's sum of bytes: the paper's formulas by hand, plus a
// layer's constant overhead.
func TestPricedIsThePapersFormula(t *testing.T) {
	b := newBench(t)
	r := rates{link: 26e9, flops: 70e12, overhead: 1e-3}
	const layers, hidden = 40, 5120
	for _, row := range b.Rows("table-4") {
		prompt, generate := row.Number("prompt"), row.Number("generation")
		positions := prompt + generate
		x, g := requests*hidden*2/r.link, 4*requests*hidden*hidden/r.flops
		least := math.Inf(1)
		for n := 0.; n <= prompt; n++ {
			least = min(least, n*x+max(n*g, 2*x*(positions-n)))
		}
		for schedule, layer := range map[string]float64{accelerate: 2 * x * positions, rowByRow: least} {
			got := b.seconds(latency("opt-13b", row, schedule), r)
			if want := (generate - 1) * layers * (layer + r.overhead); math.Abs(got/want-1) > 1e-9 {
				t.Errorf("%s at %g/%g takes %.12g s, by the formula %.12g", schedule, prompt, generate, got, want)
			}
		}
	}
	// Column by column: weights of 12·h² and their biases, and KV of the used positions.
	low := rates{link: 10e9, flops: 20e12}
	got := b.lowTokens(b.Rows("table-5")[1], flexgenBatches, low, math.Inf(1))
	const small = 4096
	bytes := 32 * (2*(12*small*small+9*small) + 2*inAll*small*2*(256+64.))
	if want := inAll * low.link / bytes; math.Abs(got/want-1) > 0.002 {
		t.Errorf("FlexGen makes %g tokens/s, by bytes alone %g", got, want)
	}
}

func TestSolve(t *testing.T) {
	x, err := solve([]float64{1, 1}, []float64{7, 2.25}, func(x []float64) []float64 {
		return []float64{6/x[0] + x[1], 3/x[0] + x[1]/4} // the solution is 3 and 5
	})
	if err != nil || math.Abs(x[0]-3) > 1e-6 || math.Abs(x[1]-5) > 1e-6 {
		t.Errorf("solved by %g, expected 3 and 5: %v", x, err)
	}
	if _, err := solve([]float64{1}, []float64{2}, func(x []float64) []float64 { return []float64{1} }); err == nil {
		t.Error("a constant that changes nothing is found")
	}
	c, err := between(1, 100, 4, func(x float64) float64 { return 20 / x })
	if err != nil || math.Abs(c-5) > 1e-9 {
		t.Errorf("between: %g, expected 5: %v", c, err)
	}
	if _, err := between(1, 4, 4, func(x float64) float64 { return 20 / x }); err == nil || !strings.Contains(err.Error(), "no constant between") {
		t.Errorf("beyond its range: %v", err)
	}
}
