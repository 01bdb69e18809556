package plan

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// Version is the version of a Plan's JSON form. Version 1 was a list of candidates.
const Version = 2

// Plan is the result of Search.
type Plan struct {
	// Version is the constant Version.
	Version int    `json:"plan_version"`
	Machine string `json:"machine"`
	Model   string `json:"model"`
	Steps   int    `json:"steps"`
	// SLO is the longest TPOT in seconds, or null without one.
	SLO *float64 `json:"slo_s"`
	// Labels are the conditions that limit the candidates. A condition of only some candidates
	// states their share.
	Labels result.Labels `json:"labels"`
	// TieShare is the share of tokens/s below which candidates always tie.
	TieShare float64 `json:"tie_share"`
	// Candidates are grouped by the model that they serve, with oracles last. In a group the most
	// tokens/s come first. Only candidates of one group are ranked against each other.
	Candidates []Candidate `json:"candidates"`
	// Dropped are the cells and schedules without a candidate.
	Dropped []Dropped `json:"dropped"`
}

// servesOrder is the order of groups.
var servesOrder = []schedule.Serves{schedule.SparseTopK, schedule.LossyTopK, schedule.Compressed, schedule.DenseAttended, schedule.Quantized}

// planned orders candidates by group and by falling tokens/s. Among equals, less memory comes
// first. It keeps the first cell of each schedule, unless every cell is requested, and ranks them.
func (o *Options) planned(found []Candidate, dropped []Dropped) *Plan {
	slices.SortStableFunc(found, func(a, b Candidate) int {
		return cmp.Or(compareGroups(&a, &b), -cmp.Compare(a.Tokens, b.Tokens), cmp.Compare(a.Memory.GPU, b.Memory.GPU))
	})
	if !o.EveryCell {
		found = bestCells(found)
	}
	rank(found)
	p := &Plan{Version: Version, Machine: found[0].Machine, Model: found[0].Model, Steps: found[0].Steps, TieShare: pipeline.TieShare,
		Labels: pipeline.SharedLabels(resultsOf(found)), Candidates: found, Dropped: dropped}
	if o.SLO > 0 {
		p.SLO = &o.SLO
	}
	return p
}

func sameGroup(a, b Candidate) bool { return compareGroups(&a, &b) == 0 }

func compareGroups(a, b *Candidate) int {
	place := func(c *Candidate) int {
		if c.Oracle { // oracles are listed together
			return len(servesOrder)
		}
		return slices.Index(servesOrder, c.Serves)
	}
	return place(a) - place(b)
}

// ties reports whether the errors of the model may hide that best is faster than c. An error of a
// submodel that moves both alike hides nothing.
func (c *Candidate) ties(best *Candidate) bool {
	return best.Interval.Hides(&c.Interval, best.Tokens, c.Tokens)
}

// bestCells keeps the first candidate of each schedule and group, with the cells that tie with it.
func bestCells(found []Candidate) (kept []Candidate) {
	for i := range found {
		c := &found[i]
		at := slices.IndexFunc(kept, func(k Candidate) bool { return k.asked == c.asked && sameGroup(k, *c) })
		switch {
		case at < 0:
			kept = append(kept, *c)
		case c.ties(&kept[at]):
			kept[at].Ties = append(kept[at].Ties, c.Cell)
		}
	}
	return kept
}

// rank numbers the candidates of each group, and sorts them by rank. Oracles have no number.
func rank(found []Candidate) {
	for _, group := range slice.Runs(found, sameGroup) {
		order, places := pipeline.Places(len(group), func(first, later int) bool { return group[later].ties(&group[first]) })
		sorted := slice.Map(order, func(i int) Candidate { return group[i] })
		for i := range sorted {
			c := &sorted[i]
			if c.Ties == nil {
				c.Ties = []pipeline.Cell{}
			}
			if !c.Oracle {
				c.Rank = places[i]
			}
		}
		copy(group, sorted)
	}
}

func resultsOf(cs []Candidate) (results []*pipeline.Result) {
	return slice.Map(cs, func(x Candidate) *pipeline.Result { return x.Result })
}

// WriteJSON writes the plan as JSON.
func (p *Plan) WriteJSON(w io.Writer) error { return text.WriteJSON(w, p) }

// WriteTable writes a table for each group. Notes follow, and then the schedules and policies
// without a candidate.
func (p *Plan) WriteTable(w io.Writer) error {
	r := &table.Report{Footnotes: pipeline.Notes(resultsOf(p.Candidates))}
	for _, group := range slice.Runs(p.Candidates, sameGroup) {
		r.Tables = append(r.Tables, p.table(group))
	}
	for _, line := range p.droppedLines() {
		r.Footnotes = append(r.Footnotes, "dropped: "+line)
	}
	return r.Text(w)
}

func (c *Candidate) heading() string {
	switch {
	case c.Oracle:
		return "oracles know more than a real system: not ranked"
	case c.Serves == schedule.SparseTopK:
		return string(c.Serves)
	case c.Serves == schedule.LossyTopK:
		return string(c.Serves) + ": ranked apart"
	}
	return string(c.Serves) + ", which is not Top-K attention: ranked apart"
}

// table returns the table of a group of candidates.
func (p *Plan) table(g []Candidate) *table.Table {
	labels := pipeline.SharedLabels(resultsOf(g))
	t := table.New("#", "schedule", "policy", "capacity", "batch", "cache ratio", "that fills", "TPOT", "tokens/s", "GPU memory", "bound by").Right(4, 5, 6, 7, 8, 9)
	t.Title = labels.Title(fmt.Sprintf("%s on %s, %d steps: %s", p.Model, p.Machine, p.Steps, g[0].heading()))
	tied := false
	for _, c := range g {
		tied = tied || strings.HasSuffix(c.Rank, "=")
		t.Add(cmp.Or(c.Rank, "-"), c.ScheduleText(labels), cmp.Or(c.Policy, "-"), cmp.Or(c.Capacity, "-"), c.Batch,
			ratio(c.Ratio), ratio(c.Fill), fmt.Sprintf("%s ±%.0f %%", hardware.Seconds(digits(c.TPOT)), 100*c.HalfWidth()), strconv.FormatFloat(digits(c.Tokens), 'f', -1, 64), hardware.Bytes(digits(c.Memory.GPU)), c.Binding)
	}
	if tied {
		t.Notes = append(t.Notes, "=: a tie: the errors of the model exceed the difference to the first line of the rank")
	}
	for _, c := range g {
		if len(c.Ties) > 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("%s: %s %s with %s", c.Schedule, cellList(c.Ties), english.PluralWord(len(c.Ties), "ties", "tie"), c.Cell))
		}
	}
	return t
}

// mostCells is how many cells a line names.
const mostCells = 4

// cellList names the first of several cells.
func cellList(cells []pipeline.Cell) string {
	var names []string
	for i, c := range cells {
		if i == mostCells {
			return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), len(cells)-i)
		}
		names = append(names, c.String())
	}
	return strings.Join(names, ", ")
}

// droppedLines returns a line for each schedule and constraint that was dropped, with the reason of
// the cell that came nearest.
func (p *Plan) droppedLines() (lines []string) {
	type key struct {
		schedule, policy string
		binding          Binding
	}
	groups := slice.Group(p.Dropped, func(d *Dropped) key {
		if d.Schedule == "" {
			return key{"", d.Policy, d.Binding}
		}
		return key{d.Schedule, "", d.Binding}
	})
	for _, group := range groups {
		nearest := slices.MinFunc(group, func(a, b Dropped) int {
			if a.FastestTPOT == nil || b.FastestTPOT == nil {
				return 0
			}
			return cmp.Compare(*a.FastestTPOT, *b.FastestTPOT)
		})
		var cells []pipeline.Cell
		for _, d := range group {
			if d.Cell != (pipeline.Cell{}) {
				cells = append(cells, d.Cell)
			}
		}
		name := nearest.Schedule
		if len(cells) > 0 {
			name = strings.TrimPrefix(name+" with "+cellList(cells), " with ")
		}
		if len(cells) > 1 {
			nearest.Reason += " (" + nearest.Cell.String() + ")"
		}
		lines = append(lines, name+": "+nearest.Reason)
	}
	return lines
}

// planDigits is the number of significant digits in a plan's table.
const planDigits = 3

func digits(v float64) float64 { return text.Round(v, planDigits) }

// ratio formats a share, "-" if it is nil.
func ratio(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *v)
}
