package pipeline

import "github.com/kvreplay/kvreplay/policies"

// FlexGen keeps all KV on the host and moves each layer's every step, a layer ahead, into
// one of two buffers; attention reads all of it, there is no selection. With weights on
// the host they move before it (Sheng et al., FlexGen, ICML 2023; KVPR, section 2).
type FlexGen struct {
	Weights bool // on the host
	text    string
}

func parseFlexGen(options string) (Schedule, error) {
	where := "gpu"
	text, err := policies.ParseOptions(options, policies.Word("weights", &where, "gpu", "host"))
	return &FlexGen{where == "host", text}, err
}

// Name is its text form.
func (f *FlexGen) Name() string { return named("flexgen", f.text) }

// Parts is 1.
func (f *FlexGen) Parts() int { return 1 }

func (f *FlexGen) moves() (Moves, bool) { return MovesLayers, f.Weights }

// Place adds a step.
func (f *FlexGen) Place(t *Timeline, s *Step) {
	last, attended := None, [2]Op{None, None} // when each buffer is free
	for i := range s.Whole {
		l := &s.Whole[i]
		free, weights := attended[i%2], None
		if f.Weights {
			weights = t.Add(LoadWeights, i, 0, l.Dense.Weights, free)
		}
		kv := t.Add(FetchLayer, i, 0, l.Dense.KV.Seconds, free)
		last = t.Add(Project, i, 0, l.Project+l.Pre, last, weights)
		t.Add(Store, i, 0, l.Store, last)
		last = t.Add(Attend, i, 0, l.Dense.Attend, last, kv)
		last = t.Add(Post, i, 0, l.Post, last)
		attended[i%2] = last
	}
	t.Add(Output, len(s.Whole), 0, s.Output, last)
}

// Closed is the link's time: it holds where a layer moves longer than it computes, so that
// the link never waits, up to the last layer's computation after its transfer.
func (f *FlexGen) Closed(s *Step) float64 {
	sum := s.Output
	for i := range s.Whole {
		l := &s.Whole[i]
		sum += l.Dense.KV.Seconds
		if f.Weights {
			sum += l.Dense.Weights
		}
		if i+1 == len(s.Whole) {
			sum += l.Dense.Attend + l.Post
		}
	}
	return sum
}
