package pipeline

import "github.com/kvreplay/kvreplay/policies"

// DA overlaps the fetch with the projections that selection did not need and with the
// attention on what is resident; attention on what was fetched follows, and the results
// are merged (ESS, section 3.3, Dual-Attention).
type DA struct{}

func parseDA(options string) (Schedule, error) {
	_, err := policies.ParseOptions(options)
	return DA{}, err
}

// Name is da.
func (DA) Name() string { return "da" }

// Parts is 1.
func (DA) Parts() int { return 1 }

// Place adds a step.
func (DA) Place(t *Timeline, s *Step) { placeOverlapped(t, s, func(*Layer) *DBA { return nil }) }

// Closed adds what the fetch exposes to the computation.
func (DA) Closed(s *Step) float64 {
	sum := s.Output
	for i := range s.Whole {
		sum += s.Whole[i].computing() + ExposedDA(&s.Whole[i])
	}
	return sum
}

// DBA divides the selection along the batch: the fetch for the first 1 − Phi of the
// requests runs while the others are selected (ESS, section 3.3, DualBatch-Attention).
// Everything else is as with DA. No request's fetch begins before its own selection, so
// that the timeline can be longer than the paper's closed form, which lets the whole
// fetch overlap: where (1−Phi)·fetch is shorter than Phi·select.
type DBA struct {
	Phi   float64 // share of the selection that overlaps, about half
	Delta float64 // s a layer, overhead of dividing it
	name  string
	text  string
}

func newDBA(name, options string) (*DBA, error) {
	d := &DBA{Phi: 0.5, name: name}
	delta := 0.
	text, err := policies.ParseOptions(options, policies.Float("phi", &d.Phi, 0, 1), policies.Float("delta_us", &delta, 0, 1e6))
	d.Delta, d.text = delta*1e-6, text
	return d, err
}

func parseDBA(options string) (Schedule, error) { return newDBA("dba", options) }

// Name is its text form.
func (d *DBA) Name() string { return named(d.name, d.text) }

// Parts is 1: the selection alone is divided.
func (d *DBA) Parts() int { return 1 }

// Place adds a step.
func (d *DBA) Place(t *Timeline, s *Step) { placeOverlapped(t, s, func(*Layer) *DBA { return d }) }

// Closed adds the overhead and what the fetch exposes to the computation.
func (d *DBA) Closed(s *Step) float64 {
	sum := s.Output
	for i := range s.Whole {
		sum += s.Whole[i].computing() + d.Exposed(&s.Whole[i])
	}
	return sum
}

// Layerwise takes DA or DBA for each layer, whichever exposes less (ESS, section 3.3: DBA
// pays where a layer misses much). DBA's exposure is that of its two fetches here, each
// with its launch and after its own selection.
type Layerwise struct{ DBA }

func parseLayerwise(options string) (Schedule, error) {
	d, err := newDBA("layerwise", options)
	return &Layerwise{*d}, err
}

// Place adds a step.
func (w *Layerwise) Place(t *Timeline, s *Step) {
	placeOverlapped(t, s, func(l *Layer) *DBA {
		if ExposedDA(l) < w.exposedApart(l) {
			return nil
		}
		return &w.DBA
	})
}

// Closed takes the lesser exposure of every layer.
func (w *Layerwise) Closed(s *Step) float64 {
	sum := s.Output
	for i := range s.Whole {
		l := &s.Whole[i]
		sum += l.computing() + min(ExposedDA(l), w.exposedApart(l))
	}
	return sum
}

// ExposedDA is the time of a layer's fetch that DA does not hide:
//
//	max(0, F − W_pre − W_attn·(1 − missed))
//
// and no less than what a gather kernel takes of the SMs.
func ExposedDA(l *Layer) float64 {
	return max(l.gathering(1), l.fetching(1)-l.pre()-l.Attend*(1-l.Missed))
}

// Exposed is the time of a layer's fetch that DBA does not hide, and its overhead:
//
//	delta + max(0, F − W_pre − W_attn·(1 − missed) − phi·W_select)
//
// W_select with the lookup, which ESS does not state apart; a gather kernel as in ExposedDA.
func (d *DBA) Exposed(l *Layer) float64 {
	return d.Delta + max(l.gathering(1), l.fetching(1)-l.pre()-l.Attend*(1-l.Missed)-d.Phi*(l.Select+l.LookupGPU))
}

// exposedApart is Exposed with each part's fetch after its own selection; the first also
// delays the second.
func (d *DBA) exposedApart(l *Layer) float64 {
	second := d.Phi * (l.Select + l.LookupGPU)
	first := l.gathering(1 - d.Phi)
	end := max(l.fetching(1-d.Phi), first+second) + l.fetching(d.Phi)
	return d.Delta + max(first+l.gathering(d.Phi), end-second-l.pre()-l.Attend*(1-l.Missed))
}

// computing is what a layer takes when its fetch is hidden.
func (l *Layer) computing() float64 {
	return l.Project + l.Select + l.LookupGPU + l.pre() + l.Attend + l.Post
}

// placeOverlapped adds a step; split says for each layer how its selection is divided, nil
// for not at all.
func placeOverlapped(t *Timeline, s *Step, split func(*Layer) *DBA) {
	last := None
	for i := range s.Whole {
		l := &s.Whole[i]
		last = t.Add(Project, i, 0, l.Project, last)
		var fetched Op
		if d := split(l); d == nil {
			last, fetched = selectAndFetch(t, l, i, 0, 1, last)
		} else {
			last = t.Add(Split, i, 0, d.Delta, last)
			last, fetched = selectAndFetch(t, l, i, 0, 1-d.Phi, last)
			last, fetched = selectAndFetch(t, l, i, 1, d.Phi, last, fetched)
		}
		last = t.Add(Pre, i, 0, l.Pre, last)
		t.store(l, i, 0, last)
		last = t.Add(AttendResident, i, 0, l.Attend*(1-l.Missed), last)
		last = t.Add(AttendFetched, i, 0, l.Attend*l.Missed, last, fetched)
		last = t.Add(Post, i, 0, l.Post, last)
	}
	t.Add(Output, len(s.Whole), 0, s.Output, last)
}

// selectAndFetch adds the selection, lookup and fetch of a share of the batch; fetched is
// the later of its fetch and those before.
func selectAndFetch(t *Timeline, l *Layer, layer, part int, share float64, after Op, before ...Op) (selected, fetched Op) {
	selected = t.Add(Select, layer, part, l.Select*share, after)
	selected = t.Add(LookupGPU, layer, part, l.LookupGPU*share, selected)
	fetched = t.fetch(FetchBlocks, l, layer, part, share, selected)
	for _, op := range before {
		fetched = t.later(op, fetched)
	}
	return selected, fetched
}
