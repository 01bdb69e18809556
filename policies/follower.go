package policies

// Follower is a policy that evicts blocks in the order of their last use, or of their next use. It
// may have NeedCandidates, and evict the blocks that Candidates lists after all others. With NeedNext
// it evicts the block whose next use is farthest. It has no other need and is no Bypasser.
//
// In a pool, a Follower can follow the changes of each stream (Scope.Followed). E is then without
// the blocks that the next update of their stream demands again. Such a block is in no list and costs
// nothing. Hit and Miss list the blocks that the stream's last update did not demand. Candidates has
// the ranks K … M-1 of the update's stream. They last until the next update of that stream.
//
// The engine does so only if the capacity holds the latest demands and births of all streams. With
// NeedCandidates it must hold the latest lists. The victims are then the same as in a pool that is
// not followed.
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
