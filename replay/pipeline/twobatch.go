package pipeline

import "github.com/kvreplay/kvreplay/policies"

// TBO runs two halves of the batch half a layer apart: while one half's misses are on the
// link, the other half computes (two-batch overlap, which ESS's simulator has for
// DeepSeek). Weights are read for each half.
type TBO struct{}

func parseTBO(options string) (Schedule, error) {
	_, err := policies.ParseOptions(options)
	return TBO{}, err
}

// Name is tbo.
func (TBO) Name() string { return "tbo" }

// Parts is 2.
func (TBO) Parts() int { return 2 }

// Place adds a step. The SMs take, layer by layer: first half to its selection, second
// half from attention of the layer before, second half to its selection, first half from
// attention.
func (TBO) Place(t *Timeline, s *Step) {
	parts := s.parts()
	last := make([]Op, len(parts))
	fetched := make([]Op, len(parts))
	for p := range parts {
		last[p] = None
	}
	compute := func(i, p int) {
		l := &parts[p][i]
		last[p] = t.Add(Pre, i, p, l.Pre, last[p])
		t.store(l, i, p, last[p])
		last[p] = t.Add(Attend, i, p, l.Attend, last[p], fetched[p])
		last[p] = t.Add(Post, i, p, l.Post, last[p])
	}
	for i := range s.Whole {
		for p := range parts {
			if p > 0 && i > 0 {
				compute(i-1, p)
			}
			l := &parts[p][i]
			last[p] = t.Add(Project, i, p, l.Project, last[p])
			last[p], fetched[p] = selectAndFetch(t, l, i, p, 1, last[p])
		}
		compute(i, 0)
	}
	done := None
	for p := range parts {
		if p > 0 && len(s.Whole) > 0 {
			compute(len(s.Whole)-1, p)
		}
		done = t.later(done, last[p])
	}
	t.Add(Output, len(s.Whole), 0, s.Output, done)
}
