package render

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/metrics/board"
)

// mostNotes is the number of notes below a table unless the View has all.
const mostNotes = 6

// View chooses how much of a board or of a comparison is shown. The zero value fits a terminal
// of 100 columns: it has the main columns, and the first sentences of the notes.
type View struct {
	// Wide adds the columns of capacities and the tables of traces.
	Wide bool
	// PerTrace adds a table for every trace.
	PerTrace bool
	// Notes shows all notes in full.
	Notes bool
	// Fixed leaves out the names of flags that show the rest, for commands without these flags.
	Fixed bool
	// Defaults returns a policy with its default options by its name: "lrfu:gamma=0.95" for
	// "lrfu". Narrow tables leave these options out. If it is nil, they show all options.
	Defaults func(name string) string
}

// Whole is the view of documents: everything but the tables for every trace.
var Whole = View{Wide: true, Notes: true}

// report begins a report, whose tables fit into a terminal unless the view is wide.
func (v View) report(title string) *table.Report {
	return &table.Report{Title: title, Wide: v.Wide}
}

// notes are the notes to show. A brief view has the first sentences of at most a number of them.
func (v View) notes(notes []string, most int) []string {
	if v.Notes {
		return notes
	}
	var shown []string
	for i, n := range notes {
		if len(shown) == most-1 && len(notes) > most {
			return append(shown, fmt.Sprintf("… and %d more notes: --notes", len(notes)-i))
		}
		shown = append(shown, firstSentences(n, table.Columns-len("    ")))
	}
	return shown
}

// firstSentences shortens a note to the first sentences that fit into a width. If the first one
// does not fit, it ends in "…" behind a whole word.
func firstSentences(note string, most int) string {
	shown := ""
	for sentence := range strings.SplitSeq(note, ". ") {
		longer := strings.TrimPrefix(shown+". "+sentence, ". ")
		switch {
		case utf8.RuneCountInString(longer) <= most:
			shown = longer
		case shown == "":
			return table.Wrap(sentence, most-len(" …"))[0] + " …"
		default:
			return shown
		}
	}
	return shown
}

// footnotes are the notes below the last table. The last of them names the flags that show the
// rest.
func (v View) footnotes(notes []string, flags string) []string {
	if v.Wide && v.Notes {
		return notes
	}
	shown := v.notes(notes, mostNotes-1)
	if v.Fixed {
		return shown
	}
	return append(shown, "more: "+flags)
}

// PolicyNames maps policies to the names that the view shows. In a narrow one default options
// are left out. Two policies never share a name.
func (v View) PolicyNames(policies []string) map[string]string {
	names, times := map[string]string{}, map[string]int{}
	for _, p := range policies {
		if names[p] == "" {
			names[p] = v.withoutDefaults(p)
			times[names[p]]++
		}
	}
	for p, name := range names {
		if times[name] > 1 {
			names[p] = p
		}
	}
	return names
}

// withoutDefaults is a policy without the options, KEY=VALUE, that are defaults.
func (v View) withoutDefaults(policy string) string {
	name, options, _ := strings.Cut(policy, ":")
	if v.Wide || v.Defaults == nil {
		return policy
	}
	_, usual, _ := strings.Cut(v.Defaults(name), ":")
	own := slices.DeleteFunc(strings.Split(options, ","), func(o string) bool {
		return strings.Contains(o, "=") && slices.Contains(strings.Split(usual, ","), o)
	})
	return strings.TrimSuffix(name+":"+strings.Join(own, ","), ":")
}

// withInterval are the texts of figures with their intervals, "1.57 [1.55, 1.60]", lined up,
// and the header of their column.
func withInterval(header string, u unit, figures []*board.Figure) (string, []string) {
	u = u.column(figures)
	values, intervals := make([]string, len(figures)), make([]string, len(figures))
	widest, widestInterval := 0, 0
	for i, f := range figures {
		values[i] = u.cell(f)
		if f.Bounded() {
			intervals[i] = u.interval(f)
		}
		widest = max(widest, utf8.RuneCountInString(values[i]))
		widestInterval = max(widestInterval, utf8.RuneCountInString(intervals[i]))
	}
	if widestInterval == 0 {
		return header, values
	}
	texts := make([]string, len(figures))
	for i := range figures {
		texts[i] = fmt.Sprintf("%*s %-*s", widest, values[i], widestInterval, intervals[i])
	}
	return header + " [95 %]", texts
}
