package policytest

import (
	"cmp"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// Reference is a policy written out by its definition. It is slow and plain, from the paper and
// SEMANTICS S1–S13 instead of from the code that it checks. It sees whole steps, while the policy
// sees changes. Calls come in the order Reset, then for every step Step, KeepOut (KeepsOut only),
// Victims. A Reference that reads Scope.Capacity and is a policies.Resizer gets the capacity before
// every Step.
type Reference interface {
	// Reset starts a stream. It gets the policy's Scope.
	Reset(policies.Scope)
	// Step reports a step, after its births and fetches and before any block leaves.
	Step(*Step)
	// Victims returns at least n distinct members of outside, all of which are evicted. outside is
	// ascending: the residents that the step does not demand.
	Victims(n int, outside []int32) []int32
}

// KeepsOut is the Reference of a policies.Bypasser.
type KeepsOut interface {
	// KeepOut returns at least n distinct members of demand (D_t, ascending) that are not kept after
	// the step. n = max(0, |D_t|-C).
	KeepOut(n int, demand []int32) []int32
}

// Step is a whole step. Every list of blocks is ascending unless its comment says otherwise.
//
// The blocks that a warm-up places (SEMANTICS S8) come before the first step, as Births with T = 0
// and no other list. They were last used and inserted at step -1, like the births of step 0. No
// Victims follow this call.
type Step struct {
	T      int32   // recorded steps without gaps, negative in warm-up windows
	Before []int32 // residents before the step's births
	Births []int32 // left the local window: last used and inserted at T-1
	Demand []int32 // D_t
	Hits   []int32 // D_t, resident after the births
	Misses []int32 // D_t, fetched
	Pass   []int32 // members of D_t that S5 does not keep, first to leave first. Empty for a bypasser

	TopK   int       // K: the demand is drawn from the first K of List
	List   []int32   // the step's first M blocks as recorded, pinned ones included. Best first if lists have ranks
	Scores []float32 // parallel to List, or nil

	next   func(x int32) int32
	picked func(x int32) int
}

// Candidates are the ranks K … M-1, best first, resident or not, pinned or not.
func (s *Step) Candidates() []int32 { return s.List[min(s.TopK, len(s.List)):] }

// Next returns the step of the next demand of x after this one. It is policies.Never if there is
// none or if a warm-up window has it (SEMANTICS S9).
func (s *Step) Next(x int32) int32 { return s.next(x) }

// Picked returns the number of entries of demanded block x among the first K of the list.
func (s *Step) Picked(x int32) int { return s.picked(x) }

// Ledger keeps the values that most definitions need of a block. A Reference that embeds it has
// Reset and Step.
type Ledger struct{ blocks map[int32]*account }

type account struct{ lastUse, inserted, uses int64 }

// Reset forgets all.
func (l *Ledger) Reset(policies.Scope) { l.blocks = map[int32]*account{} }

// Step records a step.
func (l *Ledger) Step(s *Step) {
	t := int64(s.T)
	for _, x := range s.Births {
		l.blocks[x] = &account{lastUse: t - 1, inserted: t - 1}
	}
	for _, x := range s.Misses {
		l.blocks[x] = &account{inserted: t}
	}
	for _, x := range s.Demand {
		l.blocks[x].lastUse = t
		l.blocks[x].uses++
	}
}

// LastUse returns the step that last demanded x, or for a birth the step before it.
func (l *Ledger) LastUse(x int32) int64 { return l.blocks[x].lastUse }

// Inserted returns the step that fetched x, or for a birth the step before it.
func (l *Ledger) Inserted(x int32) int64 { return l.blocks[x].inserted }

// Uses returns the number of steps that demanded x since its insertion: 0 at its birth, 1 at its
// fetch.
func (l *Ledger) Uses(x int32) int64 { return l.blocks[x].uses }

// Least returns the n least blocks by the first key, then by the second and so on, then by index.
// Eviction orders have this form (SEMANTICS S12).
func Least(n int, blocks []int32, keys ...func(x int32) int64) []int32 {
	order := slices.Clone(blocks)
	slices.SortFunc(order, func(a, b int32) int {
		for _, key := range keys {
			if c := cmp.Compare(key(a), key(b)); c != 0 {
				return c
			}
		}
		return cmp.Compare(a, b)
	})
	return order[:min(max(n, 0), len(order))]
}
