package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// labelledTPOT precedes the labels of times in a table of counts, and notes on their assumptions.
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

// timed reports whether some line of the ranking has a modelled time.
func timed(t *board.Ranking) bool {
	return slices.ContainsFunc(t.Lines(), func(l board.Line) bool { return l.Pooled != nil && l.Pooled.TPOT != nil })
}

// timeNotes state the assumptions of a table with times, one a note.
func timeNotes(m *board.TimeModel) []string {
	if m == nil {
		return nil
	}
	notes := []string{fmt.Sprintf("TPOT is modelled: %s on %s, batch %d, %s. It is the geometric mean over the cells. It leaves out the time that policies themselves take. "+
		"Change it with --model, --hardware, --batch and --schedule", m.Model, m.Hardware, m.Batch, m.Schedule)}
	for _, assumption := range m.Assumptions {
		notes = append(notes, labelledTPOT+assumption)
	}
	return notes
}

// exactSelectors define the demand of their model, so they approximate nothing. A trace that does
// not name its selector counts as exact.
var exactSelectors = []string{"", "exact", "dsa"}

// approximates reports whether the trace's selector stands in for an exact one. Then every figure
// of the trace is shown with its recall.
func approximates(t *board.TraceInfo) bool {
	return t.SelectorRecall != nil || !slices.Contains(exactSelectors, t.Selector)
}

// traceName returns a trace's name with brackets. They have the labels that not all traces of the
// board have, and the recall of a selector that approximates.
func (v *boardView) traceName(name string) string {
	return nameBeside(v.Board, v.LabelsOn(name).Without(v.Labels), name)
}

// shortTraceName is traceName without the extension of the file.
func (v *boardView) shortTraceName(name string) string {
	return strings.Replace(v.traceName(name), ".parquet", "", 1)
}

// nameBeside is a trace's name with labels, and the recall of a selector that approximates.
func nameBeside(b *board.Board, apart result.Labels, name string) string {
	for i := range b.Traces {
		if t := &b.Traces[i]; t.Trace == name && approximates(t) {
			recall := "recall not measured"
			if t.SelectorRecall != nil {
				recall = "recall " + percent(*t.SelectorRecall)
			}
			apart = append(apart, t.Selector+", "+recall)
		}
	}
	if len(apart) == 0 {
		return name
	}
	return fmt.Sprintf("%s (%s)", name, apart)
}

// selectorRecall returns the recall of the selectors of cells that approximate, as the end of a
// title and as notes.
func (v *boardView) selectorRecall(refs []board.CellRef) (title string, notes []string) {
	var of []string
	low, high, unknown := 1.0, 0.0, false
	for _, t := range approximate(v.Board, refs) {
		of = append(of, v.traceName(t.Trace))
		if t.SelectorRecall == nil {
			unknown = true
			continue
		}
		low, high = min(low, *t.SelectorRecall), max(high, *t.SelectorRecall)
	}
	switch {
	case of == nil:
		return "", nil
	case unknown:
		title = ", selector recall not measured"
	case low == high:
		title = ", selector recall " + percent(low)
	default:
		title = fmt.Sprintf(", selector recall %s to %s", percent(low), percent(high))
	}
	return title, []string{"Approximate selectors: the demand of these traces has only this share of the exact Top-K: " + strings.Join(of, ", ")}
}

// approximate lists the traces of the cells whose selectors approximate.
func approximate(b *board.Board, refs []board.CellRef) (traces []*board.TraceInfo) {
	for i := range b.Traces {
		t := &b.Traces[i]
		if approximates(t) && slices.ContainsFunc(refs, func(r board.CellRef) bool { return r.Trace == t.Trace }) {
			traces = append(traces, t)
		}
	}
	return traces
}

// leastRecall returns the least recall of the approximate selectors of some traces. It is nil if
// there are none, and if one was not measured.
func leastRecall(b *board.Board, refs []board.CellRef) (least *float64) {
	for _, t := range approximate(b, refs) {
		if t.SelectorRecall == nil {
			return nil
		}
		if least == nil || *t.SelectorRecall < *least {
			least = t.SelectorRecall
		}
	}
	return least
}

// marks write the numbers of footnotes at lines. A footnote of every line is not marked, but shown
// as one of all.
type marks struct{ everywhere []int }

func boardMarks(b *board.Board) marks { return marksOf(b.LineNotes(), len(b.Footnotes)) }

// marksOf returns the marks of lines, by the numbers of their footnotes, 1 to n.
func marksOf(lines [][]int, n int) marks {
	times := make([]int, n+1)
	for _, notes := range lines {
		for _, n := range notes {
			times[n]++
		}
	}
	var m marks
	for n := range times {
		if n > 0 && times[n] == len(lines) {
			m.everywhere = append(m.everywhere, n)
		}
	}
	return m
}

// text returns the superscript numbers of a line's footnotes, with a space before.
func (m marks) text(notes []int) string {
	var numbers []string
	for _, n := range notes {
		if !slices.Contains(m.everywhere, n) {
			numbers = append(numbers, superscript(n))
		}
	}
	if numbers == nil {
		return ""
	}
	return " " + strings.Join(numbers, "˒")
}

// footnotes returns the lines of all footnotes, each with its number.
func (m marks) footnotes(texts []string) (lines []string) {
	for i, text := range texts {
		mark := superscript(i + 1)
		if slices.Contains(m.everywhere, i+1) {
			mark = "all lines:"
		}
		lines = append(lines, mark+" "+text)
	}
	return lines
}

func superscript(n int) string {
	digits := []rune("⁰¹²³⁴⁵⁶⁷⁸⁹")
	return strings.Map(func(r rune) rune { return digits[r-'0'] }, fmt.Sprint(n))
}
