package cli_test

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Pages of papers quote replay/REPRODUCTION.md between marks: its count of each section, chosen lines,
// and the known misses with their reasons. -update copies them again, after TestReproductionIsCurrent.
func TestReproductionPages(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	pages, err := filepath.Glob("replay/reproduce/*/README.md")
	if err != nil || len(pages) < 3 {
		t.Fatalf("pages %v, %v", pages, err)
	}
	report := content(t, "replay/REPRODUCTION.md")
	for _, path := range pages {
		paper := filepath.Base(filepath.Dir(path))
		q := quotes{paper, reported(t, report)}
		rewrittenPart(t, path, "sections", q.sections(), "Reproduction")
		rewrittenPart(t, path, "misses", q.misses(), "Reproduction")
		rewrittenPart(t, path, "lines", q.lines(t, choices(t, path)), "Reproduction")
		for _, figure := range unquoted(content(t, path), partOf(t, report, paper)) {
			t.Errorf("%s: %q is not in the part of %s in replay/REPRODUCTION.md. Quote a line between the marks, or remove the figure", path, figure, paper)
		}
	}
}

// reportedLine is a line of a table in REPRODUCTION.md, its cells by the names of their columns. The
// first column of a section has no name.
type reportedLine struct {
	section string // its anchor
	cells   map[string]string
}

// reported returns the lines of all tables in a report. Those before the first section have the
// anchor "".
func reported(t *testing.T, report string) (list []reportedLine) {
	t.Helper()
	section, head := "", []string(nil)
	for line := range strings.Lines(report) {
		line = strings.TrimSuffix(line, "\n")
		if anchor, ok := strings.CutPrefix(line, `<a id="`); ok {
			section, _, _ = strings.Cut(anchor, `"`)
		}
		text, ok := strings.CutPrefix(line, "| ")
		if !ok {
			head = nil
			continue
		}
		cells := strings.Split(strings.TrimSuffix(text, " |"), " | ")
		switch {
		case head == nil:
			head = cells
		case !strings.HasPrefix(text, "---"):
			l := reportedLine{section, map[string]string{}}
			for i, name := range head {
				l.cells[name] = cells[i]
			}
			list = append(list, l)
		}
	}
	if len(list) == 0 {
		t.Fatal("replay/REPRODUCTION.md has no tables")
	}
	return list
}

// target is the number to compare ours with.
func (l *reportedLine) target() string {
	if reference := l.cells["reference"]; l.cells["printed"] == "–" && reference != "" {
		return reference
	}
	return l.cells["printed"]
}

// quotes are the tables of a report for the page of a paper.
type quotes struct {
	paper string
	all   []reportedLine
}

func (q quotes) link(section string) string {
	return fmt.Sprintf("[%s](../../REPRODUCTION.md#%s)", strings.TrimPrefix(section, q.paper+"-"), section)
}

// sections counts the lines of each section.
func (q quotes) sections() string {
	text := "| section | title | judged | within | known misses | fitted | not computable |\n| --- | --- | ---:| ---:| ---:| ---:| ---:|\n"
	title := regexp.MustCompile(`^\[(.*)\]\(#(.*)\)$`)
	for _, l := range q.all {
		if parts := title.FindStringSubmatch(l.cells["section"]); parts != nil && l.cells["paper"] == q.paper {
			text += fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s |\n", q.link(parts[2]), parts[1],
				l.cells["judged"], l.cells["within"], l.cells["known misses"], l.cells["fitted"], l.cells["not computable"])
		}
	}
	return text
}

// lines are chosen lines.
func (q quotes) lines(t *testing.T, choices []string) string {
	t.Helper()
	text := "| section | figure or statement | printed or reference | ours | gate | kind | result |\n| --- | --- | ---:| ---:| --- | --- | --- |\n"
	for _, choice := range choices {
		section, begins, _ := strings.Cut(choice, ": ")
		before := text
		for _, l := range q.all {
			if l.section == q.paper+"-"+section && strings.HasPrefix(l.cells[""], begins) {
				text += fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s |\n", q.link(l.section), l.cells[""], l.target(), l.cells["ours"], l.cells["gate"], l.cells["kind"], l.cells["result"])
			}
		}
		if text == before {
			t.Errorf("no line of section %s-%s begins with %q", q.paper, section, begins)
		}
	}
	return text
}

// misses has a row for each reason of known misses in a section. Its example is the miss with the
// largest error, or the first of statements.
func (q quotes) misses() string {
	type group struct {
		reportedLine
		n     int
		error float64
	}
	var groups []*group
	for _, l := range q.all {
		if l.cells["result"] != "known miss" || !strings.HasPrefix(l.section, q.paper+"-") {
			continue
		}
		i := slices.IndexFunc(groups, func(g *group) bool {
			return g.section == l.section && g.cells["note"] == l.cells["note"]
		})
		if i < 0 {
			i, groups = len(groups), append(groups, &group{reportedLine: l})
		}
		size, _ := strconv.ParseFloat(strings.TrimSuffix(l.cells["error"], " %"), 64) // 0 for a statement
		if size = math.Abs(size); size > groups[i].error {
			groups[i].error, groups[i].reportedLine = size, l
		}
		groups[i].n++
	}
	text := "| section | known misses | example | printed or reference | ours | reason |\n| --- | ---:| --- | ---:| ---:| --- |\n"
	for _, g := range groups {
		text += fmt.Sprintf("| %s | %d | %s | %s | %s | %s |\n", q.link(g.section), g.n, g.cells[""], g.target(), g.cells["ours"], g.cells["note"])
	}
	return text
}

// choices returns the lines that a page chooses in the comment before them, each as "SECTION: BEGINNING".
func choices(t *testing.T, path string) []string {
	t.Helper()
	_, rest, _ := strings.Cut(content(t, path), "<!-- lines: ")
	comment, _, _ := strings.Cut(rest, " -->")
	return strings.Split(comment, "\n")[1:]
}

// partOf returns the part of a report about a paper.
func partOf(t *testing.T, report, paper string) string {
	t.Helper()
	_, part, ok := strings.Cut(report, "\n## "+paper+"\n")
	if !ok {
		t.Fatalf("replay/REPRODUCTION.md has no part of %s", paper)
	}
	part, _, _ = strings.Cut(part, "\n## ")
	return part
}

var (
	// notProse matches code, the targets of links and the parts between marks.
	notProse = regexp.MustCompile("(?s)```.*?```|`[^`]*`|\\]\\([^)]*\\)|<!-- (?:sections|lines|misses): .*?<!-- end of (?:sections|lines|misses) -->")
	// measured matches a number with a unit.
	measured = regexp.MustCompile(`\d[\d.,]*\s?(?:%|×|(?:times|points|ns|us|µs|ms|s|[kMGT]?B(?:/s)?|[GTP]?FLOPs?(?:/s)?|tokens/s|requests)\b)`)
)

// unquoted returns the figures in the prose of a page that a report lacks.
func unquoted(page, report string) (list []string) {
	for _, figure := range measured.FindAllString(notProse.ReplaceAllString(page, " "), -1) {
		if !regexp.MustCompile(`(?:^|[^\d.])` + regexp.QuoteMeta(figure)).MatchString(report) {
			list = append(list, figure)
		}
	}
	return list
}

func TestUnquoted(t *testing.T) {
	const page = "It is 3.1 % of 12 GB, 7 times, and `4 ms`.\n<!-- lines: x\na: b -->\n| 5 ms |\n<!-- end of lines -->\n```\n6 ms\n```\n"
	if got := unquoted(page, "13.1 % of 12 GB"); !slices.Equal(got, []string{"3.1 %", "7 times"}) {
		t.Errorf("unquoted %q, expected 3.1 %% and 7 times", got)
	}
}
