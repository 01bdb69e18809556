// Package window keeps exactly the blocks that the last N steps demanded (KVDrive's critical KV
// window ×N). It has no capacity: its size follows from the trace.
//
// Source: KVDrive, critical KV window, Figs. 3 and 16 (×0 … ×4).
//
// Rule: after step t exactly the blocks last used at step t-N+1 or later stay (a birth was last
// used at the step before it). N = 0 keeps nothing: see package none.
//
// State: the LRU queue and its length after each of the last N steps. Cost: O(1) per change of the
// demand. Memory: 4 B per block of the context and 4 B per change. Stack property: a larger window
// never misses more. Its misses are about those of LRU at the window's mean size: within 3 % for N
// = 1 … 8 on deep_vt, wide_questions and the news trace. LRU with the window's peak capacity misses
// less, because it keeps blocks that the window drops while there is room.
package window

import (
	_ "embed" // the package comment is the policy's documentation
	"fmt"
	"strconv"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/policies/none"
)

//go:embed window.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "window",
	Summary: "keeps exactly the demand of the last N steps",
	Source:  "KVDrive, critical KV window",
	Example: "2",
	Doc:     policies.PackageComment(source),
	Usage:   "window:N, N from 0 to 1073741824 steps, as in window:2",
	Traits:  policies.Traits{Windowed: true, Stack: true, Memory: "4 B", Cost: "O(1)"},
	New:     parse,
}

// mostSteps is the longest window, longer than any trace: ages count in 32 bits.
const mostSteps = 1 << 30

func parse(options string) (func() policies.Policy, string, error) {
	n, err := strconv.Atoi(options)
	if err != nil || n < 0 || n > mostSteps {
		return nil, "", fmt.Errorf("window of %q steps, expected a whole number", options)
	}
	if n == 0 {
		return func() policies.Policy { return new(none.Policy) }, "0", nil
	}
	return func() policies.Policy { return &Policy{Steps: n} }, strconv.Itoa(n), nil
}

// Policy is a window of Steps ≥ 1 steps over one stream.
type Policy struct {
	Steps int
	queue lru.Queue
	marks []int // queue length after each update of the last Steps steps, used as a ring
	full  int   // updates of Steps steps
	calls int
}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.queue.Reset(sc.Blocks)
	p.marks = p.marks[:0] // a window may be longer than any stream
	p.full, p.calls = p.Steps*sc.Updates(), 0
	return nil
}

// Follows reports whether self is p: a block that its stream demands again is within the window.
func (p *Policy) Follows(self policies.Policy) bool { return self == policies.Policy(p) }

// Update applies a step. Blocks that join at step t were last used at t-1.
func (p *Policy) Update(s *policies.Step) {
	p.queue.Update(s)
	if p.calls < p.full {
		p.marks = append(p.marks, p.queue.Len())
	} else {
		p.marks[p.calls%p.full] = p.queue.Len()
	}
	p.calls++
}

// Evict appends the blocks last used before step t-N+1, which joined at step t-N+1 or earlier.
func (p *Policy) Evict(_ int, dst []int32) []int32 {
	if p.calls < p.full {
		return dst
	}
	return p.queue.EvictTo(p.marks[p.calls%p.full], dst)
}
