package render

import (
	"slices"

	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// labelledTPOT precedes the labels of times in a table of counts.
const labelledTPOT = "TPOT: "

// limitLabels adds the labels of modelled times, behind a prefix, to those of the counts.
func limitLabels(m *board.TimeModel, l result.Labels, prefix string) result.Labels {
	if m == nil {
		return l
	}
	l = slices.Clone(l)
	for _, label := range m.Labels {
		l = append(l, prefix+label)
	}
	return l
}

// labelsBeside are the labels of a table of counts, with those of times if it shows any.
func labelsBeside(b *board.Board, timed bool) result.Labels {
	if !timed {
		return b.Labels
	}
	return limitLabels(b.Time, b.Labels, labelledTPOT)
}

// labelled puts labels before the section's title.
func (s section) labelled(l result.Labels) section {
	s.title = l.Title(s.title)
	return s
}
