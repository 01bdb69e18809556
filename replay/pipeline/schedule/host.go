package schedule

import (
	"errors"

	"github.com/kvreplay/kvreplay/policies"
)

// Host attends on the CPU, to KV in host memory. Queries and outputs move instead of KV. The GPU
// computes the rest, so a layer takes
//
//	project + pre + send + CPU attention + return + post
//
// AttendsAll reads the whole context (FlexGen's computation delegation, ICML 2023, and FastDecode,
// arXiv 2403.11421). AttendsDemand reads the Top-K that the GPU selects, and no KV is on the GPU.
// AttendsMissed reads only the missed part of the Top-K. Meanwhile the GPU attends to the residents,
// and the partial results are merged (MagicPIG, arXiv 2410.16179, divides tokens in this way). The
// misses then move to the GPU's cache, and nothing waits for them.
//
// With Halves, the CPU attends for one half of the batch while the GPU computes for the other
// (FastDecode). Weights are read for each half.
//
// With Weights, the weights are in host memory too (FlexGen, ZeRO-Inference). Those of the next layer
// move while the CPU attends, into one of two buffers. The outputs of the CPU follow them over the link.
type Host struct {
	wholeBatch
	Attends AttendedOnHost
	Halves  bool
	Weights bool
}

// AttendedOnHost are the entries that the CPU attends to.
type AttendedOnHost string

// The entries.
const (
	AttendsAll    AttendedOnHost = "all"
	AttendsDemand AttendedOnHost = "demand"
	AttendsMissed AttendedOnHost = "missed"
)

func parseHost(options string) (Schedule, error) {
	attend, halves, weights := string(AttendsAll), "no", "gpu"
	w, err := canonical("host", options, policies.Word("attend", &attend, "all", "demand", "missed"),
		policies.Word("halves", &halves, "no", "yes"), policies.Word("weights", &weights, "gpu", "host"))
	w = w.without("weights=gpu")
	h := &Host{w, AttendedOnHost(attend), halves == "yes", weights == "host"}
	if err == nil && h.Weights && h.Attends == AttendsMissed {
		return nil, errors.New("attend=missed keeps a cache on the GPU: choose attend=all or attend=demand for weights=host")
	}
	return h, err
}

// Parts returns 2 with halves.
func (h *Host) Parts() int {
	if h.Halves {
		return 2
	}
	return 1
}

// Traits states that queries move, or misses if the GPU has a cache.
func (h *Host) Traits() Traits {
	switch h.Attends {
	case AttendsAll:
		return Traits{Serves: DenseAttended, Moves: MovesQueries, Weights: h.Weights}
	case AttendsDemand:
		return Traits{Serves: SparseTopK, Moves: MovesQueries, Weights: h.Weights}
	}
	return Traits{Serves: SparseTopK, Moves: MovesMisses}
}

// Place adds a step. The parts take turns: the SMs finish a layer and begin the next one, while the
// CPU attends for the other part.
func (h *Host) Place(t *Timeline, s *Step) {
	parts := s.parts()
	last, returned := make([]Op, len(parts)), make([]Op, len(parts))
	for p := range parts {
		last[p], returned[p] = None, None
	}
	done, weights := None, h.load(t, s, 0, None)
	for i := range len(s.Whole) + 1 {
		loaded := weights
		for p := range parts {
			if i > 0 {
				last[p] = t.finish(&parts[p][i-1], i-1, p, last[p], returned[p])
			}
			if i < len(s.Whole) {
				if p == len(parts)-1 { // all parts have left the layer before
					weights = h.load(t, s, i+1, last[p])
				}
				last[p], returned[p] = h.begin(t, &parts[p][i], i, p, last[p], loaded)
			} else {
				done = t.later(done, last[p])
			}
		}
	}
	t.Add(Output, len(s.Whole), 0, s.Output, done)
}

// load adds the load of a layer's weights, after the layer whose buffer it takes.
func (h *Host) load(t *Timeline, s *Step, layer int, free Op) Op {
	if !h.Weights || layer >= len(s.Whole) {
		return None
	}
	d := &s.Whole[layer].Dense
	return t.load(LoadWeights, d, layer, 0, d.Weights, free)
}

// begin adds a layer up to its attention, after its weights. It returns the last operation on the
// SMs, and the return of the CPU's outputs.
func (h *Host) begin(t *Timeline, l *Layer, layer, part int, last, weights Op) (attended, returned Op) {
	last = t.Add(Project, layer, part, l.Project, last, weights)
	if h.Attends != AttendsAll {
		last = t.Add(Select, layer, part, l.Select, last)
	}
	if h.Attends == AttendsMissed {
		last = t.Add(LookupGPU, layer, part, l.LookupGPU, last)
	}
	selected := last
	last = t.Add(Pre, layer, part, l.Pre, last)
	returned = t.Add(SendQueries, layer, part, l.Host.Send, last)
	returned = t.Add(AttendHost, layer, part, l.Host.Attend, returned)
	returned = t.Add(ReturnOutputs, layer, part, l.Host.Return, returned)
	t.store(l, layer, part, last)
	if h.Attends == AttendsMissed {
		last = t.Add(AttendResident, layer, part, l.Attend*(1-l.Missed), last)
		t.fetch(FetchBlocks, l, layer, part, 1, selected)
	}
	return last, returned
}
