package render

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/optional"
	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// Limits of a summary. In addition to the policies it has two lines of header and two of notes. A
// warning takes the line of a policy.
const (
	summaryPolicies   = 6
	summaryCapacities = 5
)

// Summary prints the rows of a run in ten lines: the optimum and the best policies, with
// hit rate and × OPT at some capacities. Requests, layers and traces are pooled. Tiers below
// the GPU's cache are not shown.
func Summary(w io.Writer, rows []result.Row) error {
	s := summary{cells: map[summaryKey]*summaryCell{}}
	for i := range rows {
		if err := rows[i].Check(); err != nil {
			return fmt.Errorf("summarise rows: row %d: %w", i+1, err)
		}
		s.add(&rows[i])
	}
	_, err := io.WriteString(w, printable.Text(s.text(rows)))
	return err
}

// noCapacity is the column of policies without capacity.
const noCapacity = ""

type summaryKey struct{ policy, capacity string }

// summaryCell is a policy at a capacity, with the rows of all traces pooled.
type summaryCell struct {
	demand, hits, misses, lost int64
	traces                     []string // digests
}

// summary gathers the cells of a run.
type summary struct {
	cells      map[summaryKey]*summaryCell
	policies   []*result.Row   // a row of each
	capacities []string        // in columns, noCapacity last
	traces     []string        // digests
	labels     []result.Labels // of each trace
	unbound    bool            // by OPT
	tiers      bool            // below the GPU's cache
}

func (s *summary) add(r *result.Row) {
	if !slices.Contains(s.traces, r.TraceDigest) {
		s.labels = append(s.labels, r.TraceLabels())
	}
	s.traces = text.Union(s.traces, r.TraceDigest)
	s.unbound = s.unbound || r.Unbound() != ""
	s.tiers = s.tiers || r.Tier > 0
	if r.Tier > 0 {
		return
	}
	capacity := optional.Or(r.Capacity, noCapacity)
	if !strings.HasPrefix(capacity, result.PeakPrefix) {
		s.capacities = text.Union(s.capacities, capacity)
		if !slices.ContainsFunc(s.policies, func(p *result.Row) bool { return p.Policy == r.Policy }) {
			s.policies = append(s.policies, r)
		}
	}
	key := summaryKey{r.Policy, capacity}
	c := s.cells[key]
	if c == nil {
		c = new(summaryCell)
		s.cells[key] = c
	}
	c.demand, c.hits, c.misses, c.lost = c.demand+r.Demand, c.hits+r.Hits, c.misses+r.Misses, c.lost+r.Lost
	c.traces = text.Union(c.traces, r.TraceDigest)
}

// at returns the cell of a policy if it ran on every trace, otherwise nil. Cells of other traces
// cannot be compared.
func (s *summary) at(policy, capacity string) *summaryCell {
	if c := s.cells[summaryKey{policy, capacity}]; c != nil && len(c.traces) == len(s.traces) {
		return c
	}
	return nil
}

// misses returns those of a policy at all capacities with a size, and whether it has them all.
func (s *summary) misses(policy string) (n int64, all bool) {
	all = true
	for _, capacity := range s.capacities {
		if c := s.at(policy, capacity); c != nil && capacity != noCapacity {
			n += c.misses + c.lost
		} else if capacity != noCapacity {
			all = false
		}
	}
	return n, all
}

// group returns a policy's place in the order: the optimum, contenders, other bounds, those without
// some cell or without capacity, lossy ones.
func (s *summary) group(r *result.Row) int {
	_, all := s.misses(r.Policy)
	switch {
	case r.Lossy:
		return 4
	case r.Policy == board.OptPolicy:
		return 0
	case r.Capacity == nil || !all:
		return 3
	case r.Offline:
		return 2
	}
	return 1
}

// order sorts the policies, best first, and returns those to show. LRU is shown if it ran.
func (s *summary) order(most int) []*result.Row {
	slices.SortStableFunc(s.policies, func(a, b *result.Row) int {
		m, _ := s.misses(a.Policy)
		n, _ := s.misses(b.Policy)
		return cmp.Or(cmp.Compare(s.group(a), s.group(b)), cmp.Compare(m, n))
	})
	shown := slices.Clone(s.policies[:min(len(s.policies), most)])
	lru := slices.IndexFunc(s.policies, func(r *result.Row) bool { return r.Policy == "lru" })
	if lru >= len(shown) {
		shown[len(shown)-1] = s.policies[lru]
	}
	return shown
}

// columns returns the capacities to show: a few, from the smallest to the largest, and noCapacity
// if a shown policy has none.
func (s *summary) columns(shown []*result.Row) (columns []string) {
	sized := result.SortCapacities(slice.Filter(s.capacities, func(c string) bool { return c != noCapacity }))
	for i := range min(len(sized), summaryCapacities) {
		at := i
		if len(sized) > summaryCapacities {
			at = i * (len(sized) - 1) / (summaryCapacities - 1)
		}
		columns = append(columns, sized[at])
	}
	if slices.ContainsFunc(shown, func(r *result.Row) bool { return r.Capacity == nil }) {
		columns = append(columns, noCapacity)
	}
	return columns
}

func (s *summary) text(rows []result.Row) string {
	warnings, _ := rowNotes(rows)
	most := summaryPolicies
	if len(warnings) > 0 {
		most--
	}
	shown := s.order(most)
	columns := s.columns(shown)
	header := []string{"policy", "misses"}
	if slices.ContainsFunc(shown, func(r *result.Row) bool { return r.Lossy }) {
		header[1] = "misses or lost"
	}
	for _, capacity := range columns {
		header = append(header, cmp.Or(capacity, "no capacity"))
	}
	t := table.New(header...).RightFrom(1)
	for _, r := range shown {
		line := []string{s.name(r), s.missesText(r)}
		for _, capacity := range columns {
			line = append(line, s.cellText(r, capacity))
		}
		t.AddTexts(line)
	}
	return t.Text() + s.legend(shown) + warningText(warnings) + s.rest(rows, shown)
}

// name returns the policy without options, if no other policy of the run has that name.
func (s *summary) name(r *result.Row) string {
	name, _, _ := strings.Cut(r.Policy, ":")
	same := slice.Count(s.policies, func(p *result.Row) bool { return p.Policy == name || strings.HasPrefix(p.Policy, name+":") })
	if same > 1 || name == "window" {
		return r.Policy
	}
	return name
}

// missesText returns the misses at all capacities. A policy without capacity has a sum only if it is
// comparable: if no policy has more than one cell.
func (s *summary) missesText(r *result.Row) string {
	n, all := s.misses(r.Policy)
	if c := s.at(r.Policy, noCapacity); c != nil {
		sized := slice.Count(s.capacities, func(c string) bool { return c != noCapacity })
		n, all = c.misses+c.lost, sized <= 1
	}
	if !all {
		return "–"
	}
	return fmt.Sprint(n)
}

// cellText returns the hit rate and × OPT. A lossy policy has no misses: its hit rate is recall. A
// policy without capacity is compared with OPT at its largest size.
func (s *summary) cellText(r *result.Row, capacity string) string {
	c := s.at(r.Policy, capacity)
	if c == nil {
		return "–"
	}
	cell := percent(text.Ratio(c.hits, c.demand))
	if capacity == noCapacity {
		capacity = result.PeakPrefix + r.Policy
	}
	if opt := s.at(board.OptPolicy, capacity); opt != nil && opt.misses > 0 && !r.Lossy && !s.unbound {
		cell += fmt.Sprintf(" %6s", fmt.Sprintf("%.2f×", text.Ratio(c.misses, opt.misses)))
	}
	return cell
}

// legend explains the figures. The conditions that limit them come first.
func (s *summary) legend(shown []*result.Row) string {
	text := "hit rate"
	if slices.ContainsFunc(shown, func(r *result.Row) bool { return r.Policy == board.OptPolicy }) && !s.unbound {
		text += " and misses ÷ OPT's (×)"
	}
	text += " at each capacity; misses: summed"
	if slices.Contains(s.capacities, noCapacity) && !s.unbound {
		text += "; no capacity: ÷ OPT at the peak size"
	}
	if slices.ContainsFunc(shown, func(r *result.Row) bool { return r.Lossy }) {
		text += "; of lossy policies: recall, lost blocks"
	}
	if s.tiers {
		text += "; of the GPU's cache alone"
	}
	if n := len(s.traces); n > 1 {
		text += fmt.Sprintf("; %d traces pooled", n)
	}
	return result.SharedLabels(s.labels, "traces").Title(text) + "\n"
}

// warningText returns the first warning and the number of others, empty without warnings.
func warningText(warnings []string) string {
	switch n := len(warnings); n {
	case 0:
		return ""
	case 1:
		return "warning: " + warnings[0] + "\n"
	default:
		return fmt.Sprintf("warning: %s (and %d more)\n", warnings[0], n-1)
	}
}

// rest says how to see everything.
func (s *summary) rest(rows []result.Row, shown []*result.Row) string {
	text := fmt.Sprintf("all %d rows", len(rows))
	if len(rows) == 1 {
		text = "the row"
	}
	switch n := len(s.policies) - len(shown); n {
	case 0:
	case 1:
		text += ", with 1 more policy"
	default:
		text += fmt.Sprintf(", with %d more policies", n)
	}
	return text + ": --format table; for a leaderboard: --out FOLDER\n"
}
