// Package policies is the contract between the replay engine and a cache policy.
//
// The engine owns residency and counts. It keeps the demand D_t of a step resident by rule. A
// policy decides only which blocks outside the current demand stay. That outside set E changes in
// three ways, and the engine reports each change:
//
//	E ← ((E ∪ Offered) \ Hit) ∪ Exit \ victims
//
// A policy is three methods. More abilities are small optional interfaces, found once by type
// assertion:
//
//	Needer    needs further columns of Step: candidates, scores, the demand, the future
//	Bypasser  keeps part of D_t out of the cache: admission, and |D_t| > C (SEMANTICS S5)
//	Resizer   follows a capacity that changes, if it reads Scope.Capacity at all
//	Admitter  a Bypasser that fetches entry by entry, and fills with whole blocks
//	Peeker    names its next victim ahead, for prefetchers that swap into the cache
//	Sweeper   answers all capacities in one pass, if it is a stack algorithm
//	Follower  follows a pool by the changes of each stream
//	Failer    may fail to answer, because another program does
//	Sharer    waits for the answers to several streams at once, because another program gives them
//	Versioner depends on more than its decisions show, such as on the source of another program
//	Lossy     drops for good, and manages the demand too (another contract: lossy.go)
//	Divider   a Lossy that divides a budget among the streams of a request
//
// The engine checks every answer: victims must be resident, not demanded, distinct and enough. A
// wrong answer ends the cell with an error, never with a wrong number.
package policies

import (
	"errors"
	"math"
)

// Policy decides which blocks outside the current demand stay resident in one
// stream. Calls come in the order Reset, then for every step Update, Evict. No
// method may keep a slice that it was given, read a clock, or use randomness that is
// not seeded by Scope.Seed.
type Policy interface {
	// Reset forgets everything and starts a stream. An instance serves many streams, one after the
	// other, and keeps its memory. An error means that the policy cannot run here.
	Reset(*Scope) error
	// Update reports the changes of a step.
	Update(*Step)
	// Evict appends at least n distinct members of E to dst and forgets them. It is called after every
	// Update, with n = 0 if no block must leave. A policy that drops eagerly does so then. If units
	// have unequal sizes, it is called again with n = 1 until there is room.
	Evict(n int, dst []int32) []int32
}

// Scope describes the cache of one policy instance: one stream, or a pool of streams that share the
// cache.
type Scope struct {
	Blocks   int    // block ids are 0 … Blocks-1
	Capacity int    // blocks that may stay between steps, without pinned ones. Unbounded for policies without capacity
	Steps    int    // number of steps, windows included
	Windows  int    // number of warm-up steps: T runs from -Windows to Steps-Windows-1
	Demand   int    // largest |D_t|
	Seed     uint64 // the only source of randomness
	// PerStep is the number of updates per decode step. A pool has one for each of its streams, in a
	// fixed order. T numbers updates, so options that count steps are multiplied by Scope.Updates. 0
	// means 1.
	PerStep int
	// Followed is true if a Follower follows the streams of a pool. The lists of Step then lack blocks
	// that stay demanded.
	Followed bool
	// Tracked is true if a Tracker follows the streams of a pool. Update T is of stream
	// s = (T + Windows) mod PerStep. A stream has n = Blocks ÷ PerStep blocks, from n × s on.
	Tracked bool
}

// Updates returns the number of updates per decode step, at least 1.
func (s *Scope) Updates() int { return max(1, s.PerStep) }

// Unbounded is the capacity of a policy without one (Traits.Windowed).
const Unbounded = math.MaxInt32

// Never is the next use of a block that no later step demands. It is also that of a block that a
// warm-up window demands before any counted step does.
const Never = math.MaxInt32

// Step is the change from one recorded step of a stream to the next. Every list is ascending unless
// its comment says otherwise. Lists are read only and valid until the call returns.
type Step struct {
	// T numbers the recorded steps without gaps: negative in warm-up windows, 0 for the first counted
	// step. It is the decode step if the trace skips none. The call that hands over an importance or
	// staging warm-up comes before step 0, with T = 0 and only Offered set. In a pool every stream's
	// row of a step has its own T (Scope.PerStep).
	T int32
	// Demand is |D_t|.
	Demand int
	// Offered lists the blocks that became resident without being demanded. They left the local
	// window, or the warm-up placed them. They were last used, and inserted, at step T-1, after every
	// block of Exit (SEMANTICS S3, S12). A block of Offered that D_t demands is also in Hit. In an
	// exclusive tier they are in the order of their arrival.
	Offered []int32
	// Hit lists the blocks that entered the demand and were resident.
	Hit []int32
	// Miss lists the blocks that entered the demand and were absent. They are fetched. A block that
	// was kept out (Pass, Bypasser) and is demanded again is in Miss at every such step.
	Miss []int32
	// Exit lists the blocks that left the demand and join E. They were last used at step T-1. Blocks
	// that were kept out are not listed.
	Exit []int32
	// Pass are the members of D_t that the engine will not keep after this step, because |D_t| > C and
	// the policy is no Bypasser. The worst rank is first, or without ranks the lowest index.
	Pass []int32

	// Candidates are the ranks K … M-1 of this step's list, best first, resident or not, pinned or
	// not. In a pool, all ranks of the latest lists of its other streams follow, rank by rank. Filled
	// for NeedCandidates. WantCandidates fills them if the trace has ranks.
	Candidates []int32
	// Members is D_t. Filled for NeedDemand.
	Members []int32
	// Picked is parallel to Members: the number of entries of the block that the step demands. An
	// entry is one token of one head. All are 1 if blocks have one entry. Filled for NeedPicked, which
	// requires NeedDemand.
	Picked []int32
	// List is the step's list of M blocks, best first, pinned ones included. Scores is parallel to it.
	// Filled for NeedScores.
	List   []int32
	Scores []float32
	// OfferedNext, ExitNext and LeavingNext are parallel to Offered, Exit and Leaving. They are the
	// step of the next demand, or Never if there is none or if a warm-up window has it. Leaving are
	// the members of D_t that D_{t+1} does not demand, empty at the last step. Filled for NeedNext.
	OfferedNext, ExitNext, LeavingNext []int32
	Leaving                            []int32
}

// Needs is a set of optional columns of Step.
type Needs uint16

// Columns that a policy may need.
const (
	NeedCandidates Needs = 1 << iota // needs a trace with order=rank
	NeedDemand
	NeedNext   // the future: the policy is a bound, not a contender
	NeedScores // needs a trace with scores
	NeedPicked // needs a trace whose lists name entries, not blocks of several

	// The following are for lossy policies only.
	NeedAttention  // needs the attention to listed blocks: attention_mass, or softmax scores
	NeedPromptMass // needs a trace with prompt_mass
	NeedWindows    // needs prompt windows, replayed, or their sum: prompt_mass

	// WantCandidates fills Candidates if the trace has order=rank. Otherwise they are empty.
	WantCandidates
)

// Needer is a policy that needs optional columns of Step. The engine calls Needs once, before the
// first Reset.
type Needer interface{ Needs() Needs }

// Bypasser decides which members of D_t are not kept after the step. Bypass appends at least n
// distinct members to dst, n = max(0, |D_t|-C). It is called after every Update, before Evict.
type Bypasser interface {
	Bypass(n int, dst []int32) []int32
}

// Resizer follows a changed capacity. Resize is called with the new number of blocks, before
// Update. The capacity grows, or shrinks and grows again if memory is divided anew (replay's
// --reallocate). A policy that reads Scope.Capacity (Traits.Sized) and has no Resize cannot run
// there.
type Resizer interface{ Resize(capacity int) }

// Admitter is a Bypasser that fetches a step's misses entry by entry. In addition it fetches each
// block that it keeps as a whole. In PQCache the bytes that a step demands and the bytes that fill
// the cache differ in this way.
type Admitter interface {
	Bypasser
	Admits()
}

// Failer is a policy whose answers come from elsewhere, such as from another program. If its victims
// break the contract for some reason, the engine reports the error that Failed returns: why there was
// no answer, or the reason with the last messages of the program. If it is an io.Closer too, Close is
// called when a worker needs it no more.
type Failer interface{ Failed(reason error) error }

// Sharer is a Failer whose answers come from a program that can serve several streams at once.
type Sharer interface {
	// Streams returns the largest number of streams, at least 1.
	Streams() int
	// Share makes the policy use the program of another one, itself or a new one of the same Spec, before
	// the first Reset. At most Streams policies may share a program, and only one may run at a time. Evict
	// calls wait, if it is not nil, between its question and the answer. Others can ask meanwhile.
	Share(with Policy, wait func())
}

// ErrOtherStream is the error of a Sharer whose program failed to answer another one.
var ErrOtherStream = errors.New("the program failed in another stream")

// Versioner is a policy whose decisions come from elsewhere. Version is a text that changes with them. The
// fingerprint has it, because short streams do not show each change, such as one of a learned model.
type Versioner interface{ Version() string }

// NeedsOf returns the columns that p needs.
func NeedsOf(p Policy) Needs {
	if n, ok := p.(Needer); ok {
		return n.Needs()
	}
	return 0
}
