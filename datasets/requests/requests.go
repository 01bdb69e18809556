// Package requests reads traces of requests as serving systems recorded them: when each
// request arrived, how long its prompt and its answer were and, where the source says
// it, which blocks of its prompt it shares with others. They hold no selections and are
// not replayed; they drive models of serving. README.md describes both formats and
// every figure of the summary.
package requests

import (
	"fmt"
	"time"
)

// BlockTokens is the number of prompt tokens that one of Mooncake's hash ids stands
// for; the last block of a prompt may be shorter (Qin et al., "Mooncake", FAST 2025, and
// the traces of its release: every request has ⌈input_length ÷ 512⌉ ids).
const BlockTokens = 512

// Request is one request of a trace.
type Request struct {
	Arrival      time.Duration // since the first request's
	InputTokens  int           // of the prompt
	OutputTokens int           // generated
	// PrefixBlocks are ids of the prompt's blocks of BlockTokens tokens, the last one
	// possibly shorter. Equal ids mean equal blocks behind equal prefixes, so that a KV
	// cache may share them. Nil where the source does not say.
	PrefixBlocks []int64
}

// Format is a kind of request trace.
type Format int

// The formats, and what Detect tells apart from them.
const (
	Unknown  Format = iota
	Azure           // CSV of the Azure LLM inference traces
	Mooncake        // JSON lines of the Mooncake traces
	Parquet         // no request trace: what trace.Open reads
)

var formatNames = [...]string{"unknown", "azure-csv", "mooncake-jsonl", "parquet"}

// String is the name of the format in messages and in JSON.
func (f Format) String() string { return formatNames[f] }

// Known says what request traces are known by, for messages.
const Known = "CSV with the header " + azureHeader + ", or JSON lines with timestamp, input_length, output_length and hash_ids, gzip'ed or not"

// maxTokens bounds a request's tokens: what is above is a damaged number.
const maxTokens = 1<<31 - 1

// RowError is a malformed line of a request trace.
type RowError struct {
	File string
	Line int // from 1
	Err  error
}

// Error is one line: file, line, what was found and what was expected.
func (e *RowError) Error() string {
	return fmt.Sprintf("read requests: %s:%d: %v", e.File, e.Line, e.Err)
}

// Unwrap returns what is wrong with the line.
func (e *RowError) Unwrap() error { return e.Err }
