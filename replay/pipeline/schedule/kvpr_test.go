package schedule

import (
	"math/rand/v2"
	"testing"
)

// One layer has x=10, y=20, g=30 and 100 positions, of which 40 are recomputed. Its weights take
// 900: 150 for W_K and W_V, 300 for attention. Worked by hand:
//
//	first   900 + 400 + max(40·30, 60·20)
//	coarse  recompute from 400 + 1200 + 300 on, for 1200
//	fine    recompute from 400 + 1200 + 150 on, for 1200
//
// With ten times the weights, all of it hides behind those of the FFN.
func TestWeightOrderByHand(t *testing.T) {
	l := kvprLayer(10, 20, 30, 100, 100)
	l.Dense.KeyValueShare, l.Dense.AttentionShare = 1./6, 1./3
	for _, c := range []struct {
		load    string
		weights float64
		want    float64
	}{{"first", 900, 2500}, {"coarse", 900, 3100}, {"fine", 900, 2950}, {"first", 9000, 10600}, {"coarse", 9000, 10600}, {"fine", 9000, 10600}} {
		l.Dense.Weights = c.weights
		row := scheduleOf(t, "kvpr:weights=host,recompute=paper,load="+c.load).(*KVPR)
		near(t, c.load, place(t, row, layers(l, 3)).End(), 3*c.want)
		near(t, c.load+", closed", row.Closed(layers(l, 3)), 3*c.want)
	}
	// Each arriving quantised position, 60 of 7 each, is made FP16 while weights load.
	l.Dense.Dequantize, l.Dense.Weights = 7, 900
	near(t, "first, dequantised", place(t, scheduleOf(t, "kvpr:weights=host,recompute=paper"), layers(l, 1)).End(), 2500+420)
	near(t, "fine, dequantised", place(t, scheduleOf(t, "kvpr:weights=host,load=fine,recompute=paper"), layers(l, 1)).End(), 400+1200+420+1200)
}

// heavy returns a random step of n batches in which the link is the bottleneck for each part.
func heavy(r *rand.Rand, layers, n int, compute float64) *Step {
	s := &Step{Output: r.Float64()}
	draw := func() Layer {
		positions, y := 100+r.IntN(10), 1+0.1*r.Float64()
		small := func() float64 { return compute * y * float64(positions) * r.Float64() }
		l := Layer{Project: small(), Pre: small(), Post: small(), Store: 1e-3, Scatter: 0.5}
		l.Dense = Dense{Attend: small(), KV: Transfer{Seconds: y * float64(positions)}, Positions: positions, Prompt: r.IntN(150),
			Activations: y / 2, Recompute: 3 * y * r.Float64(), Dequantize: compute * y * r.Float64(), Quantize: small(),
			Weights: 10 * y * float64(positions), KeyValueShare: 1. / 6, AttentionShare: 1. / 3}
		return l
	}
	for range layers {
		s.Whole = append(s.Whole, draw())
	}
	for range n {
		part := make([]Layer, layers)
		for i := range part {
			part[i] = draw()
			part[i].Dense.Weights = s.Whole[i].Dense.Weights
		}
		s.Parts = append(s.Parts, part)
	}
	return s
}

// Row by row, timeline and closed form always agree. Column by column they agree if the link is the
// bottleneck. The paper's split keeps the link busy, but the fastest split does not.
func TestKVPRClosed(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 200 {
		s := heavy(r, 1+r.IntN(6), 0, 0.5)
		for _, text := range []string{"kvpr", "kvpr:recompute=off", "kvpr:recompute=paper", "kvpr:weights=host", "kvpr:weights=host,load=coarse", "kvpr:weights=host,load=fine"} {
			c := scheduleOf(t, text).(Closed)
			near(t, text, place(t, c, s).End(), c.Closed(s))
		}
		s = heavy(r, 1+r.IntN(6), 1+r.IntN(5), 0.02)
		for _, text := range []string{"kvpr:order=column,recompute=paper", "kvpr:order=column,weights=host,recompute=paper", "kvpr:order=column,weights=host,load=coarse,recompute=paper",
			"kvpr:order=column,weights=host,load=fine,recompute=paper", "flexgen", "flexgen:weights=host", "kvpr:order=column,recompute=off"} {
			c := scheduleOf(t, text).(Closed)
			tl := place(t, c, s)
			near(t, text+": the link never waits", busy(tl, H2D), linkEnd(tl))
			near(t, text, tl.End(), c.Closed(s))
		}
	}
}

// linkEnd returns the end of the last transfer to the GPU.
func linkEnd(t *Timeline) (end float64) {
	for _, e := range t.Events {
		if e.Kind.Resource() == H2D {
			end = max(end, e.End)
		}
	}
	return end
}

// FlexGen equals KVPR column by column without recomputing.
func TestFlexGenIsKVPRWithoutRecomputing(t *testing.T) {
	s := heavy(rand.New(rand.NewPCG(5, 5)), 6, 3, 0.5)
	a, b := place(t, scheduleOf(t, "flexgen:batches=3,weights=host"), s), place(t, scheduleOf(t, "kvpr:order=column,batches=3,weights=host,recompute=off"), s)
	near(t, "flexgen", a.End(), b.End())
	if kvpr := place(t, scheduleOf(t, "kvpr:order=column,batches=3,weights=host,recompute=paper"), s); busy(kvpr, H2D) >= busy(a, H2D) {
		t.Errorf("recomputing leaves the link busy for %g, without it %g", busy(kvpr, H2D), busy(a, H2D))
	}
}

// By hand: 64 numbers are 32 B and two of FP16. To make them FP16 again, unpacking reads and writes
// 2 × (32+32 + 32+64), and division and addition take 128+128+2 each.
func TestQuantization(t *testing.T) {
	q := Quantization{64}
	near(t, "bytes", 64*q.PerNumber(), 36)
	near(t, "of FP16", q.Ratio(), 0.28125)
	near(t, "dequantised", 64*q.Dequantized(), 2*(32+32+32+64)+2*(128+128+2))
	near(t, "quantised", q.Quantized(), 2+2+4*4+3+2.5)
	var none Quantization
	near(t, "FP16", none.PerNumber(), 2)
	near(t, "FP16, its cost", none.Dequantized()+none.Quantized(), 0)
}

// The split grows with the cache up to the prompt's length (KVPR, Fig. 12). By hand at the rates of
// Figure 1 for OPT-6.7B and 64 requests: moving a position's K and V takes 30.5 µs and recomputing
// them 13.8. So 89 of 129 and 110 of 160 are recomputed.
func TestSplitGrows(t *testing.T) {
	y, g := 64*16384/float64(32<<30), 4.*64*4096*4096/312e12
	at := func(positions int) int {
		l := kvprLayer(y/2, y, g, positions, 128)
		return l.Dense.SplitPoint()
	}
	before := 0
	for s := 129; s < 1000; s++ {
		n := at(s)
		if n < before || n > 128 {
			t.Fatalf("the split goes from %d to %d at %d positions", before, n, s)
		}
		before = n
	}
	if before != 128 || at(129) != 89 || at(160) != 110 {
		t.Errorf("splits %d and %d, in the end %d; expected 89, 110 and the prompt's 128", at(129), at(160), before)
	}
}

// bottom finds the least value of convex functions from any start, and the first among equals.
func TestBottom(t *testing.T) {
	for high := 1; high < 40; high++ {
		for at := 0; at <= high+1; at++ {
			for wide := range 3 {
				f := func(n int) int { return max(at-n, n-at-wide, 0) }
				for near := -1; near <= high+1; near++ {
					want := min(max(at, 1), high)
					if got := bottom(1, high, near, func(n int) bool { return f(n+1) < f(n) }); got != want {
						t.Fatalf("bottom at %d, %d wide, of 1 to %d from %d: %d", at, wide, high, near, got)
					}
				}
			}
		}
	}
}
