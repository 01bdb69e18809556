package render_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/browsertest"
	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/metrics/render"
	"github.com/kvreplay/kvreplay/metrics/render/figure"
)

// hostileName is no markup in a page.
const hostileName = "</script><img src=x onerror=alert(1)>\x1b[2J&\""

func reportPage(t *testing.T) string {
	t.Helper()
	tab := table.New("system", "TPOT").Right(1)
	tab.Title = "Systems " + hostileName
	for _, row := range [][]any{{"slow", "1.2 s"}, {"fast", "24.6 ms ±13 %"}, {hostileName, "-"}, {"middle", "300 ms"}} {
		tab.Add(row...)
	}
	tab.Notes = []string{hostileName}
	d := &figure.Dots{X: "x", Rows: []figure.Row{{Name: hostileName, Label: "1", Value: 1, Low: 1, High: 2}}}
	var page bytes.Buffer
	err := render.ReportPage(&page, "fast wins "+hostileName, &table.Report{Title: "Report", Tables: []*table.Table{tab}, Footnotes: []string{"a note"}},
		[]render.PageFigure{{Title: "A figure " + hostileName, Drawing: d}, {Title: "Lines " + hostileName, Drawing: &figure.Lines{X: "time", Y: "requests", Lines: []figure.Line{
			{Name: hostileName, Points: []figure.Point{{X: 1, Y: 0.12345}, {X: 2, Y: 20}}}, {Name: "short", Points: []figure.Point{{X: 2, Y: 3}}},
		}}}}, render.PageSource{Command: "kvreplay systems '" + hostileName + "'", Version: "1"})
	fatal.If(t, err)
	return page.String()
}

// The page has all texts without scripts, and no text is markup.
func TestReportPage(t *testing.T) {
	page := reportPage(t)
	if strings.Contains(page, "<img") || strings.ContainsRune(page, 0x1b) {
		t.Error("a name is markup or an escape")
	}
	for _, want := range []string{"fast wins &lt;/script&gt;", "<td>fast</td>", "<li>a note</li>", "<svg ", "default-src 'none'", "Made by <code>kvreplay systems",
		"<tr><td>1</td><td>0.1235</td><td></td></tr>", "<tr><td>2</td><td>20</td><td>3</td></tr>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(page, "</script>"); n != 1 {
		t.Errorf("%d scripts end, expected 1", n)
	}
}

// Headers sort by number and unit, and lines without a number come last. The filter hides lines.
func TestReportPageSorts(t *testing.T) {
	b := browsertest.New(t)
	b.Open(pageFile(t, reportPage(t)))
	names := func() (texts []string) {
		b.Eval(`[...document.querySelectorAll("section.table tbody tr:not([hidden])")].map((r) => r.cells[0].textContent.slice(0, 6))`, &texts)
		return texts
	}
	click := func() { b.Eval(`document.querySelectorAll("section.table th button")[1].click()`, nil) }
	click()
	if got := names(); !slices.Equal(got, []string{"fast", "middle", "slow", "</scri"}) {
		t.Errorf("ascending: %q", got)
	}
	click()
	if got := names(); !slices.Equal(got, []string{"slow", "middle", "fast", "</scri"}) {
		t.Errorf("descending: %q", got)
	}
	b.Eval(`(() => { const f = document.querySelector("section.table input"); f.value = "FAS"; f.dispatchEvent(new Event("input")); })()`, nil)
	if got := names(); !slices.Equal(got, []string{"fast"}) {
		t.Errorf("filtered: %q", got)
	}
	for _, text := range b.Complaints() {
		t.Error(text)
	}
}
