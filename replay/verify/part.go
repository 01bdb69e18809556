package verify

import (
	"fmt"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// Part is the part of a cell that a row covers. Pooled fields are null.
type Part struct {
	RequestID *string `json:"request_id"`
	LayerID   *int32  `json:"layer_id"`
	Head      *int32  `json:"head"`
}

func partOf(r *result.Row) Part { return Part{r.RequestID, r.LayerID, r.Head} }

// twinKey is equal for a row and its twin of the replay. It holds the part and the cache, which is
// the GPU's or a tier below.
type twinKey struct {
	tier  int
	above string
	part  result.Part
}

func twinKeyOf(r *result.Row) twinKey { return twinKey{r.Tier, r.Above, result.PartOf(r)} }

// String names the part, "all" for the whole cell.
func (p Part) String() string {
	var words []string
	if p.RequestID != nil {
		words = append(words, *p.RequestID)
	}
	if p.LayerID != nil {
		words = append(words, fmt.Sprintf("layer %d", *p.LayerID))
	}
	if p.Head != nil {
		words = append(words, fmt.Sprintf("head %d", *p.Head))
	}
	if words == nil {
		return "all"
	}
	return strings.Join(words, " ")
}
