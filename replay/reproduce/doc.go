// Package reproduce holds what the papers printed beside what kvreplay computes for the
// same setting, with the error and a gate.
//
// A [Paper] gives [Section]s, one a table or figure, of [Line]s. What is ours comes out of
// the code that users run, replay, replay/transfer and replay/pipeline: no formula is
// evaluated here but to check those. Constants that a paper leaves open are fitted to named
// cells, which are [Fitted] and not counted as successes; every other cell is judged.
package reproduce
