package setting

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
)

// Shape describes how recorded lists become replayed rows. The zero value replays them unchanged.
type Shape struct {
	// BlockTokens is the number of tokens per block (SEMANTICS S2): a multiple of the trace's, or 0
	// for the trace's. The demand is the distinct blocks of the first K entries.
	BlockTokens int
	// ShareHeads joins the heads of a layer in one cache, whose blocks hold all heads, as in
	// PQCache. The demand of a step is the union of the heads' demands.
	ShareHeads bool
	// StepTokens joins the demands of that many consecutive positions into one step, as speculative
	// decoding and multi-token prediction do. 0 and 1 mean one position. Windows stay single.
	StepTokens int
}

// Pool selects the streams of a request that share one cache, whose capacity is the sum of theirs.
type Pool string

// Pools.
const (
	PoolNone    Pool = ""        // every stream has its own cache
	PoolLayer   Pool = "layer"   // the KV heads of a layer share one cache
	PoolRequest Pool = "request" // all layers and heads of a request share one cache
)

// ParsePool reads "", "layer" or "request".
func ParsePool(text string) (Pool, error) {
	switch p := Pool(text); p {
	case PoolNone, PoolLayer, PoolRequest:
		return p, nil
	}
	return PoolNone, fmt.Errorf("pool %q: expected layer (the heads of a layer share a cache) or request (all layers and heads share one)%s",
		text, names.Nearest(text, []string{string(PoolLayer), string(PoolRequest)}))
}

// Outliers are blocks of a stream that stay on the GPU for the whole request, outside of the
// capacity. ShadowKV keeps its outlier chunks this way (Sun et al., ICML 2025, arXiv:2410.21465,
// section 4). They are the 48 chunks of 8 tokens whose keys are least like their mean. Outliers are
// pinned like sinks: never demanded, born or evicted. PinnedPeak includes their memory. The text
// form parses back. The zero value keeps none.
//
// A trace has no keys, so it does not determine ShadowKV's chunks. See OutlierSource for the
// replacement.
type Outliers struct {
	Source OutlierSource
	Count  int // blocks per stream
}

// OutlierSource is the rule that selects outliers.
type OutlierSource string

// Sources of outliers.
const (
	OutliersNone OutlierSource = ""
	// OutliersWindows is a stand-in. It selects the blocks that the most windows demand, among
	// those that are not pinned at the end of the prompt. Ties go to the lowest index. A block that
	// no window demands is never an outlier, so there may be fewer than requested. All recorded
	// windows count, for any warm-up.
	OutliersWindows OutlierSource = "windows"
	// OutliersUnlisted are the blocks that the trace's selector itself kept on the GPU. No list
	// contains them (a capture of ShadowKV). Only their memory is counted.
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
		return o, fmt.Errorf("outliers %q: expected 1 to %d blocks per stream, as in %s:48", text, 1<<30, source)
	}
	o.Count = n
	return o, nil
}

// String returns the text form.
func (o Outliers) String() string {
	if o.Source == OutliersNone {
		return ""
	}
	return fmt.Sprintf("%s:%d", o.Source, o.Count)
}
