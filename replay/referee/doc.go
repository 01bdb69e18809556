// Package referee is a second replay engine, slow and plain. It has a map of residents, replays one
// step at a time, and sorts every eviction order afresh from its definition. It shares only the
// trace reader with the fast engine, which is tested against it. Read it with S1–S13:
//
//	blocks.go    S2 pins, S3 births, S4 the demand
//	run.go       S4 a step: births, classification, fetch, eviction; S1 and S8 its T
//	order.go     S5, S9, S12 and the policies' orders
//	warmup.go    S8 the blocks that importance and staging place
//	lossy*.go    S10 the blocks that lossy methods hold, lose and drop, and their budgets
//	prefetch.go  S11 prefetches
//
// The other files cover additions in the documents of the engine: rows of joined lists, outliers,
// clusters, tiers, pools, and the misses of LRU caches of every size.
//
// testdata holds histories worked out by hand. Package brute searches all choices.
//
// # Readings
//
// If S1–S13 allow more than one reading, the referee uses the following one.
//
// Time (S3, S4, window:N). T numbers recorded steps without gaps: windows are -W … -1, and counted
// steps begin at 0. "The step before", "last used at t-1" and "the last N steps" mean recorded
// steps. A window that the cell does not replay still has its number. So the first counted step is
// T = 0 for any step number in the trace.
//
// Births (S3). A cell's first replayed step considers one token, seq_len - local - 1. Tokens that
// left the window earlier had no birth, and they miss when they are demanded. This also holds if
// windows are recorded but not replayed. With blocks, that token gives birth only if it is the last
// of its block. A block that a sink touches has no birth.
//
// Demand (S4). Pins are removed after the list is cut to K. The ranks behind K do not replace them.
//
// Evictions (S4, S5). A member of D_t that hit and is not kept (overflow, none, opt-bypass) counts
// as kept out, not as evicted. A kept-out block is inserted anew at its next fetch, so FIFO and LFU
// start again. If a demanded birth is kept, nothing special happens: it was inserted at its birth,
// and LFU counts 0 + 1.
//
// Rank (S5, lookahead). The rank is the place in the recorded list, pinned blocks included.
// lookahead uses the first M places.
//
// Bypassing (S5). none keeps nothing, so it bypasses. window:N with N ≥ 1 never does, because D_t
// was last used at T. opt-bypass bypasses only while |R| > C. It orders D_t together with all other
// blocks. At equal next use it keeps the demand, which was used last.
//
// Optimum (S9). The text says: farthest next demand in a counted step. Read literally, a block
// would be worth keeping for a counted step even if a window demands it before. But the window
// fetches it back uncounted, so keeping it saves nothing (testdata/opt_windows.txt: one miss
// instead of none). Here the key is the very next demand, and never if a window has it. Exhaustive
// search agrees, with and without bypass.
//
// Importance (S8). The scores of blocks in the first M places of the last W windows are summed in
// float64, oldest row first. Pinned blocks are included. A block is placed if none of its tokens is
// pinned at step -1, whose context is the prompt. Blocks that no list contains are not placed, so
// there may be fewer than C.
//
// Placement and window:N (S8). window:N and none have no capacity, so importance and staging place all
// blocks. The first counted step finds them resident, even for none.
//
// Ranks (S4). Without ranks the whole list is the demand. A K below a list's length is then an
// error, and so is lookahead.
package referee
