// Package run replays the cells of a trace on several workers and keeps finished cells. A cell is
// one policy at one capacity.
//
// Start with worker.go: a worker reads the streams that share a cache, derives their demand
// (package demand), and runs every cell on it (package cache). Three ideas carry the package:
//
//   - Everything is checked before the work. A plan has every default filled in (resolve.go).
//     It knows what the trace can serve, and which mechanisms combine (mechanisms.go). It lists
//     the cells, and the parts of which each has a row (plan.go).
//   - Results are sums of integers. Workers take chunks of streams in any order and add up
//     tallies (run.go, tally.go), so rows do not depend on the number of workers. A Profile has
//     ordered steps, so it waits for previous streams (profile.go).
//   - All inputs of finished work name it. The key of a cell is a digest of its
//     setting, and the Fingerprint of its policy is part of the file's name (store.go,
//     behaviour.go, fingerprint.go). Checkpoints keep unfinished passes (checkpoint.go).
//
// An Engine replays single streams that are in memory (stream.go).
package run
