package setting

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
)

// Prefetch describes the fetches before a step, into a staging buffer outside of the cache. Its
// text form parses back. The zero value prefetches nothing.
//
// Before a counted step is classified, the blocks that the source names are fetched, best rank
// first. Blocks that are pinned or resident are skipped, and fetching stops when the buffer is
// full. If the step demands such a block, the block joins the cache like a fetched one but is not a
// miss. If no step demands it before it leaves the buffer, it is useless.
//
// With Swap there is no buffer: blocks are fetched into the cache itself (replay/PREFETCH.md).
type Prefetch struct {
	Source  PrefetchSource
	Staging Capacity // size of a stream's buffer, or with Swap the most blocks that a step prefetches
	Swap    bool     // into the cache, in place of blocks with a worse rank, for sources with ranks
}

// PrefetchSource names the blocks to prefetch.
type PrefetchSource string

// Sources of predictions.
const (
	PrefetchNothing PrefetchSource = ""
	// PrefetchPredicted takes the step's own selection as it was predicted one layer ahead
	// (predicted_indices). InfiniGen predicts this way (Lee et al., OSDI 2024). The buffer is
	// emptied after the step.
	PrefetchPredicted PrefetchSource = "predicted"
	// PrefetchCandidates takes the ranks K … M-1 of the previous step. The buffer then holds the
	// best of them. It keeps those that it already has, and drops all other blocks.
	PrefetchCandidates PrefetchSource = "candidates"
	// PrefetchEcho takes the blocks that the policy echo expects next, in the order of its scores after
	// the previous step (policies/echo). The buffer holds the best of them, as with candidates.
	PrefetchEcho PrefetchSource = "echo"
)

var prefetchSources = []string{string(PrefetchPredicted), string(PrefetchCandidates), string(PrefetchEcho)}

// ParsePrefetch reads "predicted:0.5x", "candidates:64", "echo:64,swap" or "": a source and the size of
// the staging buffer in the forms of a capacity.
func ParsePrefetch(text string) (Prefetch, error) {
	if text == "" {
		return Prefetch{}, nil
	}
	source, size, _ := strings.Cut(text, ":")
	size, option, swaps := strings.Cut(size, ",")
	p := Prefetch{Source: PrefetchSource(source), Swap: swaps}
	if !slices.Contains(prefetchSources, source) {
		return p, fmt.Errorf("prefetch %q: expected predicted:SIZE, candidates:SIZE or echo:SIZE with a SIZE as in 0.5x, 64 or 1MiB%s",
			text, names.Nearest(source, prefetchSources))
	}
	switch {
	case size == "":
		return p, fmt.Errorf("prefetch %q: expected a SIZE, as in %s:0.25x", text, source)
	case swaps && p.Source == PrefetchPredicted:
		return p, fmt.Errorf("prefetch %q: predictions have no ranks, so they do not swap: remove ,%s", text, option)
	case swaps && option != "swap":
		return p, fmt.Errorf("prefetch %q: unknown option %q, expected swap, as in %s:64,swap", text, option, source)
	}
	var err error
	if p.Staging, err = ParseCapacity(size); err != nil {
		return p, fmt.Errorf("prefetch %q: %w", text, err)
	}
	if p.Staging.form == OfPeak {
		return p, fmt.Errorf("prefetch %q: expected a size other than peak:POLICY", text)
	}
	return p, nil
}

// String returns the text form.
func (p Prefetch) String() string {
	if p.Source == PrefetchNothing {
		return ""
	}
	text := string(p.Source) + ":" + p.Staging.String()
	if p.Swap {
		text += ",swap"
	}
	return text
}
