package metrics

import (
	"fmt"
	"slices"
	"strings"
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
	return unite(texts, nil)
}

// number collects the footnotes of all lines, sorted, and has the lines refer to them.
func (b *Board) number() {
	var texts []string
	for _, l := range b.lineTexts() {
		texts = append(texts, *l.texts...)
	}
	footnotes, of := mergeNotes(texts)
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

// takesNote marks the line of a policy that coverage.takes; the notes name the cells.
const takesNote = "did not run where other ranked policies did: what it lacks is pooled for nobody, the notes name it"

// tableNotes say what pooled figures are over, and what is left out of them.
func (g *grid) tableNotes(t *Table, c *coverage) []string {
	var notes []string
	switch {
	case t.ahead:
		notes = append(notes, "not ranked, as these rows prefetch: opt bounds neither their misses nor their bytes, judge both together; kvreplay compare sets two policies side by side, --by time ranks by a model",
			fmt.Sprintf("pooled over %s: %s", count(len(t.Common), "cell"), refsText(t.Common)))
	case len(t.Common) > 0:
		notes = append(notes, c.pooledNote())
	}
	notes = append(notes, c.leftNotes()...)
	for _, line := range t.Unranked {
		switch {
		case slices.Contains(t.untimed, line.Policy):
			notes = append(notes, fmt.Sprintf("%s is not ranked: one of the cells has no modelled time", line.Policy))
		case len(c.cellsOf(line.Policy)) == 0:
			notes = append(notes, fmt.Sprintf("%s is not ranked: in no cell where it ran is there a × OPT (it ran at %s)", line.Policy, refsText(g.refs([]string{line.Policy}))))
		case line.Pooled == nil:
			notes = append(notes, c.unrankedNote(line.Policy))
		}
	}
	if n := len(t.OptZero); n > 0 {
		notes = append(notes, fmt.Sprintf("left out, as OPT has no miss there: %s: %s", count(n, "cell"), refsText(t.OptZero)))
	}
	if n := len(t.NoMiss); n > 0 {
		notes = append(notes, fmt.Sprintf("left out, as OPT has misses there and %s has none: %s: %s", strings.Join(g.missless(c.policies, t.NoMiss), ", "), count(n, "cell"), refsText(t.NoMiss)))
	}
	if n := len(t.Prefetched); n > 0 {
		notes = append(notes, fmt.Sprintf("left out, as its rows prefetch, which OPT does not bound: %s: %s; --where trace=NAME shows them", count(n, "cell"), refsText(t.Prefetched)))
	}
	if n := len(t.NoOpt); n > 0 {
		notes = append(notes, fmt.Sprintf("left out, for want of a row of opt: %s: %s", count(n, "cell"), refsText(t.NoOpt)))
	}
	switch {
	case g.by == ByTime && len(t.Ranked) > 1: // times are shown without intervals, ≈ is of them
		notes = append(notes, g.intervalNotes("≈ or not", t.Common)...)
	case g.by != ByTime && t.intervals():
		notes = append(notes, g.intervalNotes("95 %", t.Common)...)
	}
	return append(notes, g.markNotes(t)...)
}

// nearNote explains the mark of a line that may as well be above the one before.
const nearNote = "≈: these requests do not tell it from the line above: the 95 % interval of the paired difference of their logs includes 0; of lines further apart it says nothing"

// timesNote says how far an order by modelled times is to be trusted.
const timesNote = "ranks are of modelled times, which hold to within 3 % on a sequential schedule: lines closer than that may change places where a profile is priced step by step, whether ≈ or not"

// fewRequests is how many requests of a trace intervals are still too narrow below.
const fewRequests = 10

// intervalNotes say what the intervals of figures over the cells are, that a column or a
// mark shows; none where there are no intervals. The rates are TestCoverage's.
func (g *grid) intervalNotes(shown string, common []CellRef) []string {
	requests := g.requests(common)
	if requests == nil {
		return nil
	}
	n := fmt.Sprint(slices.Min(requests))
	if most := slices.Max(requests); most > slices.Min(requests) {
		n += fmt.Sprintf("–%d", most)
	}
	note := fmt.Sprintf("%s: percentile bootstrap over the requests of each trace (n = %s), widened for their number", shown, n)
	if slices.Min(requests) < fewRequests {
		note += fmt.Sprintf("; of fewer than %d it is still narrow: with 5 it holds the true figure about 91 times in 100", fewRequests)
	}
	return []string{note}
}

// markNotes explain the marks that the table shows.
func (g *grid) markNotes(t *Table) []string {
	var notes []string
	if slices.ContainsFunc(t.Ranked, func(l Line) bool { return l.Near }) {
		notes = append(notes, nearNote)
	}
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

// mostListed is how many cells of a trace a note names.
const mostListed = 8

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
	if len(refs) > mostListed {
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

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
