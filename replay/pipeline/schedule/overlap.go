package schedule

import "github.com/kvreplay/kvreplay/policies"

// DA overlaps the fetch with the projections that selection did not need, and with the attention on
// resident entries. Attention on the fetched entries follows, and the results are merged (ESS,
// section 3.3, Dual-Attention). If attention is whole, one kernel attends to all entries after the
// fetch. The fetch then hides only behind projections and the restoring of entries (ShadowKV).
type DA struct {
	wholeBatch
	Whole bool
}

func parseDA(options string) (Schedule, error) {
	attend := "apart"
	w, err := canonical("da", options, policies.Word("attend", &attend, "apart", "whole"))
	return DA{w.without("attend=apart"), attend == "whole"}, err
}

// Place adds a step.
func (d DA) Place(t *Timeline, s *Step) {
	if !d.Whole {
		placeOverlapped(t, s, func(*Layer) *DBA { return nil })
		return
	}
	t.layers(s, func(i int, l *Layer, last Op) Op {
		last, fetched := t.selectAndFetch(l, i, 0, 1, t.Add(Project, i, 0, l.Project, last))
		return t.compute(l, i, 0, fetched, last)
	})
}

// DBA divides the selection along the batch. The fetch for the first 1 − Phi of the requests runs
// during the selection for the others (ESS, section 3.3, DualBatch-Attention). Everything else
// equals DA. No request's fetch begins before its own selection. The paper's closed form lets the
// whole fetch overlap. So the timeline can be longer than it if (1−Phi)·fetch is shorter than
// Phi·select.
type DBA struct {
	wholeBatch
	Phi   float64 // share of the selection that overlaps, about half
	Delta float64 // overhead of dividing a layer, s
}

func newDBA(name, options string) (*DBA, error) {
	d, delta := &DBA{Phi: 0.5}, 0.
	var err error
	d.wholeBatch, err = canonical(name, options, policies.Float("phi", &d.Phi, 0, 1), policies.Float("delta_us", &delta, 0, 1e6))
	d.Delta = delta * 1e-6
	return d, err
}

func parseDBA(options string) (Schedule, error) { return newDBA("dba", options) }

// Place adds a step.
func (d *DBA) Place(t *Timeline, s *Step) { placeOverlapped(t, s, func(*Layer) *DBA { return d }) }

// Layerwise takes DA or DBA for each layer, the one that exposes less (ESS, section 3.3: DBA pays
// if a layer misses much). Here DBA has two fetches, each with its launch and after its own
// selection.
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

// ExposedDA returns the seconds of a layer's fetch that DA does not hide:
//
//	max(0, F − W_pre − W_attn·(1 − missed))
//
// It is at least the SM time of a gather kernel.
func ExposedDA(l *Layer) float64 {
	return max(l.gathering(1), l.fetching(1)-l.pre()-l.Attend*(1-l.Missed))
}

// exposedApart returns the seconds of a layer's fetch that DBA does not hide, and its overhead. Each
// part's fetch follows its own selection, and the first fetch also delays the second.
func (d *DBA) exposedApart(l *Layer) float64 {
	second := d.Phi * (l.Select + l.LookupGPU)
	first := l.gathering(1 - d.Phi)
	end := max(l.fetching(1-d.Phi), first+second) + l.fetching(d.Phi)
	return d.Delta + max(first+l.gathering(d.Phi), end-second-l.pre()-l.Attend*(1-l.Missed))
}

// placeOverlapped adds a step. split returns the division of each layer's selection, or nil to
// leave it whole.
func placeOverlapped(t *Timeline, s *Step, split func(*Layer) *DBA) {
	t.layers(s, func(i int, l *Layer, last Op) Op {
		last, fetched := t.selectApart(l, i, [2]int{0, 1}, split(l), last)
		return t.finish(l, i, 0, t.attendApart(l, i, 0, fetched, last))
	})
}

// selectApart adds a layer's projections, and its selection, lookup and fetch in the two parts of d,
// or in one if d is nil. parts number them.
func (t *Timeline) selectApart(l *Layer, layer int, parts [2]int, d *DBA, last Op) (selected, fetched Op) {
	last = t.Add(Project, layer, parts[0], l.Project, last)
	if d == nil {
		return t.selectAndFetch(l, layer, parts[0], 1, last)
	}
	var first Op
	last = t.Add(Split, layer, parts[0], d.Delta, last)
	last, first = t.selectAndFetch(l, layer, parts[0], 1-d.Phi, last)
	last, fetched = t.selectAndFetch(l, layer, parts[1], d.Phi, last)
	return last, t.later(first, fetched)
}

// attendApart adds a layer's attention: on residents at once, and on the fetched entries after
// their fetch.
func (t *Timeline) attendApart(l *Layer, layer, part int, fetched, last Op) Op {
	last = t.Add(Pre, layer, part, l.Pre, last)
	t.store(l, layer, part, last)
	last = t.Add(AttendResident, layer, part, l.Attend*(1-l.Missed), last)
	return t.Add(AttendFetched, layer, part, l.Attend*l.Missed, last, fetched)
}

// Prefetch selects and fetches one layer ahead (InfiniGen, timed as in KVDrive's section 3). With
// the input of layer i it predicts the selection of layer i+1, which is fetched while layer i
// computes. The prediction is made when layer i's own fetch has ended, so selection stays exposed.
// The first layer of a step has nothing to hide behind. In steady state a layer takes
//
//	select + max(compute, fetch)
//
// With an accuracy below 1, the selection is made again with the layer's own input. The misses that
// the prediction did not name are then fetched. Wrongly named blocks move in vain, so the fetch
// ahead takes as long as before.
type Prefetch struct {
	wholeBatch
	Accuracy float64 // share of the misses that the prediction names
}

func parsePrefetch(options string) (_ Schedule, err error) {
	p := &Prefetch{Accuracy: 1}
	p.wholeBatch, err = canonical("prefetch", options, policies.Float("accuracy", &p.Accuracy, 0, 1))
	return p, err
}

// Traits returns the assumed share of correct predictions.
func (p *Prefetch) Traits() Traits { return Traits{Serves: SparseTopK, Predicted: p.Accuracy} }

// Place adds a step.
func (p *Prefetch) Place(t *Timeline, s *Step) {
	fetched := None
	t.layers(s, func(i int, l *Layer, last Op) Op {
		input := last
		if i == 0 {
			last = t.Add(Project, i, 0, l.Project, last)
			fetched = p.fetchLayer(t, l, i, FetchBlocks, last)
		}
		own := fetched
		if i+1 < len(s.Whole) {
			fetched = p.fetchLayer(t, &s.Whole[i+1], i+1, FetchAhead, input, own)
		}
		if i > 0 {
			last = t.Add(Project, i, 0, l.Project, last)
		}
		if i > 0 && p.Accuracy < 1 {
			again := t.Add(Select, i, 0, l.Select, last)
			again = t.Add(LookupGPU, i, 0, l.LookupGPU, again, own)
			own = t.later(own, t.fetch(FetchBlocks, l, i, 0, 1-p.Accuracy, again))
		}
		return t.compute(l, i, 0, own, last)
	})
}

// fetchLayer selects, looks up and fetches one layer.
func (p *Prefetch) fetchLayer(t *Timeline, l *Layer, layer int, k Kind, after ...Op) Op {
	op := t.Add(Select, layer, 0, l.Select, after...)
	op = t.Add(LookupGPU, layer, 0, l.LookupGPU, op)
	return t.fetch(k, l, layer, 0, 1, op)
}
