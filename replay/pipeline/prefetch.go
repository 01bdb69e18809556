package pipeline

import "github.com/kvreplay/kvreplay/policies"

// Prefetch selects and fetches a layer ahead: with the input of layer i the selection of
// layer i+1 is predicted, and fetched while layer i computes (InfiniGen, as KVDrive's
// section 3 times it). The prediction is made when layer i's own fetch has ended, so that
// selection stays exposed; the first layer of a step has nothing to
// hide behind. In steady state a layer takes
//
//	select + max(compute, fetch)
//
// With an accuracy below 1 the selection is made again with the layer's own input, and the
// misses that the prediction did not name are fetched then; what it named wrongly has
// moved for nothing, so that the fetch ahead is as long as before.
type Prefetch struct {
	Accuracy float64 // share of the misses that the prediction names
	text     string
}

func parsePrefetch(options string) (Schedule, error) {
	p := &Prefetch{Accuracy: 1}
	text, err := policies.ParseOptions(options, policies.Float("accuracy", &p.Accuracy, 0, 1))
	p.text = text
	return p, err
}

// Name is its text form.
func (p *Prefetch) Name() string { return named("prefetch", p.text) }

func (p *Prefetch) predicts() float64 { return p.Accuracy }

// Parts is 1.
func (p *Prefetch) Parts() int { return 1 }

// Place adds a step.
func (p *Prefetch) Place(t *Timeline, s *Step) {
	last, fetched := None, None
	for i := range s.Whole {
		l := &s.Whole[i]
		input := last
		if i == 0 {
			last = t.Add(Project, i, 0, l.Project, last)
			fetched = p.ahead(t, l, i, FetchBlocks, last)
		}
		here := fetched
		if i+1 < len(s.Whole) {
			fetched = p.ahead(t, &s.Whole[i+1], i+1, FetchAhead, input, here)
		}
		if i > 0 {
			last = t.Add(Project, i, 0, l.Project, last)
		}
		if i > 0 && p.Accuracy < 1 {
			again := t.Add(Select, i, 0, l.Select, last)
			again = t.Add(LookupGPU, i, 0, l.LookupGPU, again, here)
			here = t.later(here, t.fetch(FetchBlocks, l, i, 0, 1-p.Accuracy, again))
		}
		last = t.Add(Pre, i, 0, l.Pre, last)
		t.store(l, i, 0, last)
		last = t.Add(Attend, i, 0, l.Attend, last, here)
		last = t.Add(Post, i, 0, l.Post, last)
	}
	t.Add(Output, len(s.Whole), 0, s.Output, last)
}

// ahead selects, looks up and fetches one layer.
func (p *Prefetch) ahead(t *Timeline, l *Layer, layer int, k Kind, after ...Op) Op {
	op := t.Add(Select, layer, 0, l.Select, after...)
	op = t.Add(LookupGPU, layer, 0, l.LookupGPU, op)
	return t.fetch(k, l, layer, 0, 1, op)
}

// Closed is the sum of its steady state, with the first layer's projections, selection and
// fetch before it and the last layer's computation after, whose projections run while its
// fetch ends. It holds where the prediction is right.
func (p *Prefetch) Closed(s *Step) float64 {
	sum, waits := s.Output, 0. // what is left of a fetch when a layer begins
	for i := range s.Whole {
		l := &s.Whole[i]
		early, rest := l.pre(), l.Attend+l.Post
		if i > 0 {
			early += l.Project
		} else {
			sum += l.Project + l.Select + l.LookupGPU
			waits = l.fetching(1)
		}
		if i+1 == len(s.Whole) {
			sum += max(waits, early) + rest
			continue
		}
		next := &s.Whole[i+1]
		sum += waits + next.Select + next.LookupGPU + early + rest
		waits = max(0, next.fetching(1)-early-rest)
	}
	return sum
}
