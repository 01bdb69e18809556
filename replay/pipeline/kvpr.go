package pipeline

import (
	"errors"

	"github.com/kvreplay/kvreplay/policies"
)

// KVPR keeps all KV on the host; each step a layer's first positions are recomputed on the
// GPU from their activations, which are half as large as K and V of as many heads, while
// the others move (KVPR, section 3). SplitPoint says how many, anew for every step.
//
// Row by row a layer begins when the one before has ended (latency):
//
//	layer = t(l*) + compute
//
// Column by column several batches pass a layer before the next, and share its weights;
// the next batch's transfers run during the computation of the one before, into one of
// two buffers (throughput). The link never waits where it is what binds:
//
//	layer = w + batches·t(l*)
type KVPR struct {
	Column  bool
	Batches int  // that pass a layer in turn, column by column
	Weights bool // on the host
	text    string
}

func parseKVPR(options string) (Schedule, error) {
	order, where := "row", "gpu"
	k := &KVPR{Batches: 1}
	text, err := policies.ParseOptions(options, policies.Word("order", &order, "row", "column"),
		policies.Int("batches", &k.Batches, 1, 1<<20), policies.Word("weights", &where, "gpu", "host"))
	k.Column, k.Weights, k.text = order == "column", where == "host", text
	if err == nil && !k.Column && k.Batches > 1 {
		err = errors.New("batches above 1 go with order=column")
	}
	return k, err
}

// Name is its text form.
func (k *KVPR) Name() string { return named("kvpr", k.text) }

// Parts is the number of batches that share a layer's weights.
func (k *KVPR) Parts() int { return max(1, k.Batches) }

func (k *KVPR) moves() (Moves, bool) { return MovesLayers, k.Weights }

// Place adds a step.
func (k *KVPR) Place(t *Timeline, s *Step) {
	parts := s.parts()
	last := make([]Op, len(parts)) // of each batch
	for p := range last {
		last[p] = None
	}
	turn, end := 0, None
	free := [2]Op{None, None} // when each buffer is free again
	for i := range s.Whole {
		weights := None
		if k.Weights {
			weights = t.Add(LoadWeights, i, 0, s.Whole[i].Dense.Weights, k.begin(free[turn%2], end))
		}
		for p := range parts {
			l := &parts[p][i]
			n := l.Dense.SplitPoint()
			begin := k.begin(free[turn%2], end)
			x := t.Add(LoadActivations, i, p, float64(n)*l.Dense.Activations, begin)
			kv := t.Add(FetchLayer, i, p, l.Dense.rest(n), x, begin)
			made := t.Add(Recompute, i, p, float64(n)*l.Dense.Recompute, x, weights)
			op := t.Add(Project, i, p, l.Project+l.Pre, last[p], made, weights)
			t.Add(Store, i, p, l.Store, op)
			op = t.Add(Attend, i, p, l.Dense.Attend, op, kv)
			end = t.Add(Post, i, p, l.Post, op)
			last[p], free[turn%2] = end, end
			turn++
		}
	}
	t.Add(Output, len(s.Whole), 0, s.Output, end)
}

// begin is what a transfer waits for: its buffer, or, row by row, all that came before.
func (k *KVPR) begin(free, end Op) Op {
	if k.Column {
		return free
	}
	return end
}

// Closed is the sum of the layers' forms above; column by column without computation,
// which then hides.
func (k *KVPR) Closed(s *Step) float64 {
	sum, parts := s.Output, s.parts()
	for i := range s.Whole {
		if k.Weights {
			sum += s.Whole[i].Dense.Weights
		}
		for p := range parts {
			l := &parts[p][i]
			sum += l.Dense.RecomputeTime(l.Dense.SplitPoint())
			if !k.Column {
				sum += l.Project + l.Pre + l.Dense.Attend + l.Post
			}
		}
	}
	return sum
}
