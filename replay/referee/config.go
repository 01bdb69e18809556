package referee

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/trace"
)

// WarmupKind selects the residents at the first counted step (S8).
type WarmupKind int

// Kinds of warm-up.
const (
	WarmCold       WarmupKind = iota // empty: the first replayed step is the first counted one
	WarmRun                          // the cell's own policy runs over the last Windows windows, uncounted
	WarmImportance                   // the top C blocks by summed score over the last Windows windows
	WarmStaging                      // the C lowest blocks after the sinks
)

// Warmup is a kind and, for WarmRun and WarmImportance, its number of windows.
type Warmup struct {
	Kind    WarmupKind
	Windows int
	// Over holds the streams over which the importance of a position is summed, each with the heads
	// that share its blocks. If it is nil, every stream has its own importance.
	Over [][]*trace.Stream
}

// Config is one cell on one stream.
type Config struct {
	// Policy is lru, fifo, lfu, lookahead, window:N, none, opt or opt-bypass.
	Policy string
	// TopK is K: the demand comes from the first K of a list.
	TopK int
	// Candidates is M: the part of a list that lookahead and the importance warm-up use.
	Candidates int
	// Entries is the number of list entries per block, StepTokens the number of positions per step.
	// 0 means 1.
	Entries, StepTokens int
	// Clusters is the cluster of each token, negative for none. Blocks then have unequal sizes, and
	// the capacity is in entries. A cluster takes whole pages of Page entries, 0 for 1. If Clusters
	// is nil, blocks have equal size.
	Clusters []int32
	Page     int
	// Capacity is C in blocks. window:N and none ignore it, because they have no limit.
	Capacity int
	// Growth lists later capacities, by ascending decode step.
	Growth []Growth
	// Prefetch describes the prefetches.
	Prefetch Prefetch
	// Outliers is the number of blocks that stay for the whole request: those that the most windows
	// demand. Unlisted is the number of outliers that no list contains. They count as pinned.
	Outliers, Unlisted int
	// Warmup is the warm-up before the first counted step.
	Warmup Warmup
	// Sink and Local are the pins in tokens. BlockTokens is the number of tokens per block.
	Sink, Local, BlockTokens int

	kept   map[int32]bool // outliers
	all    []unit         // by number, nil for blocks
	stride int32          // blocks of a stream: those of the n-th stream of a pool begin at n × stride
}

// unbounded is the capacity of a policy without one.
const unbounded = 1 << 30

// window returns N of window:N, 0 for none. ok is false for other policies.
func (c Config) window() (n int, ok bool) {
	if c.Policy == "none" {
		return 0, true
	}
	text, ok := strings.CutPrefix(c.Policy, "window:")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0
}

// validate reports why the cell is impossible on the stream.
func (c Config) validate(s *trace.Stream, hasRanks bool) error {
	_, windowed := c.window()
	switch {
	case !windowed && !c.known():
		return fmt.Errorf("referee: unknown policy %q", c.Policy)
	case c.TopK < 1:
		return fmt.Errorf("referee: top-k %d, expected at least 1", c.TopK)
	case c.Candidates < c.TopK:
		return fmt.Errorf("referee: candidates M = %d, expected at least top-k K = %d", c.Candidates, c.TopK)
	case c.Capacity < 1 && !windowed:
		return fmt.Errorf("referee: capacity %d, expected at least one block", c.Capacity)
	case c.Sink < 0 || c.Local < 1 || c.BlockTokens < 1:
		return fmt.Errorf("referee: sink %d, local %d, block_tokens %d, expected at least 0, 1, 1", c.Sink, c.Local, c.BlockTokens)
	case c.Policy == "lookahead" && !hasRanks:
		return fmt.Errorf("referee: lookahead needs ranks")
	}
	if hasRanks {
		return nil
	}
	for i := range s.Steps {
		if len(s.List(i)) > c.TopK {
			return fmt.Errorf("referee: step %d lists %d blocks, expected at most top-k %d without ranks", s.Steps[i], len(s.List(i)), c.TopK)
		}
	}
	return nil
}

func (c Config) known() bool {
	switch c.Policy {
	case "lru", "fifo", "lfu", "lookahead", "opt", "opt-bypass":
		return true
	}
	return false
}

// Growth is a capacity from a decode step on.
type Growth struct {
	From     int32
	Capacity int
}

// At returns C at a decode step.
func (c Config) At(step int32) int {
	capacity := c.Capacity
	for _, g := range c.Growth {
		if step >= g.From {
			capacity = g.Capacity
		}
	}
	return capacity
}

// capacity returns C, or unbounded for a policy without capacity.
func (c Config) capacity() int {
	if _, windowed := c.window(); windowed {
		return unbounded
	}
	return c.Capacity
}

// bypasses reports whether the policy itself chooses the members of D_t that stay.
func (c Config) bypasses() bool {
	n, windowed := c.window()
	return c.Policy == "opt-bypass" || windowed && n == 0
}
