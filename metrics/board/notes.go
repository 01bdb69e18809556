package board

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// footnotes are what a reader of the cell must know: its rows' warnings, and where OPT
// is not its bound.
func (c *cell) footnotes() []string {
	texts := slices.Clone(c.warnings)
	if c.sample.Bypasses && !c.sample.Offline {
		texts = append(texts, "may keep demanded blocks out of the cache: × OPT is the common yardstick, the bound is opt-bypass")
	}
	if c.total.prefetched > 0 {
		texts = append(texts, "prefetches: judge misses and bytes together; opt bounds neither")
	}
	return result.Unite(texts, nil)
}

// number collects the footnotes of all lines, sorted, and has the lines refer to them.
func (b *Board) number() {
	var texts []string
	for _, l := range b.lineTexts() {
		texts = append(texts, *l.texts...)
	}
	footnotes, of := MergeNotes(texts)
	b.Footnotes = footnotes
	for _, l := range b.lineTexts() {
		for _, text := range *l.texts {
			*l.notes = append(*l.notes, slices.Index(footnotes, of[text])+1)
		}
		slices.Sort(*l.notes)
		*l.notes = slices.Compact(*l.notes)
	}
}

type noted struct {
	texts *[]string
	notes *[]int
}

// lineTexts lists the footnotes of every line of the board.
func (b *Board) lineTexts() []noted {
	var all []noted
	for i := range b.Tables {
		t := &b.Tables[i]
		for _, lines := range [][]Line{t.Ranked, t.Unranked, t.Bounds} {
			for j := range lines {
				all = append(all, noted{&lines[j].texts, &lines[j].Notes})
			}
		}
	}
	for i := range b.Cells {
		all = append(all, noted{&b.Cells[i].texts, &b.Cells[i].Notes})
	}
	for i := range b.Windows {
		all = append(all, noted{&b.Windows[i].texts, &b.Windows[i].Notes})
	}
	return append(all, b.Lossy.lineTexts()...)
}

// LineNotes lists the numbers of the footnotes of every line of the board.
func (b *Board) LineNotes() [][]int {
	var notes [][]int
	for _, l := range b.lineTexts() {
		notes = append(notes, *l.notes)
	}
	return notes
}

// takesNote marks the line of a policy that coverage.takes; the notes name the cells.
const takesNote = "did not run where other ranked policies did: what it lacks is pooled for nobody, the notes name it"

// tableNotes say what pooled figures are over, and what is left out of them.
func (g *grid) tableNotes(t *Table, c *coverage) []string {
	var notes []string
	switch {
	case t.ahead:
		notes = append(notes, "not ranked, as these rows prefetch: opt bounds neither their misses nor their bytes, judge both together; kvreplay compare sets two policies side by side, --by time ranks by a model",
			fmt.Sprintf("pooled over %s: %s", result.Count(len(t.Common), "cell"), refsText(t.Common)))
	case len(t.Common) > 0:
		notes = append(notes, c.pooledNote())
	case len(t.usable) > 0 && len(t.Unranked) > 1:
		notes = append(notes, noSharedCell)
	}
	notes = append(notes, c.leftNotes()...)
	for _, line := range t.Unranked {
		switch {
		case slices.Contains(t.untimed, line.Policy):
			notes = append(notes, fmt.Sprintf("%s is not ranked: one of the cells has no modelled time", line.Policy))
		case len(c.cellsOf(line.Policy)) == 0:
			notes = append(notes, fmt.Sprintf("%s is not ranked: in no cell where it ran is there a × OPT (it ran at %s)", line.Policy, refsText(g.refs([]string{line.Policy}))))
		case line.Policy == t.alone:
			notes = append(notes, aloneNote(t.alone))
		case line.Pooled == nil && len(t.Common) > 0:
			notes = append(notes, c.unrankedNote(line.Policy))
		}
	}
	if n := len(t.OptZero); n > 0 {
		notes = append(notes, fmt.Sprintf("left out, as OPT has no miss there: %s: %s", result.Count(n, "cell"), refsText(t.OptZero)))
	}
	if n := len(t.NoMiss); n > 0 {
		notes = append(notes, fmt.Sprintf("left out, as OPT has misses there and %s has none: %s: %s", strings.Join(g.missless(c.policies, t.NoMiss), ", "), result.Count(n, "cell"), refsText(t.NoMiss)))
	}
	if n := len(t.Prefetched); n > 0 {
		notes = append(notes, fmt.Sprintf("left out, as its rows prefetch, which OPT does not bound: %s: %s; --where trace=NAME shows them", result.Count(n, "cell"), refsText(t.Prefetched)))
	}
	if n := len(t.NoOpt); n > 0 {
		notes = append(notes, fmt.Sprintf("left out, for want of a row of opt: %s: %s", result.Count(n, "cell"), refsText(t.NoOpt)))
	}
	if g.by != ByTime && t.Intervals() { // times are shown without intervals
		notes = append(notes, g.intervalNotes(t.Common)...)
	}
	return append(notes, g.markNotes(t)...)
}

// noSharedCell explains a table without ranks.
const noSharedCell = "not ranked: no two policies ran at the same trace and capacity; replay them at the same ones"

// aloneNote explains why the only policy that could be ranked is not.
func aloneNote(policy string) string {
	return policy + " is not ranked: no other policy has these cells; replay another at the same traces and capacities"
}

// timesNote says how far to trust an order by modelled times.
const timesNote = "modelled times hold to within 3 % on a sequential schedule: `kvreplay time` may order closer lines otherwise"

// fewRequests is the number of requests of a trace below which intervals are too narrow.
const fewRequests = 10

// intervalNotes explain the column of intervals over the cells. Without intervals there
// are no notes. TestCoverage measures the rate.
func (g *grid) intervalNotes(common []CellRef) []string {
	requests := g.requests(common)
	if requests == nil {
		return nil
	}
	n := fmt.Sprint(slices.Min(requests))
	if most := slices.Max(requests); most > slices.Min(requests) {
		n += fmt.Sprintf("–%d", most)
	}
	note := fmt.Sprintf("95 %%: bootstrap over the requests of each trace (n = %s)", n)
	if slices.Min(requests) < fewRequests {
		note += fmt.Sprintf(", too narrow below %d requests: with 5 it covers the true figure about 91 %% of the time", fewRequests)
	}
	return []string{note}
}

// markNotes explain the marks that the table shows.
func (g *grid) markNotes(t *Table) []string {
	var notes []string
	notes = append(notes, t.letterNotes...)
	if g.by == ByTime && len(t.Ranked) > 0 {
		notes = append(notes, timesNote)
	}
	if slices.ContainsFunc(t.Ranked, func(l Line) bool { return strings.HasSuffix(l.Rank, "=") }) {
		notes = append(notes, map[string]string{ByMisses: "=: equal × OPT", ByTime: "=: equal TPOT"}[g.by])
	}
	return notes
}

// notes concern the whole board: where intervals come from, or why there are none.
func (g *grid) notes(b *Board) []string {
	var with, without []string
	for _, t := range b.Traces {
		switch {
		case t.RequestCount == nil:
			without = append(without, t.Trace+" (rows pooled over requests)")
		case *t.RequestCount < MinRequests:
			without = append(without, fmt.Sprintf("%s (n = %d)", t.Trace, *t.RequestCount))
		default:
			with = append(with, fmt.Sprintf("%s (n = %d)", t.Trace, *t.RequestCount))
		}
	}
	var notes []string
	if with != nil {
		notes = append(notes, fmt.Sprintf("[low, high]: 95 %% bootstrap intervals, requests resampled within a trace, %d resamples, seed %d: %s", b.Resamples, b.Seed, strings.Join(with, ", ")))
	}
	if without != nil {
		notes = append(notes, fmt.Sprintf("no intervals where a trace has fewer than %d requests in its rows: %s", MinRequests, strings.Join(without, ", ")))
	}
	return slices.Concat(notes, intervalNotes(b.ratios()), g.sizedTwice())
}

// refsText lists cells by trace: "a 1x 2x, b 1x"; of many only the ends: "a 1x … 15.5x";
// of traces with the same ones: "each of a, b at 1x 2x".
func refsText(refs []CellRef) string {
	type run struct {
		traces     []string
		capacities string
	}
	var runs []run
	for len(refs) > 0 {
		n := 1
		for n < len(refs) && refs[n].Trace == refs[0].Trace {
			n++
		}
		capacities := capacitiesText(refs[:n])
		if last := len(runs) - 1; last >= 0 && runs[last].capacities == capacities {
			runs[last].traces = append(runs[last].traces, refs[0].Trace)
		} else {
			runs = append(runs, run{[]string{refs[0].Trace}, capacities})
		}
		refs = refs[n:]
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

func capacitiesText(refs []CellRef) string {
	if len(refs) > result.MostListed {
		return refs[0].Capacity + " … " + refs[len(refs)-1].Capacity
	}
	var names []string
	for _, r := range refs {
		names = append(names, r.Capacity)
	}
	return strings.Join(names, " ")
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// lineTexts lists the footnotes of every line and cell.
func (t *LossyTable) lineTexts() (all []noted) {
	if t == nil {
		return nil
	}
	for _, lines := range [][]LossyLine{t.Ranked, t.Unranked} {
		for i := range lines {
			all = append(all, noted{&lines[i].texts, &lines[i].Notes})
		}
	}
	for i := range t.Cells {
		all = append(all, noted{&t.Cells[i].texts, &t.Cells[i].Notes})
	}
	return all
}
