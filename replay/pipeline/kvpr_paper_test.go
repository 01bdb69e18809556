package pipeline

import (
	"math"
	"testing"
)

// KVPR's tables, by its own schedules. What is printed, and what the paper leaves open, by
// arithmetic on its numbers: Tables 3 and 4 are seconds of gen − 1 decode steps of 64
// requests, whose whole allocated cache (prompt + gen positions) moves every step; Table
// 2 is tokens/s of one batch whose weights move as well, with the KV of the actual length.
// The paper states neither effective rates nor overheads: the constants below are fitted
// to the cells named with them, all other cells are predicted.

// opt is a layer of an OPT model in FP16.
func opt(hidden, batch, positions, prompt, v, flops, overhead float64) Layer {
	x := batch * hidden * 2 / v
	return Layer{Post: overhead, Dense: Dense{KV: Transfer{Seconds: 2 * x * positions}, Positions: int(positions), Prompt: int(prompt),
		Activations: x, Recompute: 4 * batch * hidden * hidden / flops, Weights: 24 * hidden * hidden / v}}
}

func within(t *testing.T, what string, got, printed, share float64) {
	t.Helper()
	if e := got/printed - 1; math.Abs(e) > share {
		t.Errorf("%s: %.4g, the paper prints %.4g (%+.1f %%), expected within %.0f %%", what, got, printed, 100*e, 100*share)
	}
}

func TestKVPRTable4(t *testing.T) {
	const v, flops, overhead = 26.38e9, 72.5e12, 1.252e-3 // from Accelerate 128/32 and 512/32, KVPR 512/32
	row := schedule(t, "kvpr")
	for _, c := range []struct{ prompt, gen, accelerate, kvpr float64 }{
		{128, 32, 11.409, 9.148}, {128, 128, 73.896, 66.119}, {256, 32, 19.381, 16.654},
		{256, 128, 104.115, 88.492}, {512, 32, 35.066, 29.215}, {512, 128, 168.155, 138.377},
	} {
		moved := opt(5120, 64, c.prompt+c.gen, 0, v, flops, overhead) // nothing is recomputed
		split := opt(5120, 64, c.prompt+c.gen, c.prompt, v, flops, overhead)
		within(t, "Accelerate", (c.gen-1)*place(t, row, layers(moved, 40)).End(), c.accelerate, 0.05)
		within(t, "KVPR", (c.gen-1)*place(t, row, layers(split, 40)).End(), c.kvpr, 0.10)
	}
}

func TestKVPRTable2(t *testing.T) {
	const v, flops = 22.96e9, 72.5e12 // from FlexGen at batch 1; Table 4's
	column := schedule(t, "kvpr:order=column,weights=host")
	for _, c := range []struct{ batch, flexgen, kvpr float64 }{
		{1, 1.761, 1.774}, {2, 3.488, 3.586}, {4, 6.646, 6.696}, {8, 12.826, 12.986}, {16, 23.795, 24.557}, {32, 41.210, 43.945},
	} {
		var moved, split float64
		for i := 1.; i < 64; i++ {
			moved += place(t, column, layers(opt(4096, c.batch, 256+i, 0, v, flops, 0), 32)).End()
			split += place(t, column, layers(opt(4096, c.batch, 256+i, 256, v, flops, 0), 32)).End()
		}
		within(t, "FlexGen", c.batch*63/moved, c.flexgen, 0.04)
		within(t, "KVPR", c.batch*63/split, c.kvpr, 0.04)
		if split > moved {
			t.Errorf("batch %g: recomputing takes %g s, moving all %g", c.batch, split, moved)
		}
	}
}

// The split grows with the cache and stays at the prompt's length.
func TestKVPRFig12(t *testing.T) {
	before := 0
	for s := 129.; s < 1000; s++ {
		l := opt(4096, 64, s, 128, 32e9, 312e12, 0)
		n := l.Dense.SplitPoint()
		if n < before || n > 128 {
			t.Fatalf("the split goes from %d to %d at %g positions", before, n, s)
		}
		before = n
	}
	if before != 128 {
		t.Errorf("the split ends at %d, expected the prompt's 128", before)
	}
}
