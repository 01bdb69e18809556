package schedule

import "github.com/kvreplay/kvreplay/policies"

// Sequential does one thing at a time (KVDrive, section 3): a layer takes
//
//	project + select + look up + fetch + compute (+ update, if the CPU looks up)
type Sequential struct {
	wholeBatch
	CPU bool // the host looks up, as in KVDrive, instead of a kernel, as in ESS
}

func parseSequential(options string) (Schedule, error) {
	lookup := "gpu"
	w, err := canonical("sequential", options, policies.Word("lookup", &lookup, "gpu", "cpu"))
	return &Sequential{w, lookup == "cpu"}, err
}

// Place adds a step.
func (q *Sequential) Place(t *Timeline, s *Step) {
	t.layers(s, func(i int, l *Layer, last Op) Op {
		last = t.Add(Project, i, 0, l.Project, last)
		last = t.Add(Select, i, 0, l.Select, last)
		if q.CPU {
			last = t.Add(LookupCPU, i, 0, l.LookupCPU, last)
		} else {
			last = t.Add(LookupGPU, i, 0, l.LookupGPU, last)
		}
		last = t.compute(l, i, 0, None, t.fetch(FetchBlocks, l, i, 0, 1, last))
		if q.CPU {
			last = t.Add(Update, i, 0, l.Update, last)
		}
		return last
	})
}

// OnGPU keeps all KV on the GPU, so nothing moves. Attention is sparse: it reads the Top-K that the
// selection finds. With Dense there is no selection, and attention reads the whole context. A model
// with dense attention gives other answers than one that attends to its Top-K. So the two are
// different services.
type OnGPU struct{ Dense bool }

// Name returns gpu or dense.
func (g OnGPU) Name() string {
	if g.Dense {
		return "dense"
	}
	return "gpu"
}

// Parts returns 1.
func (OnGPU) Parts() int { return 1 }

// Traits states that nothing moves.
func (g OnGPU) Traits() Traits {
	if g.Dense {
		return Traits{Serves: DenseAttended, Moves: MovesNothing}
	}
	return Traits{Serves: SparseTopK, Moves: MovesNothing}
}

// Place adds a step.
func (g OnGPU) Place(t *Timeline, s *Step) {
	t.layers(s, func(i int, l *Layer, last Op) Op {
		if g.Dense {
			return t.attendDensely(l, i, last, None)
		}
		last = t.Add(Project, i, 0, l.Project, last)
		last = t.Add(Select, i, 0, l.Select, last)
		last = t.Add(Pre, i, 0, l.Pre, last)
		last = t.Add(Attend, i, 0, l.Attend, last)
		return t.reduce(l, i, t.finish(l, i, 0, last))
	})
}

// Kept attends to the entries that a lossy policy keeps (H2O, SnapKV, StreamingLLM and others). All
// of them are on the GPU. Nothing is selected, and nothing moves. The work of the policy itself is
// not counted.
type Kept struct{ wholeBatch }

// Traits states that dropped entries never come back.
func (Kept) Traits() Traits { return Traits{Serves: Compressed, Moves: MovesDropped} }

// Place adds a step.
func (Kept) Place(t *Timeline, s *Step) { OnGPU{}.Place(t, s) }
