// Package replay is the engine: it decodes a stream once, derives what changes from
// step to step once, and runs every policy and capacity on that.
//
// Run replays an open trace as Options say and returns result rows, of package metrics/result.
// Plan and Job.Run do so in two steps: a Job knows which work is left. A Store keeps rows in
// a folder, so that a run continues where it was. A Profile has the counts of every step, of
// which package pipeline makes times. Options are values; their texts, as the flags of
// `kvreplay replay` take them, are read by ParseCapacities, ParseWarmup, ParsePrefetch and
// similar functions, and policies by the table of package policies/all. An Engine replays
// single streams that are in memory, for studies and for tests of policies.
//
// Errors of Plan are *PlanError if the trace cannot serve the options. A run that is
// cancelled ends in *Interrupted, and a trace that breaks a rule in *trace.Error.
//
// # Reading the code
//
// Start with these three files:
//
//   - view.go is the demand that a cache sees, row by row. There are three views: delta.go is
//     a single stream, pooled.go the streams that share a cache, and tier.go the demand of a
//     lower tier. joiner.go merges recorded lists into larger blocks, clusters, or steps of
//     several positions.
//   - cell.go is the step machine of every cache: arrive, classify, keep, evict, report. Its
//     miss rule is fetch, lose (lossy.go), or moveUp (a lower tier). report.go has the report
//     of a step and the counter that adds steps up. The referee's check and the profile
//     observe the same report.
//   - worker.go replays the planned cells of the streams that share a cache. plan.go makes the
//     plan, run.go spreads it over workers, and store.go keeps the rows.
//
// Two replays are algorithms of their own. A sweep answers all capacities of a stack policy in
// one pass (sweep.go). Package serial replays access by access, as cache simulators do.
//
// # Words
//
//   - cell: one policy at one capacity, and the machine that replays it.
//   - delta: what enters and what leaves the demand of a stream from one row to the next.
//   - row: a recorded step of a stream, or several joined ones. Prompt windows come first.
//   - D_t: the demand of a step, without pinned blocks. A block in D_t is resident by rule.
//   - E: the resident blocks outside D_t. Policies decide about them.
//   - unit: what is cached whole: a block of one size, or a cluster.
//   - entry: one token of one head. A block of several tokens or heads holds several.
package replay

// EngineVersion names the replay semantics (S1–S13). It is part of every result row
// and changes whenever a count can.
const EngineVersion = "4"
