package reproduce

import (
	"fmt"
	"slices"
	"strings"
)

// Gap is a figure, a table or a passage of a paper for which no line exists.
type Gap struct {
	Place  string   // "Fig. 14", "Fig. 7, second row", "Table 2", "Section 6.2"
	Shows  string   // what the paper shows there, in a few words
	Prints []string // numbers that the text prints about it and no line holds, as printed
	Why    string   // why no line exists
}

// names reports whether a place such as "Fig. 1b" or "Fig. 1, second row" is part of a
// figure or table such as "Fig. 1".
func names(place, figure string) bool {
	rest, ok := strings.CutPrefix(place, figure)
	return ok && (rest == "" || rest[0] < '0' || rest[0] > '9')
}

// account checks that each figure and table of a paper has a section or is listed as a gap.
func (p *Paper) account(sections []Section) error {
	var places []string
	for _, s := range sections {
		places = append(places, s.Covers...)
	}
	for _, g := range p.Gaps {
		if g.Place == "" || g.Shows == "" || g.Why == "" {
			return fmt.Errorf("reproduce %s: gap %q lacks a place, a description or a reason", p.Name, g.Place)
		}
		places = append(places, g.Place)
	}
	for _, numbered := range []struct {
		prefix string
		last   int
	}{{"Fig.", p.Figures}, {"Table", p.Tables}} {
		for n := range numbered.last {
			figure := fmt.Sprintf("%s %d", numbered.prefix, n+1)
			if !slices.ContainsFunc(places, func(place string) bool { return names(place, figure) }) {
				return fmt.Errorf("reproduce %s: %s has neither a section nor a gap that names it", p.Name, figure)
			}
		}
	}
	return nil
}

// text is the gap as a sentence.
func (g *Gap) text() string {
	text := g.Place + ": " + g.Shows
	if len(g.Prints) > 0 {
		text += fmt.Sprintf(" (%d printed: %s)", len(g.Prints), strings.Join(g.Prints, ", "))
	}
	return text + ". " + upper(g.Why) + "."
}

// upper returns the text with a capital first letter.
func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// printed counts the numbers that the gaps list.
func printed(gaps []Gap) (n int) {
	for i := range gaps {
		n += len(gaps[i].Prints)
	}
	return n
}
