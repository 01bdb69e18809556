// Package synthetic draws Top-K traces whose locality is dialled: how much consecutive
// demands overlap, after what gaps blocks come back, how unlike each other blocks are,
// what stands next to the threshold. Dials are set by hand, taken from a preset, or
// fitted to a real trace. README.md is the model on a page.
//
// A stream is drawn in two passes. A process decides which blocks enter and leave the
// demand at each step; a ranker then orders each demand and picks the candidates
// behind it. Both work on what changes, so that a step of any context costs what it
// lists. Streams depend on their dials, seed and key alone.
package synthetic
