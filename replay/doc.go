// Package replay is the engine: it decodes a stream once, derives what changes from
// step to step once, and runs every policy and capacity on that.
package replay

// EngineVersion names the replay semantics (S1–S13). It is part of every result row
// and changes whenever a count can.
const EngineVersion = "4"
