package setting

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
)

// Shape says how recorded lists become the rows that are replayed. The zero value
// replays them as they stand.
type Shape struct {
	// BlockTokens is the unit of the cache in tokens (SEMANTICS S2): a multiple of the
	// trace's; 0: the trace's. The demand is the distinct blocks of the first K entries.
	BlockTokens int
	// ShareHeads joins the heads of a layer: one cache of blocks that hold all heads, as
	// PQCache keeps them. The demand of a step is the union of the heads' demands.
	ShareHeads bool
	// StepTokens joins the demand of that many consecutive positions to one step, as
	// speculative decoding and multi-token prediction do; 0 and 1: one. Prompt windows
	// stay single.
	StepTokens int
}

// Pool says which streams of a request share one cache, of the sum of their capacities.
type Pool string

// Pools.
const (
	PoolNone    Pool = ""        // every stream has a cache of its own
	PoolLayer   Pool = "layer"   // the KV heads of a layer share one
	PoolRequest Pool = "request" // all layers and heads of a request do
)

// ParsePool reads "", "layer" or "request".
func ParsePool(text string) (Pool, error) {
	switch p := Pool(text); p {
	case PoolNone, PoolLayer, PoolRequest:
		return p, nil
	}
	return PoolNone, fmt.Errorf("pool %q: expected layer (the heads of a layer share a cache) or request (all layers and heads do)%s",
		text, names.Nearest(text, []string{string(PoolLayer), string(PoolRequest)}))
}

// Outliers are blocks of a stream that stay on the GPU for good, beside the capacity, as
// ShadowKV keeps its outlier chunks (Sun et al., ICML 2025, arXiv:2410.21465, section 4:
// the chunks whose keys are least like their mean; 48 of 8 tokens). They are pinned as
// sinks are: never demanded, born or evicted; what they take is part of PinnedPeak. Its
// text form parses back. The zero value keeps none.
//
// A trace has no keys, so it cannot say which chunks ShadowKV would keep. See
// OutlierSource for what is done instead.
type Outliers struct {
	Source OutlierSource
	Count  int // blocks of a stream
}

// OutlierSource says which blocks are outliers.
type OutlierSource string

// Sources of outliers.
const (
	OutliersNone OutlierSource = ""
	// OutliersWindows is a stand-in: of the blocks that are not pinned at the end of the
	// prompt, those that the most prompt windows demand, ties to the lowest index. Blocks
	// that no window demands are none, so there may be fewer than asked for. All recorded
	// windows count, whatever the warm-up.
	OutliersWindows OutlierSource = "windows"
	// OutliersUnlisted are those that the trace's selector kept on the GPU by itself: no
	// list names them (a capture of ShadowKV). Only their memory is counted.
	OutliersUnlisted OutlierSource = "unlisted"
)

// ParseOutliers reads "windows:48", "unlisted:48" or "".
func ParseOutliers(text string) (Outliers, error) {
	if text == "" {
		return Outliers{}, nil
	}
	source, count, _ := strings.Cut(text, ":")
	o := Outliers{Source: OutlierSource(source)}
	if o.Source != OutliersWindows && o.Source != OutliersUnlisted {
		return o, fmt.Errorf("outliers %q: expected windows:N or unlisted:N, as in windows:48%s",
			text, names.Nearest(source, []string{string(OutliersWindows), string(OutliersUnlisted)}))
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > 1<<30 {
		return o, fmt.Errorf("outliers %q: expected the number of blocks of a stream that stay, 1 to %d, as in %s:48", text, 1<<30, source)
	}
	o.Count = n
	return o, nil
}

// String is the text form.
func (o Outliers) String() string {
	if o.Source == OutliersNone {
		return ""
	}
	return fmt.Sprintf("%s:%d", o.Source, o.Count)
}
