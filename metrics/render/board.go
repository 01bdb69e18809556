package render

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// Board lays the board out.
func Board(b *board.Board, view View) *table.Report {
	v := &boardView{Board: b, View: view, marks: boardMarks(b)}
	v.names = view.PolicyNames(v.policies())
	v.rankings()
	if view.PerTrace {
		for i := range b.Traces {
			v.trace(&b.Traces[i])
		}
	}
	v.windows()
	v.tiers()
	footnotes := v.marks.footnotes(b.Footnotes)
	if view.Wide {
		v.settings()
	} else {
		footnotes = slices.Concat(b.Notes, footnotes)
	}
	for _, t := range v.tables {
		t.Title = b.Incomplete.Titled(t.Title)
	}
	r := view.report(b.Incomplete.Titled("Leaderboard"))
	r.Tables = v.tables
	r.Footnotes = view.footnotes(footnotes, "--wide (all columns), --notes (all notes), --per-trace, --out FOLDER (files, pictures)")
	return r
}

// boardView collects the tables of a board.
type boardView struct {
	*board.Board
	View
	marks  marks
	names  map[string]string // of policies
	tables []*table.Table
}

// policies are those of all lines of the board.
func (v *boardView) policies() []string {
	cells := v.Cells
	if v.Lossy != nil {
		cells = slices.Concat(cells, v.Lossy.Cells)
	}
	return append(slice.Map(cells, func(c board.CellLine) string { return c.Policy }),
		slice.Map(v.Windows, func(w board.WindowLine) string { return w.Policy })...)
}

// policy returns the shown name of a policy and the marks of its footnotes.
func (v *boardView) policy(name string, notes []int) string {
	return cmp.Or(v.names[name], name) + v.marks.text(notes)
}

// add adds a table with labels before its title.
func (v *boardView) add(t *table.Table, title string, labels result.Labels, notes ...string) {
	t.Title, t.Notes = labels.Title(title), v.View.notes(notes, mostNotes)
	v.tables = append(v.tables, t)
}

// column is a column of a ranking.
type column struct {
	header string
	text   func(*board.Line) string
}

// has reports whether a line has a text other than n/a in the column.
func (c column) has(lines []board.Line) bool {
	for i := range lines {
		if text := c.text(&lines[i]); text != "" && text != notAvailable {
			return true
		}
	}
	return false
}

func figuresOf(lines []board.Line, figure func(*board.Line) *board.Figure) []*board.Figure {
	return slice.Map(lines, func(l board.Line) *board.Figure { return figure(&l) })
}

// figureColumn is a column of figures, which share a unit.
func figureColumn(header string, u unit, lines []board.Line, figure func(*board.Line) *board.Figure) column {
	u = u.column(figuresOf(lines, figure))
	return column{header, func(l *board.Line) string { return u.cell(figure(l)) }}
}

// pooled reads a figure of a line's pooled figures, nil if it has none.
func pooled(figure func(*board.Figures) *board.Figure) func(*board.Line) *board.Figure {
	return func(l *board.Line) *board.Figure {
		if l.Pooled == nil {
			return nil
		}
		return figure(l.Pooled)
	}
}

// pooledText is a column of texts of the pooled figures.
func pooledText(header string, text func(*board.Figures) string) column {
	return column{header, func(l *board.Line) string {
		if l.Pooled == nil {
			return notAvailable
		}
		return text(l.Pooled)
	}}
}

// xOpt, xLRU, gapClosed and hitRate read figures of exact policies.
func xOpt(f *board.Figures) *board.Figure      { return f.XOpt }
func xLRU(f *board.Figures) *board.Figure      { return f.XLRU }
func gapClosed(f *board.Figures) *board.Figure { return f.GapClosed }
func hitRate(f *board.Figures) *board.Figure   { return f.HitRate }

func bytesPerStep(f *board.Figures) string { return bytesText(f.BytesPerStep) }

// keyView is the presentation of the rankings by a key.
type keyView struct {
	title  string
	axis   string // of a picture
	unit   unit
	others func(*boardView, *board.Ranking) []column // columns after those of the key
}

var keyViews = map[*board.Key]keyView{
	board.MissesKey: {"Exact policies: misses ÷ OPT's at the same capacity", "× OPT, geometric mean over traces and capacities", ratioUnit, missColumns},
	board.TimeKey:   {"Exact policies: modelled time per output token", "modelled time per output token (ms)", timeUnit, timeColumns},
	board.RecallKey: {"Lossy methods: recall of the demand at equal budget", "recall (%)", percentUnit, lossColumns},
}

func missColumns(_ *boardView, t *board.Ranking) []column {
	lines := t.Lines()
	columns := []column{
		figureColumn("× LRU", ratioUnit, lines, pooled(xLRU)),
		figureColumn("gap closed", percentUnit, lines, pooled(gapClosed)),
		figureColumn("hit rate", percentUnit, lines, pooled(hitRate)),
		pooledText("H2D/step", bytesPerStep),
	}
	if timed(t) {
		columns = append(columns, pooledText("TPOT", func(f *board.Figures) string { return timeText(f.TPOT) }))
	}
	return columns
}

func timeColumns(v *boardView, t *board.Ranking) []column {
	opt := optimumOf(t)
	return []column{
		pooledText("÷ OPT's", func(f *board.Figures) string {
			if f.TPOT == nil || opt == nil {
				return notAvailable
			}
			return threeDigits(*f.TPOT / opt.Value)
		}),
		pooledText("tokens/s", func(f *board.Figures) string {
			if f.TPOT == nil {
				return notAvailable
			}
			return threeDigits(float64(v.Time.Batch) / *f.TPOT)
		}),
		figureColumn("× OPT", ratioUnit, t.Lines(), pooled(xOpt)),
		pooledText("H2D/step", bytesPerStep),
	}
}

func lossColumns(v *boardView, _ *board.Ranking) []column {
	loss := func(header string, text func(*board.Figures) string) column {
		return pooledText(header, func(f *board.Figures) string {
			if f.Steps == 0 {
				return notAvailable
			}
			return text(f)
		})
	}
	columns := []column{
		loss("lost/step", func(f *board.Figures) string { return threeDigits(float64(f.Lost) / float64(f.Steps)) }),
		loss("mass kept", func(f *board.Figures) string { return shareText(f.MassKept) }),
	}
	if v.Wide {
		columns = append(columns,
			loss("recorded", func(f *board.Figures) string { return shareText(f.CoveredMass) }),
			loss("of all mass", func(f *board.Figures) string {
				if f.MassLeast == nil {
					return notAvailable
				}
				return fmt.Sprintf("%s–%s %%", threeDigits(100**f.MassLeast), threeDigits(100**f.MassMost))
			}))
	}
	return append(columns, loss("held", func(f *board.Figures) string { return threeDigits(f.ResidentMean) }))
}

// rankings lays out the rankings.
func (v *boardView) rankings() {
	for i := range v.Tables {
		t := &v.Tables[i]
		switch {
		case t.Key == board.TimeKey:
			v.ranking(t, limitLabels(v.Time, v.Labels, ""), timeNotes(v.Time))
			continue
		case timed(t):
			v.ranking(t, limitLabels(v.Time, v.Labels, labelledTPOT), timeNotes(v.Time))
		default:
			v.ranking(t, v.Labels, nil)
		}
		if len(t.Traces) > 1 && (v.Wide || v.PerTrace) {
			v.byTrace(t)
		}
	}
	if v.Lossy != nil {
		v.ranking(v.Lossy, v.Labels, nil)
	}
}

// ranking lays out one ranking.
func (v *boardView) ranking(t *board.Ranking, labels result.Labels, timeNotes []string) {
	view, lines, shown := keyViews[t.Key], t.Lines(), shownCapacities(t.Capacities)
	columns := []column{
		{"#", func(l *board.Line) string { return rankText(t, l) }},
		{"policy", func(l *board.Line) string { return v.policy(l.Policy, l.Notes) }},
	}
	key := pooled(t.Key.Of)
	if !v.Wide {
		columns = append(columns, intervalColumn(t.Key.Column, view.unit, lines, key))
	}
	if slices.ContainsFunc(t.Ranked, func(l board.Line) bool { return l.Letters != "" }) {
		columns = append(columns, column{"letters", func(l *board.Line) string { return l.Letters }})
	}
	places := len(columns)
	if !v.Wide {
		others := slices.DeleteFunc(view.others(v, t), func(c column) bool { return !c.has(lines) })
		tab := tableOf(append(columns, others...), lines, places, len(t.Ranked)+len(t.Unranked)).Right(2)
		suffix, selectorNotes := v.selectorRecall(t.Common)
		v.add(tab, view.title+suffix, labels, slices.Concat(t.Notes, timeNotes, selectorNotes)...)
		return
	}
	columns = append(columns, figureColumn(t.Key.Column, view.unit, lines, key))
	if t.Intervals() {
		u := view.unit.column(figuresOf(lines, key))
		columns = append(columns, column{"95 %", func(l *board.Line) string { return u.interval(key(l)) }})
	}
	for _, i := range shown {
		at := func(l *board.Line) *board.Figure {
			if l.Capacities[i] == nil {
				return nil
			}
			return t.Key.Of(l.Capacities[i])
		}
		columns = append(columns, figureColumn("at "+t.Capacities[i], view.unit, lines, at))
	}
	columns = append(columns, view.others(v, t)...)
	tab := tableOf(columns, lines, places, len(t.Ranked)+len(t.Unranked))
	suffix, selectorNotes := v.selectorRecall(t.Common)
	notes := slices.Concat(t.Notes, columnNotes(t.Capacities, shown), timeNotes, selectorNotes)
	v.add(tab, view.title+suffix, labels, notes...)
}

// intervalColumn is figureColumn with the interval behind each figure.
func intervalColumn(header string, u unit, lines []board.Line, figure func(*board.Line) *board.Figure) column {
	figures, texts := make([]*board.Figure, len(lines)), map[*board.Line]string{}
	for i := range lines {
		figures[i] = figure(&lines[i])
	}
	header, shown := withInterval(header, u, figures)
	for i := range lines {
		texts[&lines[i]] = shown[i]
	}
	return column{header, func(l *board.Line) string { return texts[l] }}
}

// tableOf makes a table of lines. Columns from index figures on are right-aligned. If rule is above 0, a
// rule precedes that line.
func tableOf(columns []column, lines []board.Line, figures, rule int) *table.Table {
	t := table.New(slice.Map(columns, func(c column) string { return c.header })...).RightFrom(figures)
	for i := range lines {
		if i > 0 && i == rule {
			t.Line()
		}
		t.AddTexts(slice.Map(columns, func(c column) string { return c.text(&lines[i]) }))
	}
	return t
}

// rankText is "bound" for a policy that bounds the others. For a policy without a rank it is – if the policy
// has figures, and n/a if it has none.
func rankText(t *board.Ranking, l *board.Line) string {
	switch {
	case !t.BoundsNothing() && slices.ContainsFunc(t.Bounds, func(bound board.Line) bool { return bound.Policy == l.Policy }):
		return "bound"
	case l.Rank != "":
		return l.Rank
	case l.Pooled != nil:
		return "–"
	}
	return notAvailable
}

// byTrace lays out × OPT by trace, over the capacities of each.
func (v *boardView) byTrace(t *board.Ranking) {
	lines := t.Lines()
	columns := []column{{"policy", func(l *board.Line) string { return v.policy(l.Policy, nil) }}}
	for i, trace := range t.Traces {
		on := func(l *board.Line) *board.Figure {
			if l.Traces[i] == nil {
				return nil
			}
			return l.Traces[i].XOpt
		}
		columns = append(columns, figureColumn(v.shortTraceName(trace), ratioUnit, lines, on))
	}
	v.add(tableOf(columns, lines, 1, 0), "Exact policies by trace: × OPT over all capacities", v.Labels, t.TraceNotes()...)
}

// trace lays out × OPT, and the recall of lossy policies, over the capacities of a trace.
func (v *boardView) trace(info *board.TraceInfo) {
	of := func(cells []board.CellLine) []board.CellLine {
		return slice.Filter(cells, func(c board.CellLine) bool { return c.Trace == info.Trace })
	}
	for i := range v.Tables {
		t := &v.Tables[i]
		onlyBounds := len(t.Ranked)+len(t.Unranked) == 0
		var policies, capacities []string
		policies = slice.Map(t.Lines(), func(l board.Line) string { return l.Policy })
		cells := of(v.Cells)
		for _, c := range cells {
			if !c.Bound || onlyBounds {
				capacities = append(capacities, c.Capacity)
			}
		}
		texts := func(f *board.Figures) (key, other string) {
			if f.OptMisses != nil && *f.OptMisses == 0 {
				return "OPT 0", percentUnit.cell(f.HitRate)
			}
			return timesWithInterval(f.XOpt), percentUnit.cell(f.HitRate)
		}
		v.traceTable(info, "Exact policies on %s: × OPT", "hit rate", cells, policies, capacities, texts)
	}
	if v.Lossy != nil {
		var policies, capacities []string
		cells := of(v.Lossy.Cells)
		for _, c := range cells {
			policies, capacities = append(policies, c.Policy), append(capacities, c.Capacity)
		}
		texts := func(f *board.Figures) (key, other string) { return percentUnit.cell(f.Recall), shareText(f.MassKept) }
		v.traceTable(info, "Lossy methods on %s: recall", "mass kept", cells, text.Union(policies), capacities, texts)
	}
}

// traceTable shows two figures of every policy at each capacity. It shows nothing if there are
// none.
func (v *boardView) traceTable(info *board.TraceInfo, title, other string, cells []board.CellLine,
	policies, capacities []string, texts func(*board.Figures) (key, other string)) {
	capacities = result.SortCapacities(capacities)
	if capacities == nil {
		return
	}
	shown := shownCapacities(capacities)
	header := []string{"policy"}
	for _, i := range shown {
		header = append(header, "at "+capacities[i], other)
	}
	tab := table.New(header...).RightFrom(1)
	for _, p := range policies {
		row := []string{v.policy(p, nil)}
		for _, i := range shown {
			at := slices.IndexFunc(cells, func(c board.CellLine) bool { return c.Policy == p && c.Capacity == capacities[i] })
			if at < 0 {
				row = append(row, notAvailable, notAvailable)
				continue
			}
			key, second := texts(cells[at].Figures)
			row = append(row, key+v.marks.text(cells[at].Notes), second)
		}
		tab.AddTexts(row)
	}
	v.add(tab, fmt.Sprintf(title, nameBeside(v.Board, nil, info.Trace)), info.Labels, columnNotes(capacities, shown)...)
}
