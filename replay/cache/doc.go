// Package cache replays one policy at one capacity on the demand of a stream, or of the streams
// that share a cache. It reads the demand through package demand, not from trace files.
//
// Start with Cell in cell.go, and its method Run. Three ideas carry the package:
//
//   - One step machine. Every cache takes the same step: arrive, classify, keep, evict, report
//     (SEMANTICS S3, S4). The caches differ in their miss rules. Exact caches fetch a missing
//     block, lossy policies lose it (lossy.go), and exclusive tiers move blocks up (tier.go).
//     The rule of exact caches includes prefetching (staging.go).
//   - Counters are observers. A step ends in a StepReport. The counter adds reports up to Counts
//     (report.go). Profiles, the fingerprints of policies and the referee's Check (check.go)
//     observe the same report.
//   - Only changes cost work. A cell handles the blocks that enter or leave the demand, and
//     those that it kept out a step ago. Blocks that stay cost nothing (classify.go).
//
// A Sweep does not use the step machine. It answers all capacities of a stack policy in one pass
// (sweep.go).
package cache
