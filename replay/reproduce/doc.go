// Package reproduce compares figures that papers print with figures that kvreplay computes
// for the same setting. Each comparison has an error and a gate, the largest error allowed.
//
// A [Paper] gives one [Section] per table or figure. A section holds [Line]s. The computed
// figures come from the code that users run: replay, replay/transfer and replay/pipeline.
//
// Each line declares a [Kind], which says how much an agreement proves. Constants that a
// paper leaves open are fitted to named cells. Those cells are [Fitted] and never count as
// successes. A [Gap] names a figure of the paper that no line covers.
package reproduce
