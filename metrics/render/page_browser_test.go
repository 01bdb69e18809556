package render_test

import (
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/browsertest"
	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
	"github.com/kvreplay/kvreplay/trace/tracetest"
)

// pageFile writes a page and returns its path.
func pageFile(t *testing.T, page string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	fatal.If(t, os.WriteFile(path, []byte(page), 0o600))
	return path
}

func examplePage(t *testing.T) string {
	return pageOf(t, pageRows(12, 3, 4, 100, plainName), 200)
}

// On phones, tablets and screens, in both schemes, axe-core finds no fault. The page is no wider
// than the window, reports no error and asks for nothing.
func TestPageIsAccessible(t *testing.T) {
	b := browsertest.New(t)
	pages := map[string]string{
		"example": examplePage(t), "windows": pageOf(t, rowstest.Synthetic(), 200),
		"two boards": pageOf(t, rowstest.Synthetic(), 200, "Warmed caches", "Cold starts"),
		"heat map":   pageOf(t, heatRows(), 0), "report": reportPage(t),
		"few": pageOf(t, rowstest.RenderRows(), 0), "bounds alone": pageOf(t, []result.Row{rowstest.Row("a", "opt", "1x", 4)}, 0),
	}
	for name, page := range pages {
		if testing.Short() && name != "example" {
			continue
		}
		b.Open(pageFile(t, page))
		widths := []int{375}
		if name == "example" {
			widths = []int{375, 1024, 1920}
		}
		for _, text := range b.Violations(widths...) {
			t.Errorf("%s: %s", name, text)
		}
	}
	for _, text := range b.Complaints() {
		t.Error(text)
	}
}

// On a phone no table of figures scrolls sideways: each row is a list, and each cell has the name of
// its column.
func TestTablesFitPhones(t *testing.T) {
	b := browsertest.New(t)
	for name, page := range map[string]string{"example": examplePage(t), "report": reportPage(t)} {
		b.Open(pageFile(t, page))
		b.Size(375, 900)
		var wide, unnamed []string
		b.Eval(`[...document.querySelectorAll("table.listed")].map((t) => t.parentElement).filter((s) => s.scrollWidth > s.clientWidth).map((s) => s.ariaLabel)`, &wide)
		b.Eval(`[...document.querySelectorAll(".scroll > table:not(.heat) tbody td")].filter((c) => !c.dataset.column && c.closest("table.listed")).map((c) => c.textContent)`, &unnamed)
		var tables int
		if b.Eval(`document.querySelectorAll("table.listed tbody td").length`, &tables); tables == 0 || len(wide)+len(unnamed) > 0 {
			t.Errorf("%s: %d cells in lists, tables that scroll: %q, cells without a name: %q", name, tables, wide, unnamed)
		}
	}
}

// columnScript returns the texts of a column of the table.
const columnScript = `[...document.querySelectorAll("[data-figure=table] tbody tr")].map((r) => r.children[%d].textContent)`

// set changes a control of a figure, by its label.
func set(t *testing.T, b *browsertest.Browser, figure, label, value string) {
	t.Helper()
	arguments, err := json.Marshal([]string{figure, label, value})
	fatal.If(t, err)
	b.Eval(fmt.Sprintf(`(([figure, label, value]) => {
		const l = [...document.querySelectorAll("[data-figure=" + figure + "] .controls label")].find((l) => l.firstChild.data === label);
		const c = l.querySelector("select, input");
		c.value = c.tagName === "SELECT" ? [...c.options].find((o) => o.text === value).value : value;
		c.dispatchEvent(new Event("input"));
	})(%s)`, arguments), nil)
}

func TestPageTable(t *testing.T) {
	b := browsertest.New(t)
	b.Size(1024, 900)
	b.Open(pageFile(t, examplePage(t)))
	column := func(n int) (texts []string) {
		b.Eval(fmt.Sprintf(columnScript, n), &texts)
		return texts
	}
	click := func(n int) {
		b.Eval(fmt.Sprintf(`document.querySelectorAll("[data-figure=table] th button")[%d].click()`, n), nil)
	}
	if got := column(1); len(got) != 12 || !slices.Contains(got, "opt") {
		t.Errorf("pooled lines of %q, expected 12 policies", got)
	}
	click(1)
	names := column(1)
	if !slices.IsSorted(names) {
		t.Errorf("a click on policy gives the order %q", names)
	}
	click(1)
	slices.Reverse(names)
	if got := column(1); !slices.Equal(got, names) {
		t.Errorf("another click gives the order %q", got)
	}
	var sort string
	if b.Eval(`document.querySelectorAll("[data-figure=table] thead th")[1].getAttribute("aria-sort")`, &sort); sort != "descending" {
		t.Errorf("aria-sort is %q", sort)
	}
	set(t, b, "table", "Kind", "lossy")
	if got := column(2); !slices.Equal(got, []string{"lossy"}) {
		t.Errorf("the kind lossy shows %q", got)
	}
	set(t, b, "table", "Kind", "exact, lossy and bounds")
	set(t, b, "table", "Trace", "each")
	set(t, b, "table", "Capacity", "2x")
	if got := column(4); len(got) != 36 || slices.ContainsFunc(got, func(c string) bool { return c != "2x" }) {
		t.Errorf("2x on each trace shows the capacities %q", got)
	}
	set(t, b, "table", "Policy", "LRU, op")
	if got := column(1); len(got) != 6 {
		t.Errorf("parts of two names show %q", got)
	}
	var status string
	if b.Eval(`document.querySelector("[data-figure=table] [role=status]").textContent`, &status); status != "6 of 6 lines" {
		t.Errorf("status %q", status)
	}
	for _, text := range b.Complaints() {
		t.Error(text)
	}
}

// csvScript clicks the download button of a figure and returns the file's name and text.
const csvScript = `(async () => {
	const make = URL.createObjectURL, click = HTMLAnchorElement.prototype.click;
	let blob, name;
	URL.createObjectURL = (b) => { blob = b; return "blob:none"; };
	HTMLAnchorElement.prototype.click = function () { name = this.download; };
	document.querySelector(%q).click();
	URL.createObjectURL = make; HTMLAnchorElement.prototype.click = click;
	return [name, await blob.text()];
})()`

func TestPageCurves(t *testing.T) {
	b := browsertest.New(t)
	b.Size(1024, 900)
	b.Open(pageFile(t, examplePage(t)))
	painted := func() (text string) {
		b.Settle()
		b.Eval(`document.querySelector("[data-figure=curves] canvas").toDataURL()`, &text)
		return text
	}
	label := func() (text string) {
		b.Eval(`document.querySelector("[data-figure=curves] .plot").getAttribute("aria-label")`, &text)
		return text
	}
	first := painted()
	if got := label(); !strings.Contains(got, "all traces, pooled: 6 policies at 4 capacities") { // five, with LRU, and OPT
		t.Errorf("label %q", got)
	}
	b.Eval(`document.querySelector("[data-figure=curves] fieldset input:not(:checked)").click()`, nil)
	if got := label(); painted() == first || !strings.Contains(got, ": 7 policies") {
		t.Errorf("another check box does not change the curves: %q", got)
	}
	set(t, b, "curves", "Trace", plainName(12))
	pooled := painted()
	if got := label(); pooled == first || !strings.Contains(got, plainName(12)) {
		t.Errorf("label %q", got)
	}
	b.Eval(`document.getElementById("theme").click()`, nil)
	var dark string
	b.Eval(`getComputedStyle(document.body).backgroundColor + document.getElementById("theme").getAttribute("aria-pressed")`, &dark)
	if dark != "rgb(13, 17, 23)true" || painted() == pooled {
		t.Errorf("a click on Dark gives %s", dark)
	}
	for _, figure := range []string{"curves", "memory", "recall", "table"} {
		var file [2]string
		b.Eval(fmt.Sprintf(csvScript, "[data-figure="+figure+"] .csv"), &file)
		records, err := csv.NewReader(strings.NewReader(file[1])).ReadAll()
		if err != nil || len(records) < 5 || file[0] != "leaderboard-"+figure+".csv" {
			t.Errorf("%s: %v: %q", figure, err, file)
		}
	}
	for _, text := range b.Complaints() {
		t.Error(text)
	}
}

// A page prints in light colours, also in the dark scheme.
func TestPagePrints(t *testing.T) {
	b := browsertest.New(t)
	b.Size(1024, 900)
	b.Prefer("dark")
	b.Open(pageFile(t, examplePage(t)))
	b.Eval(`window.printed = []; addEventListener("beforeprint", () => printed.push(getComputedStyle(document.body).backgroundColor)); 0`, nil)
	var pdf struct{ Data string }
	b.Call("Page.printToPDF", map[string]any{"printBackground": true, "paperWidth": 8.27, "paperHeight": 11.7}, &pdf)
	text, err := base64.StdEncoding.DecodeString(pdf.Data)
	if err != nil || !strings.HasPrefix(string(text), "%PDF") || len(text) < 20_000 {
		t.Errorf("%d bytes of PDF, %v", len(text), err)
	}
	var during []string
	if b.Eval("printed", &during); len(during) != 1 || during[0] != "rgb(255, 255, 255)" {
		t.Errorf("the background while printing is %q", during)
	}
	var after string
	if b.Eval("getComputedStyle(document.body).backgroundColor", &after); after != "rgb(13, 17, 23)" {
		t.Errorf("the background after printing is %q", after)
	}
	for _, text := range b.Complaints() {
		t.Error(text)
	}
}

// No name of a trace or policy runs, adds an element or asks for anything, in any view.
func TestPageHostileInBrowser(t *testing.T) {
	b := browsertest.New(t)
	b.Size(1024, 900)
	hostile := func(i int) string { return fmt.Sprintf("%s%d", tracetest.Hostile[i%len(tracetest.Hostile)], i) }
	var counts [2]map[string]int
	for i, name := range []func(int) string{hostile, plainName} {
		b.Open(pageFile(t, pageOf(t, pageRows(12, 40, 2, 10, name), 20)))
		set(t, b, "table", "Trace", "each")
		set(t, b, "table", "Capacity", "each")
		b.Eval(`document.querySelectorAll("fieldset input:not(:checked)").forEach((e) => e.click())`, nil)
		b.Settle()
		b.Eval(`Object.fromEntries(Object.entries(Object.groupBy(document.querySelectorAll("*"), (e) => e.tagName)).map(([k, v]) => [k, v.length]))`, &counts[i])
	}
	if fmt.Sprint(counts[0]) != fmt.Sprint(counts[1]) {
		t.Errorf("hostile names give the elements %v, expected %v", counts[0], counts[1])
	}
	for _, text := range b.Complaints() {
		t.Error(text)
	}
}

// The largest page opens and sorts.
func TestPageLargest(t *testing.T) {
	b := browsertest.New(t)
	b.Open(pageFile(t, largest(t)))
	var opened float64
	b.Eval(`performance.getEntriesByType("navigation")[0].loadEventEnd`, &opened)
	set(t, b, "table", "Trace", "each")
	set(t, b, "table", "Capacity", "each")
	var status string
	if b.Eval(`document.querySelector("[data-figure=table] [role=status]").textContent`, &status); status != "200 of 30000 lines" {
		t.Errorf("status %q", status)
	}
	t.Logf("open after %.0f ms", opened)
	for _, text := range b.Complaints() {
		t.Error(text)
	}
}
