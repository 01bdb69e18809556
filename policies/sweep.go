package policies

// Sweeper is a stack algorithm: what it holds at one size, it holds at every larger
// one, so that one pass over a stream answers all its cells there. The size is the
// capacity; of a windowed policy, whose cells are those of one table entry, it is
// what its option says (N of window:N).
//
// A pass counts what single runs count, to the last miss. It starts empty and no size
// is below Scope.Demand where the size is a capacity: cells that begin with blocks
// placed by the warm-up (SEMANTICS S8) or overflow (S5) run one by one, and so do all
// that somebody watches step by step.
type Sweeper interface {
	// Sweep returns a pass, nil where self is not the receiver: a policy that embeds
	// another, and has rules of its own, does not inherit its answers.
	Sweep(self Policy) Sweep
}

// Sweep is a pass of a Sweeper. It serves many streams, one after the other.
type Sweep interface {
	// Size is that of a cell of the policy that made the pass, at a capacity.
	Size(capacity int) int32
	// Reset starts a stream, as a policy's does. Scope.Capacity is the largest size of
	// interest.
	Reset(*Scope) error
	// Distances applies a step and appends, for every block of Miss in order, the least
	// size at which it is resident when the step begins; Never where it is at none.
	// Miss holds all that enters the demand but was not born with the step, Hit what
	// enters and was: that is resident at every size. No other column is filled.
	Distances(s *Step, dst []int32) []int32
	// Residents appends, for each of sizes, which ascend, how many blocks are resident
	// after the step.
	Residents(sizes, dst []int32) []int32
}

// SweepOf returns a pass of p, nil where p is no Sweeper.
func SweepOf(p Policy) Sweep {
	if s, ok := p.(Sweeper); ok {
		return s.Sweep(p)
	}
	return nil
}
