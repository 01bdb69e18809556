// Package demand derives the demand of a cache, row by row, from the recorded streams of a
// trace. It does not depend on caches or on the decisions of policies.
//
// Start with View in view.go: package cache reads streams only through a View. Three ideas
// carry the package:
//
//   - Changes, not lists. Consecutive rows demand nearly the same blocks. A Delta derives once
//     which blocks enter and leave the demand, and all policies and capacities use the result
//     (delta.go). Building a Delta also checks every rule of the format for lists.
//   - A mechanism is a View, not a flag. A Delta is one stream. A Pool is the streams that share a
//     cache (pool.go). A Followed and a Tracked are the same by the changes of each stream
//     (followed.go). A Pushed is the demand that a tier gets from the cache above it (pushed.go).
//   - Larger units are made before the delta. A Joiner merges recorded rows as a Layout says: into
//     larger blocks, clusters, the heads of a layer, or several positions (joiner.go). It makes
//     ranked lists when a policy reads the first one (ranking.go).
//
// Pins are the tokens that are always resident, and Place chooses the blocks that a warm-up
// places before step 0.
package demand
