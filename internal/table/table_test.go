package table

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

func TestRenderings(t *testing.T) {
	tab := New("name", "what", "n").Right(2).Wrap(1, 10)
	tab.Add("a|b", "two words, three", 1)
	tab.Line()
	tab.Add("=1+1", "`a`", "×10")
	tab.Add("more")
	tab.Line()
	var csv, text, markdown strings.Builder
	fatal.If(t, tab.CSV(&csv))
	if raw := tab.RawMarkdown(); !strings.Contains(raw, "| =1+1 | `a` | ×10 |") {
		t.Errorf("raw Markdown:\n%s", raw)
	}
	tab.Title, tab.Notes = "Title", []string{"note"}
	r := Report{Title: "Report", Tables: []*Table{tab, {Title: "No table", Notes: []string{"why"}}}, Footnotes: []string{"1 foot"}}
	fatal.If(t, r.Text(&text))
	fatal.If(t, r.Markdown(&markdown))
	for what, got := range map[string][2]string{
		"text": {text.String(), `Title
 name  what          n
───────────────────────
 a|b   two words,    1
       three
───────────────────────
 =1+1  ` + "`a`" + `         ×10
 more
  note

No table
  why

1 foot
`},
		"markdown": {markdown.String(), `# Report

## Title

| name | what | n |
| --- | --- | ---:|
| a\|b | two words, three | 1 |
| =1+1 | ` + "\\`a\\`" + ` | ×10 |
| more |  |  |

- note

## No table

- why

## Footnotes

- 1 foot
`},
		"csv": {csv.String(), "name,what,n\na|b,\"two words, three\",1\n'=1+1,`a`,×10\nmore\n"},
	} {
		if got[0] != got[1] {
			t.Errorf("%s:\n%s\nexpected\n%s", what, got[0], got[1])
		}
	}
}

// Fit cuts names in the middle. Different names stay different.
func TestFit(t *testing.T) {
	for most, want := range map[int]string{
		60: " near-lrfu:gamma=0.97  1\n near-lrfu:gamma=0.5   2\n",
		17: " near-lrf….97  1\n near-lrf…0.5  2\n",
		5:  " ne…7  1\n ne…5  2\n",
	} {
		tab := New("name", "n")
		tab.Add("near-lrfu:gamma=0.97", 1)
		tab.Add("near-lrfu:gamma=0.5", 2)
		_, got, _ := strings.Cut(tab.Fit(most, 0).Text(), "─\n")
		if got != want {
			t.Errorf("%d columns:\n%s\nexpected\n%s", most, got, want)
		}
	}
}
