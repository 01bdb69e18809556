// Package referee is a second replay engine, slow and plain: a map of residents, a
// step at a time, every eviction order sorted afresh from its definition. It shares
// nothing with the fast engine but the trace reader, and is what that engine is
// tested against. Read it beside S1–S13:
//
//	blocks.go    S2 pins, S3 births, S4 the demand
//	run.go       S4 a step: births, classification, fetch, eviction; S1 and S8 its T
//	order.go     S5, S9, S12 and the policies' orders
//	warmup.go    S8 what importance and staging place
//	lossy*.go    S10 what lossy methods hold, lose and drop, and how they divide budgets
//	prefetch.go  S11 what is fetched ahead
//
// The other files are of what the documents of the engine add: rows of joined lists,
// outliers, clusters, tiers, pools, and what an LRU cache of every size would miss.
//
// testdata holds histories worked out by hand; package brute searches all choices.
//
// # Readings
//
// Where S1–S13 leave more than one reading, this one is taken.
//
// Time (S3, S4, window:N). T numbers recorded steps without gaps: windows -W … -1,
// counted steps from 0. "The step before", "last used at t-1" and "the last N
// steps" mean recorded steps. A window that the cell does not replay still has its
// number, so the first counted step is T = 0 whatever its step in the trace.
//
// Births (S3). At a cell's first replayed step one token is considered, seq_len -
// local - 1; tokens that left the window earlier were never handed over, and are
// missed when demanded. That holds too where windows are recorded but not replayed.
// With blocks, that token gives birth only if it is its block's last. A block that
// a sink touches is never born.
//
// Demand (S4). Pins are taken out after the list is cut to K; what they free is not
// filled up from the ranks behind.
//
// Evictions (S4, S5). A member of D_t that was resident, hit, and is not kept
// (overflow, none, opt-bypass) counts as kept out, not as evicted. A kept-out block
// is inserted afresh when it is next fetched: FIFO and LFU start again. Where a
// demanded birth is kept nothing special happens: it was inserted at its birth, and
// LFU counts 0 + 1.
//
// Rank (S5, lookahead). The rank is the place in the list as recorded, pinned
// blocks included; lookahead sees the first M places.
//
// Bypassing (S5). none keeps nothing, so it bypasses; window:N with N ≥ 1 never
// does, since D_t was last used at T. opt-bypass bypasses lazily, only while
// |R| > C, and orders D_t with all others: at equal next use the demand, used last,
// is kept.
//
// Optimum (S9). The text says: farthest next demand in a counted step. Taken to the
// letter, a block that a window will demand again before it is counted would be
// worth keeping for the counted one; but the window fetches it back uncounted, so
// keeping it saves nothing (testdata/opt_windows.txt: one miss instead of none).
// Here the key is the very next demand, and never if a window has it. Exhaustive
// search agrees, with and without bypass.
//
// Importance (S8). Blocks that the last W windows list, within the first M places
// and pinned there or not, are summed in float64, oldest row first, and placed if
// no token is pinned at step -1, whose context is the prompt. Blocks that no list
// holds are not placed, so fewer than C may be.
//
// Placement and window:N (S8). These have no capacity, so importance and staging
// place all there is, and the first counted step finds it resident, even for none.
//
// Ranks (S4). Without ranks the whole list is the demand: K below a list's length
// is an error, and so is lookahead.
package referee
