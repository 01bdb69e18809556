package transfer

import "math"

// Request holds the moves of one launch in one direction. With Launches 0 it is part of a launch.
type Request struct {
	Descriptors int64 // contiguous pieces
	Bytes       int64 // bytes of all pieces
	Launches    int64 // kernels, or driver calls of a batch
	// Align divides the address and the length of each piece. 0 means that pieces start at cache
	// lines.
	Align int64
	// Regions and RegionBytes say where pieces lie in host memory: at random in this number of regions
	// of this size, such as the KV of a request and head. 0 means that each has a page of its own.
	Regions     float64
	RegionBytes float64
}

// pages returns the mean number of pages that the pieces touch, if each region has as many of them. k
// random pieces touch m · (1 − (1 − 1/m)ᵏ) of m pages (Cárdenas, CACM 18(5), 1975).
func (r *Request) pages(page float64) float64 {
	n := float64(r.Descriptors)
	if page == 0 || r.Regions == 0 {
		return n
	}
	each, pieces := max(1, r.RegionBytes/page), max(1, n/r.Regions)
	return min(n, r.Regions) * each * (1 - math.Pow(1-1/each, pieces))
}

// Alignment returns the Align of pieces of one size that follow each other in memory. It is the
// largest power of two that divides the size, at most a cache line.
func Alignment(pieceBytes int64) int64 { return min(kernelAccess, pieceBytes&-pieceBytes) }

// Layout is the size of a block and the layout of blocks in memory.
type Layout struct {
	EntryBytes  int64 // of one token of one stream: of a layer, or of one KV head if heads select separately
	BlockTokens int64 // 0 means 1
	// Fragments is the number of contiguous pieces of a block: 1 for a latent entry or adjacent K
	// and V, 2 if K and V are separate. 0 means 1.
	Fragments int64
	// Merge moves a run of adjacent blocks as one piece per fragment. The run must also be adjacent
	// at its destination, for example a staging buffer.
	Merge bool
}

// BlockBytes returns the size of a block in bytes.
func (l Layout) BlockBytes() int64 { return l.EntryBytes * max(1, l.BlockTokens) }

// align returns the Align of a block's pieces.
func (l Layout) align() int64 { return Alignment(l.BlockBytes() / max(1, l.Fragments)) }

// Request returns one launch that moves blocks in runs. Both counts are those of a profile's misses
// and miss_runs, summed over the requests of a batch that are fetched together. No blocks give an
// empty Request.
func (l Layout) Request(blocks, runs int64) Request {
	if blocks == 0 {
		return Request{}
	}
	pieces := blocks
	if l.Merge {
		pieces = runs
	}
	return Request{Descriptors: pieces * max(1, l.Fragments), Bytes: blocks * l.BlockBytes(), Launches: 1, Align: l.align()}
}

// WriteBack returns one launch that stores the tokens generated since the last launch: tokens of
// each of streams streams. A stream is a request of the batch, or one of its heads if they are
// separate. Tokens of a stream are adjacent.
func (l Layout) WriteBack(streams, tokens int64) Request {
	if streams*tokens == 0 {
		return Request{}
	}
	pieces := streams * tokens
	if l.Merge {
		pieces = streams
	}
	return Request{Descriptors: pieces * max(1, l.Fragments), Bytes: streams * tokens * l.EntryBytes, Launches: 1}
}

// Cost is the cost of a request.
type Cost struct {
	Bytes       int64 // payload
	Descriptors int64
	// WireForward and WireBack are bytes on the link with packet headers: in the direction of the
	// payload, and against it (read requests). If the link's packets are not modelled, they are
	// Bytes and 0.
	WireForward float64
	WireBack    float64
	Seconds     float64 // from launch to last byte, the sum of By
	By          Causes
	// SMs that are not available to compute for Seconds, 0 on copy engines
	SMs float64
	// Load is the rate of the transfer divided by the link's rate in both directions together. It
	// is 0 if the directions do not slow each other. Opposite transfers whose loads sum to more
	// than 1 slow each other by the sum.
	Load float64
}

// Causes holds the additional seconds of each cause. Submission that hides behind the engine adds
// nothing.
type Causes struct {
	Launch     float64 // kernel launches, driver calls
	Submit     float64 // CPU time of descriptors that the engine waits for
	Descriptor float64 // engine time or latency per piece
	Link       float64 // bytes at the path's rate
}

// Path moves data in one direction.
type Path interface {
	// Time returns Cost(r).Seconds.
	Time(r Request) float64
	Cost(r Request) Cost
}
