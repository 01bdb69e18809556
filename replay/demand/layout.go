package demand

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// Layout is a setting.Shape on a trace.
type Layout struct {
	Factor    int // entries of a list in a block
	Heads     int // streams that share a cache
	Positions int // positions of a step

	Clustered bool // units are clusters of tokens
}

// Plain reports whether rows are replayed as recorded.
func (l Layout) Plain() bool {
	return l.Factor == 1 && l.Heads == 1 && l.Positions == 1 && !l.Clustered
}

// Unit is the number of entries, of one head and one token each, that a block of a
// joined stream holds.
func (l Layout) Unit(p Pins) int64 { return int64(p.BlockTokens) * int64(l.Heads) }

// NewLayout checks the shape against the unit of the trace. The caller sets Heads, which depends
// on the selected streams.
func NewLayout(s setting.Shape, m *trace.Meta) (Layout, error) {
	l := Layout{Factor: 1, Heads: 1, Positions: max(1, s.StepTokens)}
	if s.StepTokens < 0 {
		return l, fmt.Errorf("%d positions a step, expected at least 1", s.StepTokens)
	}
	switch {
	case s.BlockTokens == 0:
	case s.BlockTokens < 0 || s.BlockTokens%m.BlockTokens != 0:
		return l, fmt.Errorf("blocks of %d tokens, expected a multiple of the trace's %d", s.BlockTokens, m.BlockTokens)
	default:
		l.Factor = s.BlockTokens / m.BlockTokens
	}
	return l, nil
}

// HasPicked reports whether a unit holds several entries that a list names separately.
func (l Layout) HasPicked() bool { return l.Factor > 1 || l.Heads > 1 || l.Clustered }
