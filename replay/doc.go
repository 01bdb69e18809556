// Package replay is the engine: it decodes a stream once, derives what changes from
// step to step once, and runs every policy and capacity on that.
//
// Run replays an open trace as Options say and returns result rows, of package metrics/result;
// Plan does so in two steps, which tells first what is left to do. A Store keeps rows in a
// folder, so that a run goes on where it was, and a Profile the counts of every step, of
// which package pipeline makes times. Options are values; their texts, as the flags of
// `kvreplay replay` take them, are read by ParseCapacities, ParseWarmup, ParsePrefetch and
// their like, and policies by the table of package policies/all. An Engine replays single
// streams that are in memory, for studies and for tests of policies.
//
// Errors of Plan are *PlanError where the trace cannot serve the options; a run that is
// cancelled ends in *Interrupted; a trace that breaks a rule in *trace.Error.
package replay

// EngineVersion names the replay semantics (S1–S13). It is part of every result row
// and changes whenever a count can.
const EngineVersion = "4"
