package policies

// Peeker is a policy that names its next victim without forgetting it: what Evict(1)
// would name now, or ok = false where E is empty. A prefetcher that swaps into the cache
// asks it, between Evict and the next Update, whether what it would fetch is worth more
// than that block; if so it calls Evict(1), and tells what it fetched in the Offered of
// the next Update. Later calls before that Update name the victims after it.
type Peeker interface {
	Peek() (block int32, ok bool)
}
