package policies

// Sweeper is a stack policy: the residents at one size are also resident at every larger one.
// One pass over a stream therefore answers all its cells. The size is the capacity. A windowed
// policy has the cells of one table entry, and the size is its option (N of window:N).
//
// A pass counts the same as single runs, to the last miss. It starts empty, and no size that is a
// capacity is below Scope.Demand. Other cells run one by one: those with an overflow (S5) or with
// blocks that the warm-up placed (SEMANTICS S8), and those that are observed step by step.
type Sweeper interface {
	// Sweep returns a pass, or nil if self is not the receiver. A policy that embeds another and has
	// further rules does not inherit its answers.
	Sweep(self Policy) Sweep
}

// Sweep is a pass of a Sweeper. It serves many streams, one after the other.
type Sweep interface {
	// Size returns the size of a cell of the policy that made the pass, at a capacity.
	Size(capacity int) int32
	// Reset starts a stream, as Policy.Reset does. sizes ascend, and Scope.Capacity is the largest. The
	// pass may keep sizes until the next call of Reset.
	Reset(scope *Scope, sizes []int32) error
	// Distances applies a step. For every block of Miss in order it appends the least size at which
	// the block is resident when the step begins, or Never. Miss has all blocks that enter the demand
	// except births of the step. Hit has those births, which are resident at every size. Candidates
	// and Members are filled if the policy needs them, and Pass is empty.
	Distances(s *Step, dst []int32) []int32
	// Residents appends the number of blocks that are resident after the step, for each of sizes.
	// sizes must ascend.
	Residents(sizes, dst []int32) []int32
}

// SweepOf returns a pass of p, or nil if p is no Sweeper.
func SweepOf(p Policy) Sweep {
	if s, ok := p.(Sweeper); ok {
		return s.Sweep(p)
	}
	return nil
}
