package schedule

import "github.com/kvreplay/kvreplay/replay/transfer"

// Step is one decode step. It has the layers of the whole batch and, if the schedule divides the
// batch, the layers of each part.
type Step struct {
	Whole  []Layer
	Parts  [][]Layer // by part, then layer
	Output float64   // final projection to the vocabulary, s
	// Communication of tensor parallelism, in seconds, 0 on one GPU: the all-reduce after the
	// embedding, and the gather of the logits.
	Embed, Gather float64
	// Pipeline parallelism, by part, in seconds: the projection to the vocabulary, and a send of the
	// hidden states to the next stage.
	Outputs, Sends []float64

	// Split is the number of positions that KVPR recomputes, nil before it is chosen.
	Split *int
}

// parts returns the parts of the step, or the whole batch as one part.
func (s *Step) parts() [][]Layer {
	if len(s.Parts) == 0 {
		return [][]Layer{s.Whole}
	}
	return s.Parts
}

// Layer holds the times of one layer of one step, for a batch or a part of it, in seconds.
type Layer struct {
	Project float64 // projections that selection needs
	Select  float64
	Pre     float64 // projections that selection does not need
	Attend  float64 // attention over the demand, after K and V of fetched entries are made
	Post    float64 // output projection, feed-forward
	Reduce  float64 // one of the two all-reduces of tensor parallelism, 0 on one GPU
	// Exchange of routed experts on several GPUs, 0 on one GPU. Routed is the part of Post that
	// waits for the dispatch.
	Dispatch, Routed, Combine float64

	LookupGPU, LookupCPU, Update float64

	Fetch   Transfer // misses that are in host memory
	Read    float64  // reads of the other misses from the SSD
	Hop     Transfer // transfer of those misses to the GPU
	Store   float64  // write-back
	Gather  float64  // share of the SMs that a running fetch takes, 0 with copy engines
	Scatter float64  // share of the SMs that a running write-back takes, 0 with copy engines
	Missed  float64  // share of Attend that waits for the fetch, 0 to 1

	Dense Dense
	Loads Loads
	Ahead ReadAhead
	Host  HostAttention
}

// Loads are the rates of a layer's transfers while they move, divided by the link's rate in both
// directions together. They are 0 if the directions do not slow each other.
type Loads struct{ Fetch, Hop, Store, Layer float64 }

// Dense holds the times of a layer whose whole KV stays on the host and moves every step (FlexGen,
// KVPR), in seconds. In eLLM this holds for only some tokens.
type Dense struct {
	Weights float64 // weights of the layer over the link
	// Shares of the weights: W_K and W_V, and all of attention including them.
	KeyValueShare, AttentionShare float64
	// Shares of the SMs that the transfers of the layer's KV and activations, and of its weights,
	// take while they run. They are 0 with copy engines.
	Gather, WeightsGather float64

	Attend      float64  // attention over the context
	KV          Transfer // whole KV over the link
	Positions   int      // cached positions of each request
	Prompt      int      // positions whose activations are kept
	Activations float64  // one position of all requests, over the link
	Recompute   float64  // one position of all requests, K and V from its activations
	Uncached    Transfer // uncached tokens of all requests over the link
	Again       float64  // whole layer over the uncached tokens, from its input
	Dequantize  float64  // one position of all requests, if KV is quantised
	Quantize    float64  // KV that a step generates

	Bytes           float64 // KV over the link
	ActivationBytes float64 // activations of one position of all requests
}

// Finishing returns the time after the attention: output projection, FFN, and exchange of experts.
func (l *Layer) Finishing() float64 { return l.Post + l.Dispatch + l.Combine }

// pre returns the time between selection and attention: the projections and the write-back's share
// of the SMs.
func (l *Layer) pre() float64 { return l.Pre + l.Scatter*l.Store }

// Transfer is the time of a transfer that can be divided. Fixed is the part per launch. The rest is
// proportional to the bytes.
type Transfer struct{ Seconds, Fixed float64 }

// Part returns the time of a share of the transfer.
func (t Transfer) Part(share float64) float64 {
	if share <= 0 || t.Seconds == 0 {
		return 0
	}
	return t.Fixed + share*(t.Seconds-t.Fixed)
}

// ReadAhead describes how a system reads a layer's misses from the SSD before they are known. The
// zero value waits for the selection.
type ReadAhead struct {
	// Accuracy is the share of the reads that are predicted when the layer begins. These run during
	// its projections and selection (KVDrive, section 5: hierarchical staging). Wrongly predicted
	// reads are wasted and made again after the selection.
	Accuracy float64
	// Direct is set if the SSD writes into the GPU (GPUDirect Storage). Its bytes then share the
	// link with those from host memory. Otherwise they pass the link afterwards.
	Direct bool
}

// Again returns the share of the reads that is read again.
func (a ReadAhead) Again() float64 {
	if a.Accuracy == 0 {
		return 0
	}
	return 1 - a.Accuracy
}

// layers adds the whole batch layer by layer, and the output. place adds one layer after
// last and returns its last operation.
func (t *Timeline) layers(s *Step, place func(i int, l *Layer, last Op) Op) {
	last := t.Add(AllReduce, 0, 0, s.Embed, None)
	for i := range s.Whole {
		last = place(i, &s.Whole[i], last)
	}
	last = t.Add(Output, len(s.Whole), 0, s.Output, last)
	t.Add(AllGather, len(s.Whole), 0, s.Gather, last)
}

// selectAndFetch adds the selection, lookup and fetch for a share of the batch.
func (t *Timeline) selectAndFetch(l *Layer, layer, part int, share float64, after Op) (selected, fetched Op) {
	selected = t.Add(Select, layer, part, l.Select*share, after)
	selected = t.Add(LookupGPU, layer, part, l.LookupGPU*share, selected)
	return selected, t.fetch(FetchBlocks, l, layer, part, share, selected)
}

// compute adds a layer's operators from the end of its selection. Attention also waits for
// fetched.
func (t *Timeline) compute(l *Layer, layer, part int, fetched Op, after ...Op) Op {
	return t.finish(l, layer, part, t.attend(l, layer, part, fetched, after...))
}

// attend adds the operators from the end of a layer's selection to its attention.
func (t *Timeline) attend(l *Layer, layer, part int, fetched Op, after ...Op) Op {
	last := t.Add(Pre, layer, part, l.Pre, after...)
	t.store(l, layer, part, last)
	return t.Add(Attend, layer, part, l.Attend, last, fetched)
}

// finish adds a layer's operators after the attention. Routed experts on several GPUs wait for the
// dispatch of their tokens, and the layer ends with the combine.
func (t *Timeline) finish(l *Layer, layer, part int, after ...Op) Op {
	if !l.exchanges() {
		return t.Add(Post, layer, part, l.Post, after...)
	}
	return t.experts(l, layer, part, t.dispatch(l, layer, part, after...))
}

// exchanges reports whether tokens move to experts on other GPUs.
func (l *Layer) exchanges() bool { return l.Dispatch > 0 || l.Combine > 0 }

// dispatch adds the operators before the routed experts, and the dispatch.
func (t *Timeline) dispatch(l *Layer, layer, part int, after ...Op) Op {
	last := t.Add(Post, layer, part, l.Post-l.Routed, after...)
	return t.Add(Dispatch, layer, part, l.Dispatch, last)
}

// experts adds the routed experts and the combine.
func (t *Timeline) experts(l *Layer, layer, part int, dispatched Op) Op {
	last := t.Add(Experts, layer, part, l.Routed, dispatched)
	return t.Add(Combine, layer, part, l.Combine, last)
}

// attendDensely adds a layer that attends to the whole context, after its KV has arrived.
func (t *Timeline) attendDensely(l *Layer, layer int, last, arrived Op) Op {
	last = t.Add(Project, layer, 0, l.Project, last)
	last = t.Add(Pre, layer, 0, l.Pre, last)
	last = t.Add(Attend, layer, 0, l.Dense.Attend, last, arrived)
	return t.reduce(l, layer, t.finish(l, layer, 0, last))
}

// reduce adds the two all-reduces of a layer with tensor parallelism. One follows the output
// projection and another the FFN. These two are one operation here, so both all-reduces follow it.
func (t *Timeline) reduce(l *Layer, layer int, last Op) Op {
	last = t.Add(AllReduce, layer, 0, l.Reduce, last)
	return t.Add(AllReduce, layer, 0, l.Reduce, last)
}

// later returns an operation that ends with the later of two.
func (t *Timeline) later(a, b Op) Op { return t.Add(Join, 0, 0, 0, a, b) }

// fetch moves a share of a layer's misses. Those in host memory move while the SSD reads the
// others. The latter follow (KVDrive's hierarchical staging) or, if direct, share the link.
func (t *Timeline) fetch(k Kind, l *Layer, layer, part int, share float64, after Op) Op {
	seconds, read, hop := l.Fetch.Part(share), l.Read*share, l.Hop.Part(share)
	if read == 0 && hop == 0 {
		blocks := t.Add(k, layer, part, seconds, after)
		t.Add(Gather, layer, part, l.Gather*seconds, after)
		return blocks
	}
	again, begin := l.Ahead.Again(), after
	if l.Ahead.Accuracy > 0 {
		begin = t.begun(layer, part, after)
	}
	early := t.Add(ReadSSD, layer, part, read, begin)
	passed := None
	if l.Ahead.Direct {
		passed = t.Add(FetchRead, layer, part, hop, begin)
	}
	blocks := t.Add(k, layer, part, seconds, after)
	late := early
	if again > 0 {
		late = t.Add(ReadSSD, layer, part, read*again, early, after)
	}
	t.Add(Gather, layer, part, l.gathering(share), after)
	if !l.Ahead.Direct {
		return t.Add(FetchRead, layer, part, hop, late, blocks)
	}
	if again > 0 {
		passed = t.Add(FetchRead, layer, part, hop*again, passed, after)
	}
	return t.Add(Join, layer, part, 0, late, passed, blocks)
}

// store writes back the entries that a layer generated. A kernel takes its share of the SMs.
func (t *Timeline) store(l *Layer, layer, part int, after Op) {
	t.Add(Store, layer, part, l.Store, after)
	t.Add(Scatter, layer, part, l.Scatter*l.Store, after)
}

// load moves some of a layer's KV, if it moves as a whole, or its weights. A kernel takes its share
// of the SMs.
func (t *Timeline) load(k Kind, d *Dense, layer, part int, seconds float64, after ...Op) Op {
	kernel, share := Gather, d.Gather
	if k == LoadWeights {
		kernel, share = GatherWeights, d.WeightsGather
	}
	op := t.Add(k, layer, part, seconds, after...)
	t.Add(kernel, layer, part, share*seconds, after...)
	return op
}

// fetching returns the time of fetch on idle resources, from the end of the selection. Reads ahead
// hide behind the layer's projections, selection and lookup on the GPU.
func (l *Layer) fetching(share float64) float64 {
	hidden := 0.
	if l.Ahead.Accuracy > 0 {
		hidden = l.Project + share*(l.Select+l.LookupGPU)
	}
	return transfer.Staged(l.Fetch.Part(share), l.Read*share, l.Hop.Part(share), hidden, l.Ahead.Again(), l.Ahead.Direct)
}

// gathering returns the SM time that the fetch of a share takes. Drives that write into the GPU
// take none.
func (l *Layer) gathering(share float64) float64 {
	seconds := l.Fetch.Part(share)
	if !l.Ahead.Direct {
		seconds += l.Hop.Part(share)
	}
	return l.Gather * seconds
}

// HostAttention holds the times of a layer's attention on the CPU, in seconds.
type HostAttention struct {
	Send, Attend, Return float64 // queries to the host, attention, outputs to the GPU
}
