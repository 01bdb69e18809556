package policies

// Follower is a policy that evicts blocks in the order of their last use, or of their next use. It
// may have NeedCandidates, and evict the blocks that Candidates lists after all others. With NeedNext
// it evicts the block whose next use is farthest. It has no other need and is no Bypasser.
//
// In a pool, a Follower can follow the changes of each stream (Scope.Followed). E is then without
// the latest demand of each stream, and without the births of the latest Scope.Updates() updates.
// Hit and Miss list the blocks that entered the demand of the update's stream, and Exit those that
// left it. A block that its stream demands again is in no list and costs nothing. Offered lists the
// births that join E, and the births that the step demands. Candidates has the ranks K … M-1 of the
// update's stream. They last until the next update of that stream.
//
// The engine does so only if the capacity holds the latest demands and births of all streams. With
// NeedCandidates it must hold the latest lists. The victims are then the same as in a pool that is
// not followed.
//
// With NeedNext, only blocks that their stream's next update demands, at a counted step, are missing
// in E. A block that it does not demand is in Exit at the update after its last use. Offered has all
// births of the step.
type Follower interface {
	// Follows reports whether self is the receiver. A policy that embeds another and has further
	// rules does not inherit its answer.
	Follows(self Policy) bool
}

// Follows reports whether p is a Follower.
func Follows(p Policy) bool {
	f, ok := p.(Follower)
	return ok && f.Follows(p)
}
