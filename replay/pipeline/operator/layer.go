package operator

import "github.com/kvreplay/kvreplay/internal/slice"

// Load is the input of the operators of one layer and step, summed over the requests of a batch or
// of a part of it.
type Load struct {
	Requests     float64
	Queries      float64 // query tokens: positions decoded
	RoutedTokens float64 // tokens whose routed experts this GPU runs, 0 for Queries
	Context      float64 // cached tokens
	Longest      float64 // cached tokens of the request that has most, 0 if all have as many
	Scored       float64 // cached tokens × query tokens that score them
	Demand       float64 // demanded blocks of all heads
	Attended     float64 // tokens attended × query tokens that attend to them
	Bytes        float64 // bytes that attention reads, all heads: the demand and pinned blocks
	Fetched      float64 // demanded blocks that are fetched, and prefetched ones
	Resident     float64 // blocks in all caches
	Caches       float64 // one for each stream
	Again        float64 // tokens that the layer runs again over
	Pairs        float64 // sum over these tokens of the tokens up to and including each
	Selected     float64 // of Pairs, those that an indexer selects. Without one it is not read
	Chunks       []Chunk // parts of prompts, whose tokens are among Queries
	Eager        bool    // whether the step has no CUDA graph. Steps with Chunks have none
	Remade       bool    // whether a schedule computes K and V of cached tokens again, so that Recompute is read
}

// routed returns the tokens whose routed experts a GPU runs. GPUs that share experts divide the pairs of
// tokens and experts evenly, so it is the mean of their tokens.
func (l *Load) routed() float64 {
	if l.RoutedTokens > 0 {
		return l.RoutedTokens
	}
	return l.Queries
}

// decoding returns the query tokens that are not those of parts of prompts.
func (l *Load) decoding() float64 {
	return l.Queries - slice.Sum(l.Chunks, func(c Chunk) float64 { return float64(c.Tokens) })
}

// Chunk is a part of a prompt.
type Chunk struct {
	Tokens int64
	Before int64 // tokens of the request that are cached already
}

// Pairs returns the sum over the tokens of a chunk of the tokens up to and including each.
func (c Chunk) Pairs() float64 {
	return float64(c.Tokens) * (float64(c.Before) + float64(c.Tokens+1)/2)
}

// Selected is Pairs if each token attends to at most topk tokens.
func (c Chunk) Selected(topk int64) float64 {
	all := min(c.Tokens, max(0, topk-c.Before)) // tokens that attend to all
	return Chunk{all, c.Before}.Pairs() + float64(c.Tokens-all)*float64(topk)
}

// Times holds the times of a layer's operators, in seconds.
type Times struct {
	Project, Select, Pre, Attend, Post float64
	LookupGPU, LookupCPU, Update       float64
	AttendAll                          float64 // attention over the whole context
	Recompute                          float64 // K and V of one position of all requests, if Load.Remade
	Again                              float64 // the layer over Load.Again tokens
	AttendChunks                       float64 // causal attention of Load.Chunks
	// Dispatch and Combine are the exchanges of routed experts on several GPUs. RoutedShare is the share
	// of Post that the routed experts take.
	Dispatch, Combine, RoutedShare float64
}

// Pricer prices the operators of a model.
type Pricer interface {
	// Layer returns the times of one layer of a model, counted from 0.
	Layer(layer int, l *Load) (Times, error)
	// Output returns the time of the projection to the vocabulary, in seconds.
	Output(queries float64) (float64, error)
	// Notes returns the assumptions.
	Notes() []string
}
