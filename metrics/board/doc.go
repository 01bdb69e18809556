// Package board computes the leaderboard and comparisons of policies from result rows: × OPT,
// bootstrap intervals, permutation tests and ranks. It never replays, and its results are pure
// functions of rows. Package render prints them.
//
// Start with board.go, cells.go and ranking.go: the whole computation, the sums of a cell, and
// the order of policies. Three ideas carry the package:
//
//   - Cells first. Rows of requests, layers and heads are added up to cells, and contradictions
//     are errors (cells.go). A grid arranges cells by trace, capacity and policy (grid.go).
//   - Only common cells are pooled. Policies are ranked over the cells that all of them have
//     (common.go). Notes state the cells that are left out, and why (coverage.go). A count below
//     the optimum is an error (optimum.go).
//   - Requests are the sample. Every policy uses the same draws of requests, so ratios are
//     paired (statistics.go). The bootstrap gives intervals (intervals.go), and tests of pairs
//     give letters (swaps.go).
//
// A Comparison tests two policies (compare.go), and Comparisons all policies against one.
package board
