package result

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
)

// Incomplete describes results that lack requested cells, as after a stopped replay.
type Incomplete struct {
	// Traces is the number of requested traces. Complete is the number of those with rows of all their
	// cells.
	Traces   int `json:"traces"`
	Complete int `json:"complete"`
	// Missing are the traces that lack cells, by name.
	Missing []MissingCells `json:"missing"`
}

// MissingCells is the number of requested cells of a trace, and the number of those without rows.
type MissingCells struct {
	Trace       string `json:"trace"`
	TraceDigest string `json:"trace_digest"`
	Asked       int    `json:"asked"`
	Missing     int    `json:"missing"`
}

// FindIncomplete compares rows with the requested cells. Each requested cell is given as one of its
// rows, whose counts do not matter. A row of another engine or of a changed policy does not count
// for the cell. Only cells that where can select matter. Its conditions on parts of a cell and on
// counts are ignored. If no cell is missing, the result is nil.
func FindIncomplete(asked, rows []Row, where Where) *Incomplete {
	made := map[string]bool{}
	for i := range rows {
		made[rows[i].CellID()+rows[i].version()] = true
	}
	where = Where{slices.DeleteFunc(slices.Clone(where.conditions), func(c condition) bool { return !c.field.ofCell() })}
	var of []MissingCells
	at := map[[2]string]int{}
	for i := range asked {
		r := &asked[i]
		if !where.Selects(r) {
			continue
		}
		key := [2]string{r.Trace, r.TraceDigest}
		n, ok := at[key]
		if !ok {
			n, at[key] = len(of), len(of)
			of = append(of, MissingCells{Trace: r.Trace, TraceDigest: r.TraceDigest})
		}
		of[n].Asked++
		if !made[r.CellID()+r.version()] {
			of[n].Missing++
		}
	}
	missing := slices.DeleteFunc(slices.Clone(of), func(m MissingCells) bool { return m.Missing == 0 })
	if len(missing) == 0 {
		return nil
	}
	slice.Sort(missing, func(a, b MissingCells) int {
		return strings.Compare(a.Trace+"\x00"+a.TraceDigest, b.Trace+"\x00"+b.TraceDigest)
	})
	return &Incomplete{len(of), len(of) - len(missing), missing}
}

// WithoutOutdated leaves out outdated rows. They are of requested cells, but of another engine or
// of a changed policy, and the cell has no newer rows. The stopped run would have replaced their
// counts.
func WithoutOutdated(asked, rows []Row) []Row {
	made, outdated := map[string]bool{}, map[string]bool{}
	for i := range rows {
		made[rows[i].CellID()+rows[i].version()] = true
	}
	for i := range asked {
		id := asked[i].CellID()
		outdated[id] = !made[id+asked[i].version()]
	}
	if !slices.Contains(slices.Collect(maps.Values(outdated)), true) {
		return rows
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return outdated[r.CellID()] })
}

// Shares returns "2 of 27 traces", empty if nothing is missing.
func (i *Incomplete) Shares() string {
	if i == nil {
		return ""
	}
	return fmt.Sprintf("%d of %s", i.Complete, text.Count(i.Traces, "trace"))
}

// mark returns "INCOMPLETE: 2 of 27 traces", with which every title begins. It is empty if nothing
// is missing.
func (i *Incomplete) mark() string {
	if i == nil {
		return ""
	}
	return "INCOMPLETE: " + i.Shares()
}

// Titled puts the mark before a title.
func (i *Incomplete) Titled(title string) string {
	if i == nil {
		return title
	}
	return i.mark() + ". " + title
}

// Error names the traces that lack cells, and the remedy.
func (i *Incomplete) Error() string {
	return fmt.Sprintf("%s. Missing: %s. Run the same replay command again, or leave traces out with --where %s",
		i.mark(), i.names(), printable.ShellWord("trace!="+i.Missing[0].Trace))
}

// Notes name the traces that lack cells.
func (i *Incomplete) Notes() []string {
	if i == nil {
		return nil
	}
	return []string{i.Error()}
}

// MostListed is the number of traces, or cells of one, that a note names.
const MostListed = 8

// names lists the first of the traces that lack cells, with the number of their missing cells.
func (i *Incomplete) names() string {
	var names []string
	for n, m := range i.Missing {
		if n == MostListed {
			names = append(names, fmt.Sprintf("and %d more", len(i.Missing)-n))
			break
		}
		name := m.Trace
		if slices.ContainsFunc(i.Missing, func(o MissingCells) bool { return o.Trace == m.Trace && o.TraceDigest != m.TraceDigest }) {
			name += " (" + ShortDigest(m.TraceDigest) + ")"
		}
		if m.Missing < m.Asked {
			name += fmt.Sprintf(" (%d of %s)", m.Missing, text.Count(m.Asked, "cell"))
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// ShortDigest returns the beginning of a digest, which suffices to distinguish traces.
func ShortDigest(digest string) string {
	_, hex, found := strings.Cut(digest, ":")
	if !found {
		hex = digest
	}
	return hex[:min(len(hex), 12)]
}
