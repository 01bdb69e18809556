package board

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// footnotes are the warnings of the cell's rows, and remarks if OPT is not its bound.
func (c *cell) footnotes() []string {
	texts := slices.Clone(c.warnings)
	if c.sample.Bypasses && !c.sample.Offline {
		texts = append(texts, "may read demanded blocks without keeping them, so opt-bypass bounds it and opt does not")
	}
	if c.total.prefetched > 0 {
		texts = append(texts, "prefetches: judge misses and bytes together, because opt bounds neither")
	}
	return text.Union(texts)
}

// Remarks are the footnotes of a line.
type Remarks struct {
	// Notes are numbers of Board.Footnotes, from 1.
	Notes []int `json:"notes"`

	texts []string // the footnotes, before they are numbered
}

// remarks lists the footnotes of every line of the board.
func (b *Board) remarks() (all []*Remarks) {
	for _, t := range b.Rankings() {
		for _, lines := range [][]Line{t.Ranked, t.Unranked, t.Bounds} {
			for i := range lines {
				all = append(all, &lines[i].Remarks)
			}
		}
		for i := range t.Cells {
			all = append(all, &t.Cells[i].Remarks)
		}
	}
	for i := range b.Cells {
		all = append(all, &b.Cells[i].Remarks)
	}
	for i := range b.Windows {
		all = append(all, &b.Windows[i].Remarks)
	}
	return all
}

// LineNotes lists the numbers of the footnotes of every line of the board.
func (b *Board) LineNotes() (notes [][]int) {
	return slice.Map(b.remarks(), func(r *Remarks) []int { return r.Notes })
}

// number collects the footnotes of all lines and sets their numbers in the lines.
func (b *Board) number() {
	remarks := b.remarks()
	var notes [][]int
	b.Footnotes, notes = Footnotes(slice.Map(remarks, func(r *Remarks) []string { return r.texts }))
	for i, r := range remarks {
		r.Notes = notes[i]
	}
}

// Footnotes numbers the texts of lines. It returns the footnotes, sorted, and the numbers of
// each line's, ascending, from 1. Texts that are alike share a footnote (MergeNotes).
func Footnotes(lines [][]string) (footnotes []string, numbers [][]int) {
	footnotes, of := MergeNotes(slices.Concat(lines...))
	numbers = make([][]int, len(lines))
	for i, texts := range lines {
		for _, t := range texts {
			numbers[i] = append(numbers[i], slices.Index(footnotes, of[t])+1)
		}
		slices.Sort(numbers[i])
		numbers[i] = slices.Compact(numbers[i])
	}
	return footnotes, numbers
}

// numbers are digits, with decimals if they have any.
var numbers = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// MergeNotes maps every text to its footnote, and returns the footnotes sorted. Texts that differ
// only in numbers, such as the counts of a warning by request, share one. There a range replaces
// the number: "by 3–17 blocks".
func MergeNotes(texts []string) (footnotes []string, of map[string]string) {
	of = map[string]string{}
	alike := slice.Group(text.Union(texts), func(t *string) string { return numbers.ReplaceAllString(*t, "0") })
	for _, same := range alike {
		merged := withRanges(same)
		footnotes = append(footnotes, merged)
		for _, t := range same {
			of[t] = merged
		}
	}
	slices.Sort(footnotes)
	return footnotes, of
}

// withRanges replaces each number that differs between the texts by its range.
func withRanges(texts []string) string {
	found := slice.Map(texts, func(t string) []string { return numbers.FindAllString(t, -1) })
	n := -1
	return numbers.ReplaceAllStringFunc(texts[0], func(string) string {
		n++
		values := slice.Map(found, func(numbers []string) string { return numbers[n] })
		low, high := slices.MinFunc(values, compareNumbers), slices.MaxFunc(values, compareNumbers)
		if low == high {
			return low
		}
		return fmt.Sprintf("%s–%s", low, high)
	})
}

// compareNumbers orders numbers by value, at any length.
func compareNumbers(a, b string) int {
	x, _ := strconv.ParseFloat(a, 64) // digits always parse, too many of them as infinity
	y, _ := strconv.ParseFloat(b, 64)
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// fewRequests is the number of requests of a trace below which intervals are too narrow.
const fewRequests = 10

// intervalNotes explain the column of intervals over the cells. Without intervals there are no
// notes. TestCoverage measures the rate.
func (g *grid) intervalNotes(common []CellRef) []string {
	requests := g.requests(common)
	if requests == nil {
		return nil
	}
	n := fmt.Sprint(slices.Min(requests))
	if most := slices.Max(requests); most > slices.Min(requests) {
		n += fmt.Sprintf("–%d", most)
	}
	const method = "95 %: bootstrap over the requests of each trace"
	if slices.Min(requests) >= fewRequests {
		return []string{fmt.Sprintf("%s (n = %s)", method, n)}
	}
	return []string{fmt.Sprintf("The 95 %% intervals are too narrow: some traces have fewer than %d requests (n = %s). "+
		"With 5 requests an interval covers the true figure about 91 %% of the time. %s", fewRequests, n, method)}
}

// notes concern the whole board: traces without intervals, and capacities that count twice.
func (g *grid) notes(b *Board) []string {
	var pooled, few, notes []string
	for _, t := range b.Traces {
		switch {
		case t.RequestCount == nil:
			pooled = append(pooled, t.Trace)
		case *t.RequestCount < MinRequests:
			few = append(few, fmt.Sprintf("%s (n = %d)", t.Trace, *t.RequestCount))
		}
	}
	if pooled != nil {
		notes = append(notes, "No intervals: replay with --per request. Rows are pooled over requests: "+strings.Join(pooled, ", "))
	}
	if few != nil {
		notes = append(notes, fmt.Sprintf("No intervals: they need %d requests of each trace. Traces with fewer: %s", MinRequests, strings.Join(few, ", ")))
	}
	return slices.Concat(notes, intervalNotes(b.ratios()), g.sizedTwice())
}

// refsText lists cells by trace: "a 1x 2x, b 1x". Many cells are shown by their ends: "a 1x …
// 15.5x". Traces with the same cells are joined: "each of a, b at 1x 2x".
func refsText(refs []CellRef) string {
	type run struct {
		traces     []string
		capacities string
	}
	var runs []run
	for _, own := range slice.Runs(refs, func(a, b CellRef) bool { return a.Trace == b.Trace }) {
		trace, names := own[0].Trace, slice.Map(own, func(r CellRef) string { return r.Capacity })
		capacities := strings.Join(names, " ")
		if len(names) > result.MostListed {
			capacities = names[0] + " … " + names[len(names)-1]
		}
		if last := len(runs) - 1; last >= 0 && runs[last].capacities == capacities {
			runs[last].traces = append(runs[last].traces, trace)
		} else {
			runs = append(runs, run{[]string{trace}, capacities})
		}
	}
	var texts []string
	for _, r := range runs {
		if len(r.traces) == 1 {
			texts = append(texts, r.traces[0]+" "+r.capacities)
		} else {
			texts = append(texts, fmt.Sprintf("each of %s at %s", strings.Join(r.traces, ", "), r.capacities))
		}
	}
	return strings.Join(texts, ", ")
}

// intervalNotes explain intervals without an upper end. They also explain figures that lack
// an interval although their traces have enough requests.
func intervalNotes(figures []*Figure) (notes []string) {
	if slices.ContainsFunc(figures, (*Figure).Unbounded) {
		notes = append(notes, "∞: the interval has no upper end. In some resamples the policy in the denominator has no misses and the other has some")
	}
	if slices.ContainsFunc(figures, func(f *Figure) bool { return f != nil && f.undefined }) {
		notes = append(notes, fmt.Sprintf("No interval: in more than %g %% of the resamples both policies have no misses in some cell", 100*mostUndefined))
	}
	return notes
}

// ratios returns the board's ratios of misses that are shown with an interval.
func (b *Board) ratios() (all []*Figure) {
	add := func(figures ...*Figures) {
		for _, f := range figures {
			if f != nil {
				all = append(all, f.XOpt, f.XLRU)
			}
		}
	}
	for _, t := range b.Tables {
		for _, l := range t.Lines() {
			add(l.Pooled)
			add(l.Capacities...)
			add(l.Traces...)
		}
	}
	for _, c := range b.Cells {
		add(c.Figures)
	}
	for _, w := range b.Windows {
		add(w.Figures)
	}
	return all
}
