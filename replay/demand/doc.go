// Package demand derives what a cache is asked for, row by row, from the recorded streams of
// a trace. It knows no cache and no policy's decisions.
//
// Start with View in view.go: it is everything that package cache reads of a stream. Three
// ideas carry the package:
//
//   - Changes, not lists. Consecutive rows demand nearly the same blocks. A Delta derives once
//     which blocks enter and leave the demand, and all policies and capacities use that
//     (delta.go). The pass also checks every rule of the format for lists.
//   - A mechanism is a View, not a flag. A Delta is one stream, a Pool the streams that share a
//     cache (pool.go), and a Pushed the demand that a tier gets from the cache above it
//     (pushed.go).
//   - Larger units are made before the delta. A Joiner gives the Delta the demand of rows of larger
//     blocks, clusters, the heads of a layer, or several positions (joiner.go), as a Layout says.
//     Their ranked lists are made when the first is read (ranking.go).
//
// Pins are the tokens that are always resident, and Place chooses the blocks that a warm-up
// places before step 0.
package demand
