package pipeline

import (
	"fmt"
	"testing"
)

// kvprSteps prices some steps of a described batch with every order, load and quantisation
// of KVPR, and calls check with each.
func kvprSteps(t *testing.T, machines, models []string, batches, prompts []int, check func(what string, k *KVPR, s *Step)) {
	t.Helper()
	const generate, groups = 9, 3
	for _, machineName := range machines {
		for _, modelName := range models {
			machine, m := parts(t, machineName, modelName)
			for _, text := range []string{"order=row", "order=row,weights=host", "order=row,weights=host,load=coarse", "order=row,weights=host,load=fine",
				"order=column", "order=column,weights=host", "order=column,weights=host,load=coarse", "order=column,weights=host,load=fine",
				"order=column,batches=3", "order=column,batches=3,weights=host", "order=column,batches=3,weights=host,load=coarse", "order=column,batches=3,weights=host,load=fine"} {
				for _, numbers := range []string{"", ",kv=int4", ",x=int4", ",kv=int4,x=int4"} {
					for _, batch := range batches {
						for _, prompt := range prompts {
							for _, path := range []string{"fastest", "kernel"} {
								p, scaling, err := Decoding(prompt, generate, false, m)
								if err != nil {
									t.Fatal(err)
								}
								o := Options{Machine: machine, Model: m, Scaling: scaling, Schedule: schedule(t, "kvpr:"+text+numbers), Batch: batch, Threads: 1, Path: path}
								r, err := newRunner(t.Context(), p, o)
								if err != nil {
									t.Fatal(err)
								}
								step := (batch + prompt) % (generate - 1)
								if err := r.priceStep(step); err != nil {
									t.Fatal(err)
								}
								what := fmt.Sprintf("%s, %s, %s%s, batch %d, prompt %d, step %d, path %s", machineName, modelName, text, numbers, batch, prompt, step, path)
								check(what, r.schedule.(*KVPR), &r.step)
							}
						}
					}
				}
			}
		}
	}
}

// takes is the step's time with n positions recomputed.
func takes(k *KVPR, s *Step, n int) float64 {
	t := NewTimeline()
	k.place(t, s, n)
	t.Contend(s)
	return t.End()
}

// The chosen split is at least as fast as every other one, for every order, load,
// quantisation and path.
func TestSplitIsTheFastest(t *testing.T) {
	positive, steps := 0, 0
	kvprSteps(t, []string{"a100-40", "gh200"}, []string{"opt-6.7b", "llama-3.1-8b"}, []int{3, 32}, []int{1, 2, 17, 48}, func(what string, k *KVPR, s *Step) {
		best, least := 0, takes(k, s, 0)
		for n := 1; n <= s.Whole[0].Dense.most(); n++ {
			if v := takes(k, s, n); v < least*(1-1e-9) {
				best, least = n, v
			}
		}
		if got := takes(k, s, *s.split); got > least*(1+1e-9) {
			t.Errorf("%s: split %d takes %g s, the fastest is %d with %g s", what, *s.split, got, best, least)
		}
		if steps++; *s.split > 0 {
			positive++
		}
	})
	if positive == 0 || positive == steps {
		t.Errorf("%d of %d steps recompute something, expected some", positive, steps)
	}
}

// With long prompts as well, recomputing is never slower than moving all KV, and never
// slower than the paper's split.
func TestRecomputingIsNeverSlower(t *testing.T) {
	slower := 0
	kvprSteps(t, []string{"a100-40", "rtx5000"}, []string{"opt-6.7b", "opt-13b"}, []int{4, 32}, []int{512, 1500}, func(what string, k *KVPR, s *Step) {
		got, none := takes(k, s, *s.split), takes(k, s, 0)
		paper := *k
		paper.Recompute = RecomputePaper
		published := takes(&paper, s, 0)
		if got > none || got > published*(1+1e-9) {
			t.Errorf("%s: split %d takes %g s, without recomputing %g s, with the paper's split %g s", what, *s.split, got, none, published)
		}
		if published > none {
			slower++
		}
	})
	if slower == 0 {
		t.Error("the paper's split is never slower than none: the test shows nothing")
	}
}

// Batches whose requests have different lengths: still never slower than moving all KV.
func TestUnequalRequestsAreNeverSlower(t *testing.T) {
	sample := read(t, realProfile(t))
	for _, text := range []string{"kvpr", "kvpr:order=column,batches=2,weights=host", "kvpr:order=column,batches=3,kv=int4,x=int4"} {
		for _, batch := range []int{3, 7} {
			o := options(t, sample, text)
			o.Batch = batch
			r, err := newRunner(t.Context(), sample, o)
			if err != nil {
				t.Fatal(err)
			}
			for step := range r.batch.Steps {
				if err := r.priceStep(step); err != nil {
					t.Fatal(err)
				}
				k := r.schedule.(*KVPR)
				if got, none := takes(k, &r.step, r.split), takes(k, &r.step, 0); got > none {
					t.Fatalf("%s, batch %d, step %d: split %d takes %g s, without recomputing %g s", text, batch, step, r.split, got, none)
				}
			}
		}
	}
}

// bottom finds the least of convex functions wherever it begins, and of equals the first.
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
