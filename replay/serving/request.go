package serving

import (
	"fmt"
	"io"
)

// Request is one request as it arrives.
type Request struct {
	Arrival int64 // ns since the start
	Input   int   // tokens of the prompt, at least 1
	Output  int   // tokens to generate, at least 1
	Class   string
	// Prefix holds an id for each PrefixTokens tokens of the prompt. Equal ids mean equal tokens
	// after equal prefixes. It is nil if no prompt is shared.
	Prefix []int64
}

// PrefixTokens is the number of tokens of one id of a prefix, as in the Mooncake traces.
const PrefixTokens = 512

// MostTokens bounds the tokens of a request, so that sums over a batch fit into 63 bits.
const MostTokens = 1 << 30

// Source returns requests in order of arrival and then io.EOF. It may reuse q.Prefix.
type Source func(q *Request) error

// FromSlice returns a source of requests.
func FromSlice(all []Request) Source {
	return func(q *Request) error {
		if len(all) == 0 {
			return io.EOF
		}
		*q, all = all[0], all[1:]
		return nil
	}
}

// checked refuses requests that no run may begin with. number counts from 1.
func (q *Request) checked(number, last int64) error {
	switch {
	case q.Arrival < last:
		return fmt.Errorf("request %d arrives %d ns before the previous one: sort the requests by arrival", number, last-q.Arrival)
	case q.Input < 1 || q.Input > MostTokens || q.Output < 1 || q.Output > MostTokens:
		return fmt.Errorf("request %d has %d input and %d output tokens, expected 1 to %d each", number, q.Input, q.Output, MostTokens)
	case q.Prefix != nil && len(q.Prefix) != (q.Input+PrefixTokens-1)/PrefixTokens:
		return fmt.Errorf("request %d has %d prefix ids for %d input tokens, expected one for each %d tokens or part of them",
			number, len(q.Prefix), q.Input, PrefixTokens)
	}
	return nil
}

// RequestRow is the history of one request. Times are in ns since the start.
type RequestRow struct {
	ID       int64 `json:"id"` // from 0, in order of arrival
	Arrival  int64 `json:"arrival_ns"`
	Admitted int64 `json:"admitted_ns"` // when the first iteration with it was formed
	First    int64 `json:"first_token_ns"`
	Finish   int64 `json:"finish_ns"`
	Input    int   `json:"input_tokens"`
	Output   int   `json:"output_tokens"`
	// Preemptions counts how often it gave up its memory. Reused counts prompt tokens whose KV it
	// found, at its first admission.
	Preemptions int `json:"preemptions"`
	Reused      int `json:"reused_tokens"`
	// Class is "" without classes.
	Class string `json:"class,omitempty"`
}

// Queue returns the time from arrival to admission, in ns.
func (r *RequestRow) Queue() int64 { return r.Admitted - r.Arrival }

// TTFT returns the time from arrival to the first token, in ns.
func (r *RequestRow) TTFT() int64 { return r.First - r.Arrival }

// TPOT returns the mean time of an output token after the first, in ns. It is 0 for one token.
func (r *RequestRow) TPOT() int64 {
	if r.Output < 2 {
		return 0
	}
	return (r.Finish - r.First) / int64(r.Output-1)
}

// StepRow is one iteration. Times are in ns since the start, memory in bytes of one GPU. With
// replicas, requests, tokens and blocks are sums, and memory is that of the fullest GPU.
type StepRow struct {
	Number      int64 `json:"step"`
	Start       int64 `json:"start_ns"`
	End         int64 `json:"end_ns"`
	Running     int   `json:"running"` // requests that hold KV
	Waiting     int   `json:"waiting"`
	Batch       int   `json:"batch"` // requests with tokens in this iteration
	Prefill     int   `json:"prefill_tokens"`
	Decode      int   `json:"decode_tokens"`
	Again       int   `json:"recomputed_tokens"` // uncached tokens that eLLM makes again
	Uncached    int   `json:"uncached_1024ths"`
	Preempted   int   `json:"preempted"`
	Blocks      int   `json:"kv_blocks"`
	Weights     int64 `json:"weights_bytes"`
	Activations int64 `json:"activation_bytes"`
	Buffers     int64 `json:"buffer_bytes"` // KV of groups of layers that eLLM makes again
	KV          int64 `json:"kv_bytes"`
	ToGPU       int64 `json:"to_gpu_bytes"`
	ToHost      int64 `json:"to_host_bytes"`

	Generated int `json:"-"` // tokens, of requests that have a whole prompt
}

// add adds the iteration of a replica.
func (r *StepRow) add(of *StepRow) {
	r.Running += of.Running
	r.Waiting += of.Waiting
	r.Batch += of.Batch
	r.Prefill += of.Prefill
	r.Decode += of.Decode
	r.Again += of.Again
	r.Preempted += of.Preempted
	r.Blocks += of.Blocks
	r.ToGPU += of.ToGPU
	r.ToHost += of.ToHost
	r.Generated += of.Generated
	r.Uncached, r.Weights, r.Activations = max(r.Uncached, of.Uncached), max(r.Weights, of.Weights), max(r.Activations, of.Activations)
	r.Buffers, r.KV = max(r.Buffers, of.Buffers), max(r.KV, of.KV)
}

// Memory returns the bytes of all pools.
func (r *StepRow) Memory() int64 { return r.Weights + r.Activations + r.Buffers + r.KV }
