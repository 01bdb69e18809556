package setting

import (
	"fmt"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
)

// Prefetch says what is fetched ahead of a step, into a staging buffer beside the
// cache. Its text form parses back. The zero value prefetches nothing.
//
// Before a counted step is classified, the blocks that the source names are fetched,
// best rank first, as far as they are neither pinned nor resident and the buffer has
// room. What of them the step demands joins the cache like a fetched block, but is no
// miss. What no step ever demanded is useless once it leaves the buffer.
//
// With Swap there is no buffer: blocks are fetched into the cache itself (replay/README.md).
type Prefetch struct {
	Source  PrefetchSource
	Staging Capacity // of the buffer, of a stream; with Swap the most that a step fetches ahead
	Swap    bool     // into the cache, in the place of what ranks worse; of candidates only
}

// PrefetchSource names the blocks to prefetch.
type PrefetchSource string

// Sources of predictions.
const (
	PrefetchNothing PrefetchSource = ""
	// PrefetchPredicted takes the step's own selection as it was predicted one layer ahead
	// (predicted_indices; InfiniGen, Lee et al., OSDI 2024). The buffer is emptied after
	// the step.
	PrefetchPredicted PrefetchSource = "predicted"
	// PrefetchCandidates takes the ranks K … M-1 of the step before. The buffer then holds
	// the best of them: what it has of these is not fetched again, all else leaves it.
	PrefetchCandidates PrefetchSource = "candidates"
)

// ParsePrefetch reads "predicted:0.5x", "candidates:64", "candidates:64,swap" or "": a
// source and the staging's size in the forms of a capacity.
func ParsePrefetch(text string) (Prefetch, error) {
	if text == "" {
		return Prefetch{}, nil
	}
	source, size, _ := strings.Cut(text, ":")
	size, option, swaps := strings.Cut(size, ",")
	p := Prefetch{Source: PrefetchSource(source), Swap: swaps}
	if p.Source != PrefetchPredicted && p.Source != PrefetchCandidates {
		return p, fmt.Errorf("prefetch %q: expected predicted:SIZE, candidates:SIZE or candidates:SIZE,swap, the size of the staging buffer as a capacity: 0.5x, 64, 1MiB%s",
			text, names.Nearest(source, []string{string(PrefetchPredicted), string(PrefetchCandidates)}))
	}
	if swaps && (option != "swap" || p.Source != PrefetchCandidates) {
		return p, fmt.Errorf("prefetch %q: expected candidates:SIZE,swap, as in candidates:64,swap; predictions have no rank to compare with that of a cached block", text)
	}
	var err error
	if p.Staging, err = ParseCapacity(size); err != nil {
		return p, fmt.Errorf("prefetch %q: %w", text, err)
	}
	if p.Staging.form == OfPeak {
		return p, fmt.Errorf("prefetch %q: a staging buffer has no policy's peak", text)
	}
	return p, nil
}

// String is the text form.
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
