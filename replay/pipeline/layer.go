package pipeline

// Step is one decode step: its layers for the whole batch and, for schedules that divide
// the batch, for each part.
type Step struct {
	Whole  []Layer
	Parts  [][]Layer // by part, then layer
	Output float64   // final projection to the vocabulary, s

	// split is how many positions KVPR recomputes; nil: not yet chosen.
	split *int
}

// parts are those of the step, or the whole batch as one.
func (s *Step) parts() [][]Layer {
	if len(s.Parts) == 0 {
		return [][]Layer{s.Whole}
	}
	return s.Parts
}

// sum is a closed form that adds up the layers of the whole batch.
func (s *Step) sum(layer func(*Layer) float64) float64 {
	sum := s.Output
	for i := range s.Whole {
		sum += layer(&s.Whole[i])
	}
	return sum
}

// Layer is what one layer of one step takes, for a batch or a part of it: seconds.
type Layer struct {
	Project float64 // projections that selection needs
	Select  float64
	Pre     float64 // projections that selection does not need
	Attend  float64 // attention over the demand
	Post    float64 // output projection, feed-forward

	LookupGPU, LookupCPU, Update float64

	Fetch   Transfer // misses that host memory has
	Read    float64  // from the SSD, of the other misses
	Hop     Transfer // those to the GPU
	Store   float64  // write-back
	Gather  float64  // share of the SMs that a running fetch takes, 0 with copy engines
	Scatter float64  // share of the SMs that a running write-back takes, 0 with copy engines
	Missed  float64  // share of the attended entries that is fetched, 0 to 1

	Dense Dense
	Loads Loads
	Ahead ReadAhead
}

// Loads are the rates of a layer's transfers while they move, over what the link carries
// both ways: 0 where the directions do not disturb each other.
type Loads struct{ Fetch, Hop, Store, Layer float64 }

// Dense is what a layer takes where its whole KV stays on the host and moves every step
// (FlexGen, KVPR), or that of some tokens does (eLLM): seconds.
type Dense struct {
	Weights float64 // of the layer over the link
	// Shares of them: W_K and W_V, and all of attention, those included.
	KeyValueShare, AttentionShare float64
	// Shares of the SMs that take the layer's KV and activations, and its weights, while
	// they move: 0 with copy engines.
	Gather, WeightsGather float64

	Attend      float64  // attention over the context
	KV          Transfer // all of it over the link
	Positions   int      // of each request, cached
	Prompt      int      // of them, those that activations are kept of
	Activations float64  // a position of all requests, over the link
	Recompute   float64  // a position of all requests, K and V from its activations
	Uncached    Transfer // the uncached tokens of all requests over the link
	Again       float64  // the whole layer over them, from its input
	Dequantize  float64  // a position of all requests, where KV is quantised
	Quantize    float64  // the KV that a step generates

	Bytes           float64 // of KV over the link
	ActivationBytes float64 // of a position's activations, all requests
}

// computing is the time of compute: all operators from the end of the selection.
func (l *Layer) computing() float64 { return l.pre() + l.Attend + l.Post }

// pre is what comes between selection and attention: projections, and what the write-back
// takes of the SMs.
func (l *Layer) pre() float64 { return l.Pre + l.Scatter*l.Store }

// Transfer is a time that divides: a fixed part, once a launch, and the rest, in
// proportion to what is moved.
type Transfer struct{ Seconds, Fixed float64 }

// Part is the time of a share of it.
func (t Transfer) Part(share float64) float64 {
	if share <= 0 || t.Seconds == 0 {
		return 0
	}
	return t.Fixed + share*(t.Seconds-t.Fixed)
}

// ReadAhead is how a system reads a layer's misses from the SSD before they are known.
// The zero value waits for the selection.
type ReadAhead struct {
	// Accuracy is the share of the reads that are named when the layer begins, so that they
	// run during its projections and selection (KVDrive, section 5: hierarchical staging).
	// What was named wrongly was read for nothing, and is read again after the selection.
	Accuracy float64
	// Direct: the SSD writes into the GPU (GPUDirect Storage). Its bytes share the link with
	// what comes from host memory, instead of passing it afterwards.
	Direct bool
}

// again is the share of the reads that is read again.
func (a ReadAhead) again() float64 {
	if a.Accuracy == 0 {
		return 0
	}
	return 1 - a.Accuracy
}

// layers adds the whole batch layer by layer, and the output. place adds one layer after
// last and returns its last operation.
func (t *Timeline) layers(s *Step, place func(i int, l *Layer, last Op) Op) {
	last := None
	for i := range s.Whole {
		last = place(i, &s.Whole[i], last)
	}
	t.Add(Output, len(s.Whole), 0, s.Output, last)
}

// selectAndFetch adds the selection, lookup and fetch of a share of the batch.
func (t *Timeline) selectAndFetch(l *Layer, layer, part int, share float64, after Op) (selected, fetched Op) {
	selected = t.Add(Select, layer, part, l.Select*share, after)
	selected = t.Add(LookupGPU, layer, part, l.LookupGPU*share, selected)
	return selected, t.fetch(FetchBlocks, l, layer, part, share, selected)
}

// compute adds a layer's operators from the end of its selection. Attention also waits for
// fetched.
func (t *Timeline) compute(l *Layer, layer, part int, fetched Op, after ...Op) Op {
	last := t.Add(Pre, layer, part, l.Pre, after...)
	t.store(l, layer, part, last)
	last = t.Add(Attend, layer, part, l.Attend, last, fetched)
	return t.Add(Post, layer, part, l.Post, last)
}

// attendDensely adds a layer that attends to the whole context, after its KV has arrived.
func (t *Timeline) attendDensely(l *Layer, layer int, last, arrived Op) Op {
	last = t.Add(Project, layer, 0, l.Project, last)
	last = t.Add(Pre, layer, 0, l.Pre, last)
	last = t.Add(Attend, layer, 0, l.Dense.Attend, last, arrived)
	return t.Add(Post, layer, 0, l.Post, last)
}

// later ends with the last of two operations.
func (t *Timeline) later(a, b Op) Op { return t.Add(Join, 0, 0, 0, a, b) }

// fetch moves a share of a layer's misses: those in host memory while the SSD reads the
// others, which follow (KVDrive's hierarchical staging), or, direct, share the link.
func (t *Timeline) fetch(k Kind, l *Layer, layer, part int, share float64, after Op) Op {
	seconds, read, hop := l.Fetch.Part(share), l.Read*share, l.Hop.Part(share)
	if read == 0 && hop == 0 {
		blocks := t.Add(k, layer, part, seconds, after)
		t.Add(Gather, layer, part, l.Gather*seconds, after)
		return blocks
	}
	again, begin := l.Ahead.again(), after
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

// store writes back what a layer generated; a kernel takes its share of the SMs.
func (t *Timeline) store(l *Layer, layer, part int, after Op) {
	t.Add(Store, layer, part, l.Store, after)
	t.Add(Scatter, layer, part, l.Scatter*l.Store, after)
}

// load moves some of a layer whose KV moves as a whole, or its weights; a kernel takes its
// share of the SMs.
func (t *Timeline) load(k Kind, d *Dense, layer, part int, seconds float64, after ...Op) Op {
	kernel, share := Gather, d.Gather
	if k == LoadWeights {
		kernel, share = GatherWeights, d.WeightsGather
	}
	op := t.Add(k, layer, part, seconds, after...)
	t.Add(kernel, layer, part, share*seconds, after...)
	return op
}

// fetching is the time of fetch on idle resources, from the end of the selection. Reads
// ahead hide behind the layer's projections, selection and lookup on the GPU:
//
//	max(host, late) + hop;  direct: max(host + early + (1 − accuracy)·hop, late)
//
// late being the SSD's time, or max(0, SSD − hidden) + (1 − accuracy)·SSD with reads ahead,
// early what those leave of the hop, max(0, hop − hidden). Without, nothing is hidden and
// nothing read again.
func (l *Layer) fetching(share float64) float64 {
	host, late, hop := l.Fetch.Part(share), l.Read*share, l.Hop.Part(share)
	hidden := 0.
	if l.Ahead.Accuracy > 0 {
		hidden = l.Project + share*(l.Select+l.LookupGPU)
		late = max(0, late-hidden) + l.Ahead.again()*late
	}
	if l.Ahead.Direct {
		return max(host+max(0, hop-hidden)+l.Ahead.again()*hop, late)
	}
	return max(host, late) + hop
}

// gathering is the time that the fetch of a share takes of the SMs; drives that write into
// the GPU take none.
func (l *Layer) gathering(share float64) float64 {
	seconds := l.Fetch.Part(share)
	if !l.Ahead.Direct {
		seconds += l.Hop.Part(share)
	}
	return l.Gather * seconds
}
