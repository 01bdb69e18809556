package pipeline

import (
	"errors"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// KVPR keeps all KV on the host. In each step the GPU recomputes a layer's first positions
// from their activations, while the other positions move (KVPR, section 3). Activations are
// half as large as K and V of as many heads. Recompute says how the split is chosen. It is
// chosen anew for every step.
//
// Row by row, a layer begins when the one before has ended (latency). If all is FP16 and
// the weights are on the GPU or move first,
//
//	layer = w + l·x + max(l·g + projections, (S − l)·y) + attention + FFN
//
// Column by column several batches pass a layer before the next, and share its weights;
// the next batch's transfers run during the computation of the one before, into one of
// two buffers (throughput). Where the link is what binds, it never waits:
//
//	layer = w + batches·(l·x + (S − l)·y)
//
// which is w + batches·t(l) if the split is at the bend of Eq. 10 (Dense.SplitPoint).
type KVPR struct {
	Column    bool
	Batches   int         // that pass a layer in turn, column by column
	Weights   bool        // on the host
	Load      WeightOrder // when they move
	Recompute Recomputing // how many positions are recomputed
	KV, X     Quantization
	text      string
}

// Recomputing is the rule by which KVPR chooses how many positions it recomputes.
type Recomputing int

const (
	// RecomputeFastest takes the number with which the step takes least time, 0 included.
	RecomputeFastest Recomputing = iota
	// RecomputePaper takes the number of Eq. 11 (Dense.SplitPoint). That formula knows
	// neither the rest of the computation nor quantisation, so a step can take longer than
	// without recomputing.
	RecomputePaper
	// RecomputeNone moves all KV, as offloading without KVPR does.
	RecomputeNone
)

var recomputeNames = []string{"on", "paper", "off"}

// WeightOrder is when a layer's weights move, if they do.
type WeightOrder int

const (
	// WeightsFirst: all of them before the layer's activations and KV, so that recomputing
	// waits for its activations alone. With several batches a layer, FlexGen spreads a
	// layer's weights over the batches of the layer before, which comes to the same.
	WeightsFirst WeightOrder = iota
	// WeightsCoarse: after the first batch's activations and KV, those of attention, then
	// the FFN's; recomputing waits for all of attention's (KVPR, Fig. 5a).
	WeightsCoarse
	// WeightsFine: the same with W_K and W_V before W_Q and W_O; recomputing waits for W_K
	// and W_V (KVPR, section 3.3 and Fig. 5b, "hiding").
	WeightsFine
)

var loadNames = []string{"first", "coarse", "fine"}

func parseKVPR(options string) (Schedule, error) {
	order, where, load, recompute := "row", "gpu", loadNames[WeightsFirst], recomputeNames[RecomputeFastest]
	k := &KVPR{Batches: 1}
	var q quantizations
	list := append([]policies.Option{policies.Word("order", &order, "row", "column"), policies.Int("batches", &k.Batches, 1, 1<<20),
		policies.Word("weights", &where, "gpu", "host"), policies.Word("load", &load, loadNames...), policies.Word("recompute", &recompute, recomputeNames...)}, q.options()...)
	text, err := policies.ParseOptions(options, list...)
	if err != nil {
		return nil, err
	}
	k.Column, k.Weights, k.text = order == "column", where == "host", text
	k.KV, k.X = q.of(q.kv), q.of(q.x)
	k.Load = WeightOrder(slices.Index(loadNames, load))
	k.Recompute = Recomputing(slices.Index(recomputeNames, recompute))
	switch {
	case !k.Column && k.Batches > 1:
		return nil, errors.New("batches above 1 go with order=column")
	case !k.Weights && k.Load != WeightsFirst:
		return nil, errors.New("load=" + load + " goes with weights=host")
	}
	return k, nil
}

// Name is its text form.
func (k *KVPR) Name() string { return named("kvpr", k.text) }

// Parts is the number of batches that share a layer's weights.
func (k *KVPR) Parts() int { return max(1, k.Batches) }

func (k *KVPR) moves() (Moves, bool) { return MovesLayers, k.Weights }

func (k *KVPR) dense() *KVPR { return k }

// Place adds a step.
func (k *KVPR) Place(t *Timeline, s *Step) { k.place(t, s, k.split(s)) }

// place adds a step that recomputes n positions of each request, where the rule leaves n open.
func (k *KVPR) place(t *Timeline, s *Step, n int) {
	parts := s.parts()
	last := make([]Op, len(parts)) // of each batch
	for p := range last {
		last[p] = None
	}
	turn, end := 0, None
	free := [2]Op{None, None} // when each buffer is free again
	for i := range s.Whole {
		var w weightOps
		for p := range parts {
			begin := end // row by row, a layer waits for all that came before,
			if k.Column {
				begin = free[turn%2] // otherwise for its buffer
			}
			last[p] = k.placePart(t, &parts[p][i], i, p, n, begin, last[p], &w)
			end, free[turn%2] = last[p], last[p]
			turn++
		}
	}
	t.Add(Output, len(s.Whole), 0, s.Output, end)
}

// weightOps are the loads of a layer's weights: what recomputing, projections and the FFN
// wait for.
type weightOps struct{ kv, attention, ffn Op }

// placePart adds a layer for one batch, the first with the layer's weights, and returns
// its last operation.
func (k *KVPR) placePart(t *Timeline, l *Layer, layer, part, n int, begin, before Op, w *weightOps) Op {
	d := &l.Dense
	n = k.recomputed(d, n)
	late := part == 0 && k.Load != WeightsFirst
	if part == 0 {
		*w = weightOps{None, None, None}
		if k.Weights && !late {
			all := t.load(LoadWeights, d, layer, 0, d.Weights, begin)
			*w = weightOps{all, all, all}
		}
	}
	x := t.load(LoadActivations, d, layer, part, float64(n)*d.Activations, begin)
	kv := t.load(FetchLayer, d, layer, part, d.rest(n), x, begin)
	dequantize := float64(d.Positions-n) * d.Dequantize
	if late {
		*w = k.loadLate(t, d, layer, kv)
		kv = t.Add(Dequantize, layer, part, dequantize, kv)
	}
	made := t.Add(Recompute, layer, part, float64(n)*d.Recompute, x, w.kv)
	op := t.Add(Project, layer, part, l.Project+l.Pre, before, made, w.attention)
	op = t.Add(Quantize, layer, part, d.Quantize, op)
	t.store(l, layer, part, op)
	if !late {
		kv = t.Add(Dequantize, layer, part, dequantize, op, kv)
	}
	op = t.Add(Attend, layer, part, d.Attend, op, kv)
	return t.Add(Post, layer, part, l.Post, op, w.ffn)
}

// loadLate adds the loads of weights that come after a layer's KV.
func (k *KVPR) loadLate(t *Timeline, d *Dense, layer int, kv Op) (w weightOps) {
	if k.Load == WeightsFine {
		w.kv = t.load(LoadWeights, d, layer, 0, d.Weights*d.KeyValueShare, kv)
		w.attention = t.load(LoadWeights, d, layer, 0, d.Weights*(d.AttentionShare-d.KeyValueShare), w.kv)
	} else {
		w.attention = t.load(LoadWeights, d, layer, 0, d.Weights*d.AttentionShare, kv)
		w.kv = w.attention
	}
	w.ffn = t.load(LoadWeights, d, layer, 0, d.Weights*(1-d.AttentionShare), w.attention)
	return w
}

// Closed is row by row the sum of the layers' forms, each alone; column by column the
// link's time, with what the last layer of the last batch takes after its transfers. The
// latter holds where the link never waits for computation.
func (k *KVPR) Closed(s *Step) float64 {
	sum, parts, split := s.Output, s.parts(), k.split(s)
	for i := range s.Whole {
		for p := range parts {
			l := &parts[p][i]
			n := k.recomputed(&l.Dense, split)
			if !k.Column || i == len(s.Whole)-1 && p == len(parts)-1 {
				sum += k.alone(l, n, p == 0)
			} else {
				sum += k.link(l, n, p == 0)
			}
		}
	}
	return sum
}

// link is the time of the transfers of a part that recomputes n positions. The first part
// moves the layer's weights as well.
func (k *KVPR) link(l *Layer, n int, first bool) float64 {
	sum := float64(n)*l.Dense.Activations + l.Dense.rest(n)
	if first && k.Weights {
		sum += l.Dense.Weights
	}
	return sum
}

// alone is the time of a part that recomputes n positions, on idle resources.
func (k *KVPR) alone(l *Layer, n int, first bool) float64 {
	d := &l.Dense
	x, rest, made := float64(n)*d.Activations, d.rest(n), float64(n)*d.Recompute
	dequantize, project := float64(d.Positions-n)*d.Dequantize, l.Project+d.Quantize+l.pre()
	loaded := k.link(l, n, first)
	if !first || k.Load == WeightsFirst {
		return loaded - rest + max(made+project, rest) + dequantize + d.Attend + l.Post
	}
	attention := x + rest + d.Weights*d.AttentionShare // when it has its weights
	recompute := attention
	if k.Load == WeightsFine {
		recompute = x + rest + d.Weights*d.KeyValueShare
	}
	made += max(x+rest+dequantize, recompute)
	return max(max(made, attention)+project+d.Attend, loaded) + l.Post
}
