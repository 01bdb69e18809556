package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/board"
)

// marks write the numbers of footnotes at lines. A footnote of every line is not
// marked: it is shown as one of all.
type marks struct{ everywhere []int }

func boardMarks(b *board.Board) marks { return marksOf(b.LineNotes(), len(b.Footnotes)) }

// marksOf are the marks of lines, by the numbers of their footnotes, 1 to n.
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

// text is the superscript numbers of a line's footnotes, with a space before.
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

// footnote is the n-th footnote's line.
func (m marks) footnote(n int, text string) string {
	if slices.Contains(m.everywhere, n) {
		return "all lines: " + text
	}
	return superscript(n) + " " + text
}

func superscript(n int) string {
	digits := []rune("⁰¹²³⁴⁵⁶⁷⁸⁹")
	return strings.Map(func(r rune) rune { return digits[r-'0'] }, fmt.Sprint(n))
}
