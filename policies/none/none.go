// Package none keeps nothing between steps. It fetches every demanded block, except a block that
// leaves the local window at the step that demands it.
//
// Source: KVDrive's window ×0 (section 3): most systems that offload fetch a step's selection, use
// it once and drop it.
//
// It is the floor of any comparison, because its misses are the demand itself. Cost: O(|D_t|) per
// step. Memory: none.
package none

import (
	_ "embed" // the package comment is the policy's documentation
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

//go:embed none.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "none",
	Summary: "keeps nothing between steps (window:0)",
	Source:  "KVDrive, window ×0",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Windowed: true, Bypasses: true, Stack: true, Memory: "0 B", Cost: "O(|D|) a step"},
	New:     policies.NoOptions(func() policies.Policy { return new(Policy) }),
}

// Policy keeps nothing.
type Policy struct {
	demand  []int32
	outside []int32
}

// Needs returns the need for the demand.
func (p *Policy) Needs() policies.Needs { return policies.NeedDemand }

// Reset starts a stream.
func (p *Policy) Reset(*policies.Scope) error {
	p.demand, p.outside = p.demand[:0], p.outside[:0]
	return nil
}

// Update finds the residents to drop: births that the step did not demand.
func (p *Policy) Update(s *policies.Step) {
	p.demand = append(p.demand[:0], s.Members...) // the engine owns the list
	for _, x := range s.Offered {
		if !slices.Contains(s.Hit, x) {
			p.outside = append(p.outside, x)
		}
	}
}

// Bypass keeps the whole demand out.
func (p *Policy) Bypass(_ int, dst []int32) []int32 { return append(dst, p.demand...) }

// Evict drops everything else.
func (p *Policy) Evict(_ int, dst []int32) []int32 {
	dst = append(dst, p.outside...)
	p.outside = p.outside[:0]
	return dst
}
