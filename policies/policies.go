// Package policies is the contract between the replay engine and a cache policy.
//
// The engine owns residency and counts. It keeps the demand D_t of a step resident
// by rule, so all that a policy decides is which blocks outside the current demand
// stay. That outside set E changes in three ways, and each change is told:
//
//	E ← ((E ∪ Offered) \ Hit) ∪ Exit \ victims
//
// A policy is three methods. More abilities are small optional interfaces, found
// once by type assertion:
//
//	Needer    asks for further columns of Step: candidates, scores, the demand, the future
//	Bypasser  keeps part of D_t out of the cache: admission, and |D_t| > C (SEMANTICS S5)
//	Resizer   follows a capacity that changes, where it looks at Scope.Capacity at all
//	Admitter  a Bypasser that fetches entry by entry, and fills with whole blocks
//	Peeker    names its next victim ahead, for prefetchers that swap into the cache
//	Sweeper   answers all capacities in one pass, where it is a stack algorithm
//	Lossy     drops for good, and looks after the demand too (another contract: lossy.go)
//	Divider   a Lossy that divides a budget among the streams of a request
//
// Every answer is checked: victims must be resident, not demanded, distinct, enough.
// A wrong answer ends the cell with an error, never with a wrong number.
package policies

import "math"

// Policy decides which blocks outside the current demand stay resident in one
// stream. Calls come in the order Reset, then for every step Update, Evict. No
// method may keep a slice that it was given, read a clock, or use randomness that is
// not seeded by Scope.Seed.
type Policy interface {
	// Reset forgets everything and starts a stream. Memory is kept: one instance
	// serves many streams, one after the other. An error means that the policy
	// cannot run here.
	Reset(*Scope) error
	// Update tells what a step changed.
	Update(*Step)
	// Evict appends at least n distinct members of E to dst and forgets them. It is
	// called after every Update, with n = 0 when nothing must go: a policy that drops
	// eagerly does so then. Where units have unequal sizes it is called again, with
	// n = 1, until there is room.
	Evict(n int, dst []int32) []int32
}

// Scope is what one policy instance looks after: one stream, or a pool of streams that
// share a cache.
type Scope struct {
	Blocks   int    // block ids are 0 … Blocks-1
	Capacity int    // blocks that may stay between steps, pinned ones not counted; Unbounded for policies without capacity
	Steps    int    // steps to come, windows included
	Windows  int    // how many of them are warm-up: T runs from -Windows to Steps-Windows-1
	Demand   int    // largest |D_t|
	Seed     uint64 // the only source of randomness
	// PerStep is how many updates make a decode step: in a pool one for each of its
	// streams, in a fixed order. T numbers updates: options that count steps are multiplied
	// by Scope.Updates. 0 stands for 1.
	PerStep int
}

// Updates is the number of updates that make a decode step, at least 1.
func (s *Scope) Updates() int { return max(1, s.PerStep) }

// Unbounded is the capacity of a policy that is not given one (Traits.Windowed).
const Unbounded = math.MaxInt32

// Never is the next use of a block that no counted step will demand before a
// warm-up window does, or that nothing will demand again.
const Never = math.MaxInt32

// Step is the change from one recorded step of a stream to the next. Every list is
// ascending unless it says otherwise, read only, and valid until the call returns.
type Step struct {
	// T numbers the recorded steps without gaps: negative in warm-up windows, 0 for
	// the first counted step; the decode step where the trace skips none. The call
	// that hands over an importance or staging warm-up comes before step 0, with T = 0
	// and nothing but Offered set. In a pool every stream's row of a step has a T of its
	// own (Scope.PerStep).
	T int32
	// Demand is |D_t|.
	Demand int
	// Offered became resident without being demanded: left the local window, or was
	// placed by the warm-up. It was last used, and inserted, at step T-1, after every
	// block of Exit: exits first, then births (SEMANTICS S3, S12). A member that D_t
	// demands at once is also in Hit.
	Offered []int32
	// Hit entered the demand and was resident.
	Hit []int32
	// Miss entered the demand and was absent: it is fetched. A block that was kept
	// out (Pass, Bypasser) and is demanded again is told here, step after step.
	Miss []int32
	// Exit left the demand and joins E; it was last used at step T-1. Blocks that were
	// kept out are not told.
	Exit []int32
	// Pass are the members of D_t that the engine will not keep after this step,
	// because |D_t| > C and the policy is no Bypasser: worst rank first, without
	// ranks lowest index first.
	Pass []int32

	// Candidates are the ranks K … M-1 of this step's list, best first, resident or
	// not, pinned or not; in a pool, behind them rank by rank, all ranks of the latest
	// lists of its other streams. Filled for NeedCandidates.
	Candidates []int32
	// Members is D_t. Filled for NeedDemand.
	Members []int32
	// Picked is parallel to Members: how many entries of the block, one token of one head
	// each, the step demands. All 1 where blocks hold one. Filled for NeedPicked, which
	// goes with NeedDemand.
	Picked []int32
	// List is the step's list of M blocks, best first, pinned ones included, and Scores
	// is parallel to it. Filled for NeedScores.
	List   []int32
	Scores []float32
	// OfferedNext, ExitNext and LeavingNext are parallel to Offered, Exit and Leaving:
	// the step of the next demand, Never if there is none or if a warm-up window
	// has it. Leaving are the members of D_t that D_{t+1} does not demand (none are
	// told at the last step). Filled for NeedNext.
	OfferedNext, ExitNext, LeavingNext []int32
	Leaving                            []int32
}

// Needs is a set of optional columns of Step.
type Needs uint16

// Columns that a policy can ask for.
const (
	NeedCandidates Needs = 1 << iota // needs a trace with order=rank
	NeedDemand
	NeedNext   // the future: the policy is a bound, not a contender
	NeedScores // needs a trace with scores
	NeedPicked // needs a trace whose lists name entries, not blocks of several

	// Of lossy policies only.
	NeedAttention  // needs the attention that listed blocks were given: attention_mass, or softmax scores
	NeedPromptMass // needs a trace with prompt_mass
	NeedWindows    // needs prompt windows, replayed, or what they sum to: prompt_mass
)

// Needer is asked once, before the first Reset.
type Needer interface{ Needs() Needs }

// Bypasser decides itself which members of D_t are not kept after the step. Bypass
// appends at least n of them to dst, distinct; n = max(0, |D_t|-C). It is called
// after every Update, before Evict.
type Bypasser interface {
	Bypass(n int, dst []int32) []int32
}

// Resizer is told, before Update, that the capacity has changed to so many blocks: it
// grows, or shrinks and grows again where memory is divided anew (replay's --reallocate).
// A policy that looks at Scope.Capacity (Traits.Sized) and is none cannot run there.
type Resizer interface{ Resize(capacity int) }

// Admitter is a Bypasser that fetches what a step misses entry by entry, and beside that
// whole the blocks that it keeps (PQCache, where what a step demands and what it fills
// the cache with differ).
type Admitter interface {
	Bypasser
	Admits()
}

// NeedsOf returns what p asks for.
func NeedsOf(p Policy) Needs {
	if n, ok := p.(Needer); ok {
		return n.Needs()
	}
	return 0
}
