package schedule

import (
	"math"
	"math/rand/v2"
	"testing"
)

// partial returns a step whose layers all have the same times.
func partial(n int, again, swap, decode float64) *Step {
	return layers(Layer{Post: decode, Dense: Dense{Again: again, Uncached: Transfer{Seconds: swap}}}, n)
}

// Worked by hand: 4 layers in groups of one that is run again (3) and one that is swapped (2). Each
// decodes in 1. The SMs run 3 again, 3 again, layer 0 until 7, layer 1 until 8, then end at 9 and
// 10. The link brings layer 1 by 2 and layer 3 by 4.
func TestELLMByHand(t *testing.T) {
	one := &ELLM{Uncached: 0.5, Swap: 1, Recompute: 1}
	near(t, "computation binds", place(t, one, partial(4, 3, 2, 1)).End(), 10)
	// Swaps of 10: the link ends at 10 and 20. Layer 1 decodes by 11 and layer 3 by 21.
	near(t, "the link binds", place(t, one, partial(4, 3, 10, 1)).End(), 21)
	// A third group's buffer is free when the first has decoded, at 11. Its swap ends at 30.
	near(t, "three groups", place(t, one, partial(6, 3, 10, 1)).End(), 31)
	// Decoding of 1 + 1 hides 2 of the 3 of the next group.
	fused := &ELLM{Uncached: 0.5, Swap: 1, Recompute: 1, Fused: true}
	near(t, "fused", place(t, fused, partial(4, 3, 2, 1)).End(), 3+2+1+2)
	all := &ELLM{Uncached: 0.5, Recompute: 1}
	near(t, "all run again", place(t, all, partial(5, 3, 99, 1)).End(), 5*4)
	none := &ELLM{Uncached: 0.5, Swap: 1}
	near(t, "all swapped", place(t, none, partial(5, 99, 3, 1)).End(), 5*3+1)
}

// Timeline and closed form are equal on any step.
func TestELLMClosed(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	for range 500 {
		s := random(r, 1+r.IntN(12))
		for i := range s.Whole {
			s.Whole[i].Dense.Again, s.Whole[i].Dense.Uncached = 3*r.Float64(), Transfer{Seconds: 3 * r.Float64()}
		}
		for swap := range MostSwapped + 1 {
			for recompute := range MostRecomputed + 1 {
				for _, fused := range []bool{false, true} {
					if swap+recompute > 0 {
						e := &ELLM{Uncached: 0.3, Swap: swap, Recompute: recompute, Fused: fused}
						near(t, e.Name(), place(t, e, s).End(), e.Closed(s))
					}
				}
			}
		}
	}
}

// eLLM's six configurations at batch 8 with 895 tokens, of which 36 % are uncached, for Llama-2-13B
// on an A100 over 25 GB/s. Running a layer again takes 5.25 ms by Eq. 7, with a layer's cost for a
// layer. Swapping one takes 2.11 ms.
func TestELLMChoosesLeastIdle(t *testing.T) {
	const b, s, r, h, flops = 8, 895, 0.36, 5120, 312e12
	l := Layer{Dense: Dense{Again: b * (24*h*h*s*r + 4*h*s*s*r*r) / flops, Uncached: Transfer{Seconds: 4 * h * b * s * r / 25e9}}}
	for _, c := range []struct {
		swap, recompute int
		ms              float64
	}{{2, 1, 1.03}, {3, 1, 1.08}, {1, 1, 3.14}, {3, 2, 4.17}, {2, 2, 6.28}, {1, 2, 8.39}} {
		if got := l.Idle(c.swap, c.recompute) * 1e3; math.Abs(got-c.ms) > 0.006 {
			t.Errorf("%d swapped, %d run again: %.3f ms idle, expected %.2f", c.swap, c.recompute, got, c.ms)
		}
	}
	if swap, recompute := LeastIdle(&l); swap != 2 || recompute != 1 {
		t.Errorf("%d swapped, %d run again are chosen, expected 2 and 1", swap, recompute)
	}
}

func TestParseELLM(t *testing.T) {
	for text, want := range map[string]string{
		"ellm":                                  "ellm:uncached=auto,swap=auto,recompute=auto,choose=time,fused=no",
		"ellm:uncached=0.36,swap=2,recompute=1": "ellm:uncached=0.36,swap=2,recompute=1,fused=no",
		"ellm:uncached=0.5,swap=1,recompute=0":  "ellm:uncached=0.5,swap=1,recompute=0,fused=no",
		"ellm:uncached=0.5,swap=0,recompute=2":  "ellm:uncached=0.5,swap=0,recompute=2,fused=no",
		"ellm:fused=yes,uncached=auto":          "ellm:uncached=auto,swap=auto,recompute=auto,choose=time,fused=yes",
		"ellm:choose=idle,uncached=0.5":         "ellm:uncached=0.5,swap=auto,recompute=auto,choose=idle,fused=no",
	} {
		if got := scheduleOf(t, text).Name(); got != want || scheduleOf(t, got).Name() != got {
			t.Errorf("%s is %s, expected %s", text, got, want)
		}
	}
	for _, text := range []string{"ellm:swap=1", "ellm:swap=0,recompute=0", "ellm:uncached=2", "ellm:swap=4,recompute=1", "ellm:swap=2,recompute=1,choose=idle", "ellm:choose=best"} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}
