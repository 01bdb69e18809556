package policies

// Predictor names the blocks that the next step of a stream may demand, for prefetchers. It observes
// every step of the stream and no cache. Calls begin with Reset. Then Step follows for every step, and Next
// comes before the Step of each counted one.
type Predictor interface {
	// Reset forgets everything and starts a stream of blocks 0 … blocks-1.
	Reset(blocks int)
	// Step reports a step: the blocks that left the local window, the demand D_t, and its candidates,
	// best first. Without ranks there are no candidates.
	Step(births, demand, candidates []int32)
	// Next appends distinct blocks to dst, the most likely one first.
	Next(dst []int32) []int32
}
