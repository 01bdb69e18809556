package pipeline

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

// Step is one decode step: its layers for the whole batch, and, for schedules that divide
// the batch, for each part.
type Step struct {
	Whole  []Layer
	Parts  [][]Layer // by part, then layer
	Output float64   // final projection to the vocabulary, s

	// split is how many positions KVPR recomputes; nil: not yet chosen.
	split *int
}
