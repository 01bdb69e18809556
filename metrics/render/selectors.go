package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// exactSelectors choose the demand of their model itself: there is nothing that they would
// approximate. A trace that does not name its selector says nothing of one.
var exactSelectors = []string{"", "exact", "dsa"}

// approximates reports whether the trace's selector stands for another, exact one. Then no
// figure of the trace is shown without its recall.
func approximates(t *board.TraceInfo) bool {
	return t.SelectorRecall != nil || !slices.Contains(exactSelectors, t.Selector)
}

// recallText is "quest, recall 28.1 %".
func recallText(t *board.TraceInfo) string {
	if t.SelectorRecall == nil {
		return t.Selector + ", recall not measured"
	}
	return fmt.Sprintf("%s, recall %s", t.Selector, percent(*t.SelectorRecall))
}

// traceName is a trace's name with what sets it apart in brackets: the labels that not all
// traces of the board have, and the recall of a selector that approximates.
func traceName(b *board.Board, name string) string {
	return nameBeside(b, b.LabelsOn(name).Without(b.Labels), name)
}

// titleName is traceName for a title that states the labels of the trace.
func titleName(b *board.Board, name string) string { return nameBeside(b, nil, name) }

func nameBeside(b *board.Board, apart result.Labels, name string) string {
	for i := range b.Traces {
		if t := &b.Traces[i]; t.Trace == name && approximates(t) {
			apart = append(apart, recallText(t))
		}
	}
	if len(apart) == 0 {
		return name
	}
	return fmt.Sprintf("%s (%s)", name, apart)
}

// marked says in a section's title and notes which recall the selectors of its cells have,
// where they approximate.
func marked(b *board.Board, s section, refs []board.CellRef) section {
	var of []string
	low, high, unknown := 1.0, 0.0, false
	for i := range b.Traces {
		t := &b.Traces[i]
		if !approximates(t) || !slices.ContainsFunc(refs, func(r board.CellRef) bool { return r.Trace == t.Trace }) {
			continue
		}
		of = append(of, traceName(b, t.Trace))
		if t.SelectorRecall == nil {
			unknown = true
			continue
		}
		low, high = min(low, *t.SelectorRecall), max(high, *t.SelectorRecall)
	}
	switch {
	case of == nil:
		return s
	case unknown:
		s.title += ", selector recall not measured"
	case low == high:
		s.title += ", selector recall " + percent(low)
	default:
		s.title += fmt.Sprintf(", selector recall %s to %s", percent(low), percent(high))
	}
	s.notes = append(slices.Clone(s.notes), "approximate selectors: the demand of these traces has that share of the exact Top-K, whatever serves it: "+strings.Join(of, ", "))
	return s
}

// leastRecall is the least recall of the approximate selectors of some traces, nil where
// there is none, or one that was not measured.
func leastRecall(b *board.Board, refs []board.CellRef) *float64 {
	var least *float64
	for i := range b.Traces {
		t := &b.Traces[i]
		if !approximates(t) || !slices.ContainsFunc(refs, func(r board.CellRef) bool { return r.Trace == t.Trace }) {
			continue
		}
		if t.SelectorRecall == nil {
			return nil
		}
		if least == nil || *t.SelectorRecall < *least {
			least = t.SelectorRecall
		}
	}
	return least
}
