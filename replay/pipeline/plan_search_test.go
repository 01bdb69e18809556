package pipeline

import "testing"

// Where tokens/s rise and then fall, as eLLM's do once requests no longer fit whole, the
// plan has the best of all batches, priced one by one, wherever the search began.
func TestPlanFindsThePeak(t *testing.T) {
	p, o := decodes(t, 900, 1, "ellm")
	best, tokens := 0, 0.
	for batch := 1; batch <= 80; batch++ {
		o.Batch = batch
		if r := priced(t, p, o); r.Fits() && r.Tokens > tokens {
			best, tokens = batch, r.Tokens
		}
	}
	if best <= 33 || best >= 79 { // the peak is between powers of 2, and no edge
		t.Fatalf("the best of all batches is %d", best)
	}
	for _, most := range []int{best - 1, best, best + 1, best + 2, 80, 512} {
		plan, err := Plan(t.Context(), []*Profile{p}, PlanOptions{Options: o, Schedules: []Schedule{o.Schedule}, LayerMap: "nearest", MaxBatch: most})
		if err != nil {
			t.Fatal(err)
		}
		want, binding := min(best, most), BindsThroughput
		if most <= best {
			binding = BindsBatch
		}
		if c := plan.Candidates[0]; c.Batch != want || c.Binding != binding {
			t.Errorf("at most %d: batch %d with %g tokens/s, bound by %s; expected %d, bound by %s", most, c.Batch, c.Tokens, c.Binding, want, binding)
		}
	}
}
