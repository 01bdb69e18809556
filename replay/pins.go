package replay

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/trace"
)

// Pins are the tokens that are always resident: the first Sink and the last Local
// (SEMANTICS S2). BlockTokens is the unit of the stream.
type Pins struct {
	Sink, Local, BlockTokens int
}

// firstFree is the first block that no sink pins.
func (p Pins) firstFree() int { return (p.Sink + p.BlockTokens - 1) / p.BlockTokens }

// firstLocal is the first block that the local window pins in a context of seqLen tokens.
func (p Pins) firstLocal(seqLen int) int { return max(0, seqLen-p.Local) / p.BlockTokens }

// appendBirths appends the blocks whose last token left the local window when the
// context grew to seqLen tokens from before.
func (p Pins) appendBirths(dst []int32, before, seqLen int) []int32 {
	for b := max(p.firstLocal(before), p.firstFree()); b < p.firstLocal(seqLen); b++ {
		dst = append(dst, int32(b))
	}
	return dst
}

// blocks is the number of block ids in a context of seqLen tokens.
func (p Pins) blocks(seqLen int) int { return (seqLen + p.BlockTokens - 1) / p.BlockTokens }

// pinsOf takes what the options set and the trace states, the defaults of S2 otherwise.
func pinsOf(m *trace.Meta, o *Options) Pins {
	sink, local, _ := m.Pins()
	if o.Sink != nil {
		sink = *o.Sink
	}
	if o.Local != nil {
		local = *o.Local
	}
	p := Pins{Sink: sink, Local: local, BlockTokens: m.BlockTokens}
	if o.Shape.BlockTokens > 0 {
		p.BlockTokens = o.Shape.BlockTokens
	}
	return p
}

// UnstatedPins says which pins neither the options nor the trace states and what is replayed
// for them, as a note for users, and names these pins; both are empty where all are stated.
func UnstatedPins(m *trace.Meta, o *Options) (note string, names []string) {
	p := pinsOf(m, o)
	var used []string
	for _, pin := range []struct {
		name          string
		stated, asked *int
		used          int
	}{{"sink", m.Sink, o.Sink, p.Sink}, {"local", m.Local, o.Local, p.Local}} {
		if pin.asked == nil && pin.stated == nil {
			names, used = append(names, pin.name), append(used, strconv.Itoa(pin.used))
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	return fmt.Sprintf("the trace does not state %s; replaying %s", strings.Join(names, " and "), strings.Join(used, " and ")), names
}
