package transfer

// Request is what one launch (or, with Launches 0, part of one) moves one way.
type Request struct {
	Descriptors int64 // contiguous pieces
	Bytes       int64 // of all of them
	Launches    int64 // kernels, or driver calls of a batch
}

// Layout is what a block is and how blocks lie in memory.
type Layout struct {
	EntryBytes  int64 // of one token of one stream: a layer's, or one KV head's where heads select apart
	BlockTokens int64 // 0 is 1
	// Fragments is in how many places a block lies: 1 where it is one piece (a latent
	// entry, K and V side by side), 2 where K and V are apart. 0 is 1.
	Fragments int64
	// Merge moves a run of adjacent blocks as one piece a fragment. It needs the run to be
	// adjacent where it goes as well, a staging buffer for example.
	Merge bool
}

// BlockBytes is the size of a block.
func (l Layout) BlockBytes() int64 { return l.EntryBytes * max(1, l.BlockTokens) }

// Request is one launch that moves blocks which lie in runs; both as a profile's misses
// and miss_runs count them, summed over the requests of a batch where those are fetched
// together. No blocks make an empty Request.
func (l Layout) Request(blocks, runs int64) Request {
	if blocks == 0 {
		return Request{}
	}
	pieces := blocks
	if l.Merge {
		pieces = runs
	}
	return Request{pieces * max(1, l.Fragments), blocks * l.BlockBytes(), 1}
}

// WriteBack is one launch that stores what was generated since the last: tokens of each
// of streams streams (a request of the batch, times heads where those lie apart). Tokens
// of a stream are adjacent.
func (l Layout) WriteBack(streams, tokens int64) Request {
	if streams*tokens == 0 {
		return Request{}
	}
	pieces := streams * tokens
	if l.Merge {
		pieces = streams
	}
	return Request{pieces * max(1, l.Fragments), streams * tokens * l.EntryBytes, 1}
}

// Cost is what a request takes.
type Cost struct {
	Bytes       int64 // payload
	Descriptors int64
	Launches    int64
	// WireForward and WireBack are bytes on the link with packet headers: in the
	// direction of the payload, and against it (read requests). They equal Bytes and 0
	// on links whose packets are not modelled.
	WireForward float64
	WireBack    float64
	Seconds     float64 // from launch to last byte: the sum of By
	By          Causes
	// SMs are taken from compute for Seconds; 0 on copy engines.
	SMs float64
	// Load is the rate of the whole over what the link carries both ways; 0 where the
	// directions do not disturb each other. Opposite transfers whose loads sum to more than
	// 1 slow each other by the sum.
	Load float64
}

// Causes are seconds by cause. Each is what that cause adds; submission that hides
// behind the engine adds nothing.
type Causes struct {
	Launch     float64 // kernel launches, driver calls
	Submit     float64 // CPU time of descriptors, as far as the engine waits for it
	Descriptor float64 // engine or latency, by the piece
	Link       float64 // bytes at the path's rate
}

// Path moves data one way.
type Path interface {
	// Time is Cost(r).Seconds.
	Time(r Request) float64
	Cost(r Request) Cost
}
