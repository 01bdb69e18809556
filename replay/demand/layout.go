package demand

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// Layout states how recorded rows and entries are joined. It is a setting.Shape resolved for a
// trace.
type Layout struct {
	Factor    int // entries of a list in a block
	Heads     int // heads that share blocks
	Positions int // positions per step

	Clustered bool // units are clusters of tokens
}

// Plain reports whether rows are replayed as recorded.
func (l Layout) Plain() bool {
	return l.Factor == 1 && l.Heads == 1 && l.Positions == 1 && !l.Clustered
}

// Unit returns the number of entries in a block of a joined stream. An entry is one token of one
// head.
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

// HasPicked reports whether a unit holds several entries that lists name separately.
func (l Layout) HasPicked() bool { return l.Factor > 1 || l.Heads > 1 || l.Clustered }
