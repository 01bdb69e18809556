// Package replay counts what cache policies miss on recorded traces. It is the entrance to
// the engine: its names are those of the packages below it.
//
// Run replays an open trace as Options say and returns result rows, of package metrics/result.
// Plan and Job.Run do so in two steps: a Job knows which work is left. A Store keeps rows in
// a folder, so that a run continues after an interruption. A Profile has the counts of every
// step. Package pipeline prices them in time. Options are values. ParseCapacities, ParseWarmup,
// ParsePrefetch and similar functions read their texts, which are those of the flags of
// `kvreplay replay`. The table of package policies/all reads policies. An Engine replays
// single streams that are in memory, for studies and for tests of policies.
//
// Errors of Plan are *PlanError if the trace cannot serve the options. A cancelled run ends in
// *Interrupted, and a trace that breaks a rule in *trace.Error.
//
// # Reading the code
//
// The engine is four packages. Each imports only those above it in this list:
//
//   - setting has the texts of options, and the table of mechanisms that do not combine.
//   - demand derives what a step asks for: the blocks that enter and leave, row by row.
//   - cache does the step: what is hit, fetched, kept and evicted, and the counts of it.
//   - run spreads the cells of a trace over workers, and keeps rows, checkpoints and profiles.
//
// Start with these three files: demand/view.go, cache/cell.go and run/worker.go. The doc.go of
// each package names its ideas.
//
// Package serial is a replay of its own: it goes access by access, as cache simulators do.
// Package referee is a second, slow engine that shares no code with this one.
//
// # Adding a mechanism
//
// A rule that decides which missed or resident blocks one cache keeps is a policy: see policies.Bypasser. A
// mechanism changes the demand, the fetches or the counts of every policy. Prefetch is the example to follow:
// search for it in these places.
//
//   - metrics/result/setting.go: a field of Setting. Rows, cell keys, profiles and verification
//     then have it. Its tag "unbound" says that OPT does not bound the misses any more.
//   - setting: a file with its text, and its row in combine.go.
//   - run/options.go, run/setting.go: the option, and its way from and to the setting. A flag of
//     cmd/cli/replay.go reads it.
//   - cache, or demand if it changes the demand of a step: a file with the mechanism. The step
//     machine of cache/cell.go calls it, and cache/report.go counts it.
//   - cache/cell.go: a field of Start. run/worker.go (start) sets it, and run/referee.go copies it to the
//     referee.
//   - run/behaviour.go, if the counts depend on another policy. run/rows.go (settingRow) sets Row.Bypasses, if
//     demanded blocks are not kept. Otherwise boards take opt as a bound.
//   - run/mechanisms.go: the options that use it, and its check against the trace. A sweep answers
//     all capacities in one pass. It runs only with the mechanisms in the list sweepable.
//   - referee: the same rule, written a second time.
//   - replay.go: the alias of the function that reads the text.
//   - metrics/ROWS.md, scripts/python/kvreplay/results.py and metrics/testdata/rows.jsonl: the column. Run
//     go test ./metrics/result -run SyntheticRows -update.
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
