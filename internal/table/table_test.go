package table

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// Values have the same texts as in other programs' CSV, and absent ones none.
func TestAdd(t *testing.T) {
	var csv strings.Builder
	tab := New("a", "b", "c", "d", "e", "f")
	tab.Add(0.1, new(1e-9), new(int64(3)), (*float64)(nil), nil, true)
	tab.Add(NonZero(0), NonZero(0.0), NonZero(2), (*int64)(nil), (*int)(nil), new(4))
	fatal.If(t, tab.CSV(&csv))
	if want := "a,b,c,d,e,f\n0.1,1e-09,3,,,true\n,,2,,,4\n"; csv.String() != want {
		t.Errorf("%q, expected %q", csv.String(), want)
	}
}

func TestRenderings(t *testing.T) {
	tab := New("name", "what", "n").Right(2)
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
 name  what                n
─────────────────────────────
 a|b   two words, three    1
─────────────────────────────
 =1+1  ` + "`a`" + `               ×10
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

// A table that is too wide breaks headers first, then texts. Columns that still do not fit follow
// below, next to the columns that name the rows. Every cell is shown, and figures stay whole.
func TestTextFits(t *testing.T) {
	texts := New("name", "error beyond the clock", "remark").Right(1)
	texts.Add("a", "12.5 ms", strings.Repeat("word ", 30)+"one,two,"+strings.Repeat("three,", 20))
	figures := New("machine", "schedule")
	for range 12 {
		figures.Header = append(figures.Header, "tokens/s/request")
	}
	figures.RightFrom(2)
	for _, name := range []string{"first", "second"} {
		row := []string{name, "sequential"}
		for c := range 12 {
			row = append(row, strings.Repeat("1", c+1)+" ms")
		}
		figures.AddTexts(row)
	}
	for _, tab := range []*Table{texts, figures} {
		text := tab.Text()
		for line := range strings.Lines(text) {
			if width(line) > Columns {
				t.Errorf("a line is %d wide:\n%s", width(line), text)
			}
		}
		for _, row := range tab.rows {
			for c, cell := range row {
				if tab.right[c] && !strings.Contains(text, " "+cell) {
					t.Errorf("%q is broken or missing:\n%s", cell, text)
				}
			}
		}
	}
	if text := figures.Text(); strings.Count(text, "second") != strings.Count(text, "machine") || strings.Count(text, "second") < 2 {
		t.Errorf("parts without the names of rows:\n%s", text)
	}
	var wide strings.Builder
	fatal.If(t, (&Report{Tables: []*Table{texts}, Wide: true}).Text(&wide))
	if !strings.Contains(wide.String(), "word one,two,three,") {
		t.Errorf("a wide report breaks texts:\n%s", wide.String())
	}
}
