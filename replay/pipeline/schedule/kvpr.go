package schedule

import (
	"errors"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

// KVPR keeps all KV on the host. In each step the GPU recomputes a layer's first positions from
// their activations, while the other positions move (KVPR, section 3). Activations are half as
// large as K and V with as many heads. Recompute is the rule for the split, which is chosen anew
// for every step.
//
// Row by row, a layer begins when the previous one has ended (latency). If all data is FP16 and the
// weights are on the GPU or move first,
//
//	layer = w + l·x + max(l·g + projections, (S − l)·y) + attention + FFN
//
// Column by column, several batches pass a layer before the next one and share its weights. The
// next batch's transfers run into one of two buffers while the previous batch computes
// (throughput). If the link is the bottleneck, it never waits:
//
//	layer = w + batches·(l·x + (S − l)·y)
//
// This is w + batches·t(l) if the split is at the bend of Eq. 10 (Dense.SplitPoint).
type KVPR struct {
	Column    bool
	Batches   int         // batches that pass a layer in turn, column by column
	Weights   bool        // weights are on the host
	Load      WeightOrder // order in which the weights move
	Recompute Recomputing // rule for the number of recomputed positions
	KV, X     Quantization
	Pageable  bool // KV lies in memory that is not page-locked
	name      string
}

// Recomputing is the rule by which KVPR chooses the number of positions to recompute.
type Recomputing int

const (
	// RecomputeFastest takes the number with the shortest step, 0 included.
	RecomputeFastest Recomputing = iota
	// RecomputePaper takes the number of Eq. 11 (Dense.SplitPoint). The formula ignores the rest of
	// the computation and quantisation, so a step can take longer than without recomputing.
	RecomputePaper
	// RecomputeNone moves all KV, as offloading without KVPR does.
	RecomputeNone
)

var recomputeNames = []string{"on", "paper", "off"}

// WeightOrder is the order in which a layer's weights move, if they do.
type WeightOrder int

const (
	// WeightsFirst moves all weights before the layer's activations and KV, so that recomputing
	// waits for its activations alone. With several batches per layer, FlexGen spreads a layer's
	// weights over the batches of the previous layer, which is equivalent.
	WeightsFirst WeightOrder = iota
	// WeightsCoarse moves the weights of attention after the first batch's activations and KV, then
	// those of the FFN. Recomputing waits for all of attention's weights (KVPR, Fig. 5a).
	WeightsCoarse
	// WeightsFine is WeightsCoarse with W_K and W_V before W_Q and W_O. Recomputing waits for W_K
	// and W_V (KVPR, section 3.3 and Fig. 5b, "hiding").
	WeightsFine
)

var loadNames = []string{"first", "coarse", "fine"}

func parseKVPR(options string) (Schedule, error) {
	order, where, load, recompute := "row", "gpu", loadNames[WeightsFirst], recomputeNames[RecomputeFastest]
	kv, x, group := "fp16", "fp16", 64
	k := &KVPR{Batches: 1}
	name, err := canonical("kvpr", options, policies.Word("order", &order, "row", "column"), policies.Int("batches", &k.Batches, 1, 1<<20),
		policies.Word("weights", &where, "gpu", "host"), policies.Word("load", &load, loadNames...), policies.Word("recompute", &recompute, recomputeNames...),
		policies.Word("kv", &kv, "fp16", "int4"), policies.Word("x", &x, "fp16", "int4"), policies.Int("group", &group, 2, 1<<16))
	if err != nil {
		return nil, err
	}
	k.Column, k.Weights, k.name = order == "column", where == "host", name.name
	k.KV, k.X = quantization(kv, group), quantization(x, group)
	k.Load = WeightOrder(slices.Index(loadNames, load))
	k.Recompute = Recomputing(slices.Index(recomputeNames, recompute))
	switch {
	case !k.Column && k.Batches > 1:
		return nil, errors.New("batches above 1 need order=column")
	case !k.Weights && k.Load != WeightsFirst:
		return nil, errors.New("load=" + load + " needs weights=host")
	}
	return k, nil
}

// parseFlexGen reads the options of FlexGen. It keeps all KV on the host and moves each layer's KV
// in every step, a layer ahead, into one of two buffers. Attention reads all of it, so there is no
// selection. Weights on the host move before it, once for all batches that pass the layer (Sheng et
// al., FlexGen, ICML 2023, and KVPR, section 2). FlexGen equals KVPR column by column without
// recomputing:
//
//	layer = w + batches·S·y
//
// FlexGen's code pins the weights, but not the KV, because pinning takes much more memory
// (flexgen/pytorch_backend.py, init_cache_one_gpu_batch). That is the option cache=pageable.
func parseFlexGen(options string) (Schedule, error) {
	k := &KVPR{Column: true, Batches: 1, Recompute: RecomputeNone}
	where, kv, group, cache := "gpu", "fp16", 64, "pinned"
	name, err := canonical("flexgen", options, policies.Int("batches", &k.Batches, 1, 1<<20), policies.Word("weights", &where, "gpu", "host"),
		policies.Word("kv", &kv, "fp16", "int4"), policies.Int("group", &group, 2, 1<<16), policies.Word("cache", &cache, "pinned", "pageable"))
	k.Weights, k.KV, k.Pageable = where == "host", quantization(kv, group), cache == "pageable"
	k.name = name.without("cache=pinned").name
	return k, err
}

// Name returns the text form.
func (k *KVPR) Name() string { return k.name }

// Parts returns the number of batches that share a layer's weights.
func (k *KVPR) Parts() int { return max(1, k.Batches) }

// Traits states that whole layers move.
func (k *KVPR) Traits() Traits {
	t := Traits{Serves: DenseAttended, Moves: MovesLayers, Weights: k.Weights}
	if k.KV.Group > 0 || k.X.Group > 0 {
		t.Serves = Quantized
	}
	return t
}

// Place adds a step.
func (k *KVPR) Place(t *Timeline, s *Step) { k.place(t, s, k.split(s)) }

// place adds a step that recomputes n positions of each request, if the rule leaves n open.
func (k *KVPR) place(t *Timeline, s *Step, n int) {
	parts := s.parts()
	last := make([]Op, len(parts)) // last operation of each batch
	for p := range last {
		last[p] = None
	}
	turn, end := 0, None
	free := [2]Op{None, None} // end of the last use of each buffer
	for i := range s.Whole {
		var w weightOps
		for p := range parts {
			begin := end // row by row, a layer waits for everything before it
			if k.Column {
				begin = free[turn%2] // column by column, it waits for its buffer
			}
			last[p] = k.placePart(t, &parts[p][i], i, p, n, begin, last[p], &w)
			end, free[turn%2] = last[p], last[p]
			turn++
		}
	}
	t.Add(Output, len(s.Whole), 0, s.Output, end)
}

// weightOps are the loads of a layer's weights that recomputing, projections and the FFN wait for.
type weightOps struct{ kv, attention, ffn Op }

// placePart adds a layer for one batch and returns its last operation. The first batch also moves
// the layer's weights.
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
	recomputed := t.Add(Recompute, layer, part, float64(n)*d.Recompute, x, w.kv)
	op := t.Add(Project, layer, part, l.Project+l.Pre, before, recomputed, w.attention)
	op = t.Add(Quantize, layer, part, d.Quantize, op)
	t.store(l, layer, part, op)
	if !late {
		kv = t.Add(Dequantize, layer, part, dequantize, op, kv)
	}
	op = t.Add(Attend, layer, part, d.Attend, op, kv)
	return t.finish(l, layer, part, op, w.ffn)
}

// loadLate adds the loads of weights that follow a layer's KV.
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

// RecomputeTime is KVPR's Eq. 10. It returns the time of a layer's KV in seconds, if the first l
// positions are recomputed from activations while the others move:
//
//	t(l) = l·x + max(l·g, fixed + (S − l)·y)
//
// All times are of one position: x moves its activations over the link, g recomputes it, and y
// moves its KV over the link. Nothing moves at l = S.
func (d *Dense) RecomputeTime(l int) float64 {
	return float64(l)*d.Activations + max(float64(l)*d.Recompute, d.rest(l))
}

// rest returns the time of the KV that is not recomputed.
func (d *Dense) rest(l int) float64 {
	if d.Positions == 0 {
		return 0
	}
	return d.KV.Part(float64(d.Positions-l) / float64(d.Positions))
}

// most returns the largest number of positions that can be recomputed. Activations are kept for the
// prompt alone (KVPR, section 3.2).
func (d *Dense) most() int { return max(0, min(d.Prompt, d.Positions)) }

// SplitPoint is KVPR's Eq. 11: the l of 0 … min(prompt, S) with the least RecomputeTime. Between
// its ends the function is piecewise linear with one bend, at which both sides of the max are
// equal. So only the ends and the two integers next to the bend can be least. Among equals it takes
// the smallest.
func (d *Dense) SplitPoint() int {
	limit := d.most()
	if limit == 0 {
		return 0
	}
	y := (d.KV.Seconds - d.KV.Fixed) / float64(d.Positions)
	bend := math.Floor(d.KV.Seconds / (d.Recompute + y))
	best, least := 0, d.RecomputeTime(0)
	for _, at := range []float64{bend, bend + 1, float64(limit)} {
		l := int(min(max(at, 0), float64(limit)))
		if t := d.RecomputeTime(l); t < least {
			best, least = l, t
		}
	}
	return best
}

// recomputed returns the number of positions of a layer that are recomputed. n is the step's split.
func (k *KVPR) recomputed(d *Dense, n int) int {
	switch k.Recompute {
	case RecomputePaper:
		return d.SplitPoint()
	case RecomputeNone:
		return 0
	}
	return min(n, d.most())
}

// split returns the step's split: the known one, or the fastest.
func (k *KVPR) split(s *Step) int {
	if s.Split != nil {
		return *s.Split
	}
	return k.fastest(s, NewTimeline())
}

// splitPrecision is the share of a step's time by which one split must be faster than another.
// Processors round differently, and equal times must give equal splits on all of them.
const splitPrecision = 1e-12

// fastest returns the split with the shortest step on the timeline, which is used for trials. Among
// equals it takes the smallest.
//
// With n positions recomputed, every operation takes a time that is linear in n. The step is the
// longest of the paths through its operations, so its time is convex in n. Three cases are
// exceptions. With n = 0 no computation waits for activations. If n is the whole context, no KV
// moves. Both cases are tried separately. If requests have different lengths, or both directions of
// the link slow each other, the time is only nearly convex. The result is then no slower than n =
// 0, but another n can be slightly faster.
func (k *KVPR) fastest(s *Step, t *Timeline) int {
	if k.Recompute != RecomputeFastest {
		return 0
	}
	seconds := func(n int) float64 {
		t.Reset()
		k.place(t, s, n)
		t.Contend(s)
		return t.End()
	}
	limit, whole := 0, false
	for _, part := range s.parts() {
		for i := range part {
			d := &part[i].Dense
			limit, whole = max(limit, d.most()), whole || d.most() == d.Positions
		}
	}
	if limit == 0 {
		return 0
	}
	best, least := 0, seconds(0)
	precision := splitPrecision * least
	try := func(n int) {
		if v := seconds(n); v < least-precision {
			best, least = n, v
		}
	}
	last := limit
	if whole {
		last = max(1, limit-1)
	}
	near := s.parts()[0][0].Dense.SplitPoint()
	try(bottom(1, last, near, func(n int) bool { return seconds(n+1) < seconds(n)-precision }))
	if whole {
		try(limit)
	}
	return best
}

// bottom returns the first number of low … high after which a convex function falls no more. falls
// reports whether it falls from n to n + 1. The search begins at near and moves away from it in
// growing steps.
func bottom(low, high, near int, falls func(n int) bool) int {
	at, stride := near, 1
	for low < high {
		if at < low || at >= high {
			at = low + (high-low)/2
		}
		if falls(at) {
			low = at + 1
			at += stride
		} else {
			high = at
			at -= stride
		}
		stride *= 2
	}
	return low
}

// Recomputation describes a step of KVPR.
type Recomputation struct {
	Mean, Most float64 // positions that the step's layers recompute
	Bytes      float64 // moved to the GPU for the KV of the layers, without weights
}

// Choose sets the number of positions that a step recomputes. It uses a timeline for trials.
func (k *KVPR) Choose(s *Step, t *Timeline) (x Recomputation) {
	split, layers := k.fastest(s, t), 0
	s.Split = &split
	for _, part := range s.parts() {
		for i := range part {
			d := &part[i].Dense
			n := float64(k.recomputed(d, split))
			if d.Positions > 0 {
				x.Bytes += d.Bytes*(1-n/float64(d.Positions)) + n*d.ActivationBytes
			}
			x.Mean, x.Most, layers = x.Mean+n, max(x.Most, n), layers+1
		}
	}
	x.Mean /= float64(layers)
	return x
}

// Quantization is the format of FP16 numbers in host memory: unchanged, or as 4-bit integers. Each
// group of adjacent integers has its scale and its least value in FP16 (FlexGen, ICML 2023, section
// 5, with groups of 64). It is lossy. The loss of quality is not modelled.
type Quantization struct {
	Group int // numbers that share a scale, 0 for FP16
}

// packedBytes is the size of a 4-bit number.
const packedBytes = 0.5

// PerNumber returns the bytes of a number, with its share of the group's two FP16 numbers. In
// groups of 64 it is 0.5625, 3.6 times less than FP16.
func (q Quantization) PerNumber() float64 {
	if q.Group == 0 {
		return hardware.HalfBytes
	}
	return packedBytes + 2*hardware.HalfBytes/float64(q.Group)
}

// Ratio returns PerNumber divided by the bytes of an FP16 number.
func (q Quantization) Ratio() float64 { return q.PerNumber() / hardware.HalfBytes }

// Dequantized returns the bytes of GPU memory that are read and written to make a number FP16
// again. It counts the passes of FlexGen's code (FlexLLMGen, flexgen/compression.py, decompress).
// Shift and mask read and write all packed bytes. Each result is copied into every second number. A
// division and an addition in place take one constant per group. The total is 13.06 in groups of
// 64. A fused kernel would take 2.56.
func (q Quantization) Dequantized() float64 {
	if q.Group == 0 {
		return 0
	}
	const unpack = 2 * (2*packedBytes + packedBytes + hardware.HalfBytes/2.)
	inPlace := 2*hardware.HalfBytes + hardware.HalfBytes/float64(q.Group)
	return unpack + 2*inPlace
}

// Quantized returns the bytes of GPU memory that are read and written to quantise a new number (the
// same file, compress). The passes are least and greatest of a group, subtract, multiply, clamp,
// round, conversion to bytes, a shift of every second one, and their union. The total is 25.5.
func (q Quantization) Quantized() float64 {
	if q.Group == 0 {
		return 0
	}
	const bounds, passes, bytes, pack = 2 * hardware.HalfBytes, 4 * 2 * hardware.HalfBytes, hardware.HalfBytes + 1, 2*packedBytes + 3*packedBytes
	return bounds + passes + bytes + pack
}

// quantization returns the quantization for a word of the options kv and x.
func quantization(word string, group int) Quantization {
	if word == "int4" {
		return Quantization{group}
	}
	return Quantization{}
}
