package policies

// Peeker is a policy that names its next victim without forgetting it. Peek returns the block that
// Evict(1) would name now, or ok = false if E is empty. A prefetcher that swaps into the cache
// calls it between Evict and the next Update, to compare that block with the block to fetch. If the
// swap pays, it calls Evict(1) and lists the fetched block in the Offered of the next Update.
// Further calls before that Update name the following victims.
type Peeker interface {
	Peek() (block int32, ok bool)
}
