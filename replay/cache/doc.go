// Package cache replays one policy at one capacity on the demand of a stream, or of the streams
// that share a cache. It reads the demand through package demand and knows no trace file.
//
// Start with Cell in cell.go, and its method Run. Three ideas carry the package:
//
//   - One step machine. Every cache takes the same step: arrive, classify, keep, evict, report
//     (SEMANTICS S3, S4). A miss rule sets exact caches, lossy policies (lossy.go) and exclusive
//     tiers (tier.go) apart: a missing block is fetched, lost, or moves up. A staging buffer is
//     part of the first rule (staging.go).
//   - Counting observes. A step ends in a StepReport. The counter adds reports up to Counts
//     (report.go). Profiles, the fingerprints of policies and the referee's Check (check.go)
//     are further observers of the same report.
//   - Work is in what changes. A cell handles the blocks that enter or leave the demand, and
//     those that it kept out a step ago. Blocks that stay cost nothing (classify.go).
//
// A Sweep is an algorithm of its own: it answers all capacities of a stack policy in one pass
// (sweep.go).
package cache
