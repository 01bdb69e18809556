package policies

// Tracker is a Follower that can follow the changes of each stream of a pool (Scope.Tracked). Unlike for a
// Follower, the capacity need not hold the latest demands of all streams. A Tracker may evict a block that
// the next update of its stream demands again. It has no needs and is no Bypasser.
//
// In a tracked pool, an update lists the changes of its own stream. Hit and Miss list the blocks that
// the stream's last update did not demand, and Miss also those that were evicted since. Exit lists the
// blocks that only the last update demanded and that are resident. E is without the demand of the
// update, and has the latest demands of all other streams. The policy keeps track of these blocks.
// They are in no list and were last used at the latest update of their stream.
//
// The victims must be those of a pool that is not tracked, in the same order.
type Tracker interface {
	// Tracks reports whether self is the receiver. A policy that embeds another and has further
	// rules does not inherit its answer.
	Tracks(self Policy) bool
}

// Tracks reports whether p is a Tracker.
func Tracks(p Policy) bool {
	t, ok := p.(Tracker)
	return ok && t.Tracks(p)
}
