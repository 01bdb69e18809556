package render

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// pageFiles are the style and the scripts of a page, and uPlot 1.6.32 with its licence.
//
//go:embed page/page.css page/page.js page/uPlot.iife.min.js page/uPlot.min.css page/uPlot.LICENSE
var pageFiles embed.FS

func pageFile(name string) string {
	content, err := pageFiles.ReadFile("page/" + name)
	if err != nil {
		panic(err) // a bug: the file is embedded
	}
	return string(content)
}

// Style returns the CSS of all pages.
func Style() string { return pageFile("page.css") }

// PageBoard is a board of a page.
type PageBoard struct {
	*board.Board
	// Title distinguishes boards of one page. Suffix ends the names of its files.
	Title, Suffix string
	// Rows are those of the board. Rows by layer or stream make heat maps. They may be summed over
	// requests, and others may be left out.
	Rows []result.Row
	// Steps are figures of the misses of each step. Without any, the page says how to get them.
	Steps []PageFigure
}

// PageSource is the command and the version that reproduce a page.
type PageSource struct {
	// Command is the command line that made the page. Version is the output of kvreplay version.
	Command, Version string
}

// Page writes boards as one HTML file that needs no network. It begins with the finding of each
// board, followed by the ranking, a table and curves. A reader without scripts sees the finding, the
// rankings and the notes. The texts of rows are never markup: Go escapes them, scripts set them as
// text, and a policy of the page allows no script but its own.
func Page(w io.Writer, boards []PageBoard, source PageSource, view View) error {
	var body page
	for i, b := range boards {
		view.Wide = false
		if err := body.board(&b, i, source, view); err != nil {
			return err
		}
	}
	body.put("<!-- uPlot:\n%s-->\n", markup(pageFile("uPlot.LICENSE")))
	out := shell(boards[0].Incomplete.Titled("Leaderboard"), body.Bytes(), source, "The table and the curves need JavaScript. The finding, the rankings and the notes do not.",
		"<p>Curves: <a href=\"https://github.com/leeoniya/uPlot\">uPlot</a> 1.6.32, MIT licence.</p>", pageFile("uPlot.min.css"), pageFile("uPlot.iife.min.js"), pageFile("page.js"))
	_, err := w.Write(out)
	return err
}

// shell returns a page around a body. style is CSS in addition to the style of every page. credits are markup of
// the footer.
func shell(title string, body []byte, source PageSource, withoutScripts string, credits markup, style string, scripts ...string) []byte {
	var hashes string
	for _, s := range scripts {
		sum := sha256.Sum256([]byte(s))
		hashes += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	version := slice.Map(strings.Split(source.Version, "\n"), printable.HTML)
	var out page
	out.put("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
	out.put("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src%s; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n", markup(hashes))
	out.put("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n")
	out.put("<title>%s</title>\n<style>%s\n%s</style>\n</head>\n<body>\n", title, markup(style), markup(Style()))
	out.put("<a class=\"skip\" href=\"#main\">Skip to the content</a>\n<header><p class=\"brand\">kvreplay</p><h1>%s</h1>\n"+
		"<button type=\"button\" id=\"theme\" aria-pressed=\"false\" hidden>Dark</button></header>\n<main id=\"main\">\n", title)
	out.put("<noscript><p>%s</p></noscript>\n", withoutScripts)
	out.Write(body)
	out.put("</main>\n<footer><p>Made by <code>%s</code></p>\n<pre>kvreplay version %s</pre>\n%s</footer>\n", source.Command, markup(strings.Join(version, "\n")), credits)
	for _, s := range scripts {
		out.put("<script>%s</script>\n", markup(s))
	}
	out.put("</body>\n</html>\n")
	return out.Bytes()
}

type page struct{ bytes.Buffer }

// markup is HTML that put does not escape.
type markup string

// put writes a format. It escapes arguments that are strings.
func (p *page) put(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = printable.HTML(s)
		}
	}
	fmt.Fprintf(p, format, args...)
}

func (p *page) board(b *PageBoard, n int, source PageSource, view View) error {
	d, err := newPageData(b.Board, b.Rows, view, b.Suffix)
	if err != nil {
		return err
	}
	data, err := json.Marshal(d) // escapes <, > and &
	if err != nil {
		return err
	}
	p.put("<section class=\"board\" aria-labelledby=\"finding-%d\">\n", n)
	title, start := "Finding", ""
	if b.Title != "" {
		title, start = b.Title, b.Title+": "
	}
	p.put("<h2 id=\"finding-%d\">%s</h2>\n", n, title)
	if len(b.Labels) > 0 {
		p.put("<p class=\"labels\">Limits: %s</p>\n", b.Labels.String())
	}
	p.put("<p class=\"finding\">%s</p>\n", b.Incomplete.Titled(Finding(b.Board, view)))
	reproduce := func() { p.reproduce(source, fmt.Sprintf("traces-%d", n), "traces") }
	for _, t := range b.Rankings() {
		if len(t.Ranked) > 0 {
			if err := p.ranking(b.Board, t, start+keyViews[t.Key].title, view, reproduce); err != nil {
				return err
			}
		}
	}
	p.put("<div class=\"interactive\" hidden>\n")
	for _, f := range []struct{ id, title string }{
		{"table", "All figures"}, {"curves", "Misses ÷ OPT over capacity"}, {"memory", "Miss ratio over memory"}, {"recall", "Recall over capacity"},
		{"heat", "Miss ratio by layer and head"},
	} {
		p.put("<section class=\"figure\" data-figure=\"%s\" aria-labelledby=\"%s-%d\"><h3 id=\"%s-%d\">%s</h3><div class=\"content\"></div>\n", f.id, f.id, n, f.id, n, start+f.title)
		if f.id == "heat" && d.HeatLeft > 0 {
			p.notes([]string{"The page has no room for " + text.Count(d.HeatLeft, "more map") + ". Choose rows with --where."})
		}
		reproduce()
		p.put("</section>\n")
	}
	p.put("</div>\n")
	for _, f := range b.Steps {
		if err := p.drawn(&f, reproduce); err != nil {
			return err
		}
	}
	if b.Steps == nil {
		p.put("<h3>%sMisses of each decode step</h3>\n<p>The folder of the rows has no profile of a shown policy. Replay with <code>--profile</code> to see the steps here.</p>\n", start)
	}
	p.tables(b.Board, n, start)
	p.put("<script type=\"application/json\" class=\"data\">%s</script>\n</section>\n", markup(data))
	return nil
}

// reproduce writes the command of a figure, with a link to the digests of its inputs.
func (p *page) reproduce(source PageSource, id, inputs string) {
	p.put("<details class=\"source\"><summary>Reproduce</summary><p><code>%s</code></p>"+
		"<p>The <a href=\"#%s\">%s</a> have digests, and the end of the page states the version.</p></details>\n", source.Command, id, inputs)
}

// tables writes the policies without capacity, the lower tiers and the traces, with all notes.
func (p *page) tables(b *board.Board, n int, start string) {
	v := &boardView{Board: b, View: Whole, marks: boardMarks(b)}
	v.windows()
	v.tiers()
	v.settings()
	for i, t := range v.tables {
		id := ""
		if i == len(v.tables)-1 {
			id = fmt.Sprintf(" id=\"traces-%d\"", n)
		}
		p.put("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\"%s>\n%s</div>\n", start+t.Title, markup(id), markup(t.HTML()))
		p.notes(t.Notes)
	}
	if len(b.Footnotes) > 0 {
		p.put("<h3>Footnotes</h3>\n")
		p.notes(v.marks.footnotes(b.Footnotes))
	}
}

func (p *page) notes(notes []string) {
	if len(notes) == 0 {
		return
	}
	p.put("<ul class=\"notes\">\n")
	for _, note := range notes {
		p.put("<li>%s</li>\n", note)
	}
	p.put("</ul>\n")
}

// Finding states in one sentence which policy leads the board, by how much, and which policies its
// requests do not distinguish from it.
func Finding(b *board.Board, view View) string {
	t := b.Lossy
	if HasRankingPlot(b) {
		t = &b.Tables[0]
	}
	if t == nil || len(t.Ranked) == 0 {
		return "No policy is ranked, and the notes state why."
	}
	view.Wide = false
	names := view.PolicyNames((&boardView{Board: b}).policies())
	best := &t.Ranked[0]
	f := t.Key.Of(best.Pooled)
	of := keyViews[t.Key]
	u := of.unit.column([]*board.Figure{f})
	finding := fmt.Sprintf("%s %s of %d %s policies: %s%s", names[best.Policy], map[*board.Key]string{
		board.MissesKey: "is the closest to OPT", board.TimeKey: "takes the least modelled time per output token", board.RecallKey: "keeps the most of its demand",
	}[t.Key], len(t.Ranked), t.Key.Kind, strings.TrimSpace(u.cell(f)), map[*board.Key]string{board.MissesKey: " × OPT"}[t.Key])
	if f.Bounded() && u.interval(f) != "" {
		finding += " (95 % interval " + strings.Trim(strings.ReplaceAll(u.interval(f), ", ", " to "), "[]()") + u.suffix + ")"
	}
	if t.Key == board.MissesKey && best.Policy != lruPolicy && best.Pooled.XLRU != nil {
		x := best.Pooled.XLRU.Value
		finding += fmt.Sprintf(", on average %s %% %s misses than LRU", rounded(100*math.Abs(1-x), digitsOf(100*math.Abs(1-x), 2)), map[bool]string{true: "fewer", false: "more"}[x < 1])
	}
	traces := text.Union(slice.Map(t.Common, func(r board.CellRef) string { return r.Trace }))
	finding += ", on " + text.Count(len(traces), "trace")
	if same := sharing(t, best); len(same) > 0 {
		finding += ", and the requests do not distinguish it from " + english.WordSeries(slice.Map(same, func(p string) string { return names[p] }), "and")
	} else if best.Letters != "" {
		finding += ", and significantly ahead of all others"
	} else {
		finding += ", and the lead is not tested for significance"
	}
	return finding + "."
}

// sharing lists the other policies that share a letter with one.
func sharing(t *board.Ranking, with *board.Line) (policies []string) {
	for i := range t.Ranked {
		if l := &t.Ranked[i]; l != with && strings.ContainsAny(l.Letters, with.Letters) {
			policies = append(policies, l.Policy)
		}
	}
	return policies
}

// ranking draws the figure by which a ranking ranks, with its table. The policies that share a letter with
// the best one are highlighted.
func (p *page) ranking(b *board.Board, t *board.Ranking, title string, view View, reproduce func()) error {
	best := &t.Ranked[0]
	d := rankingDots(t, t.Ranked, view, func(l *board.Line, u unit) string {
		label := "  " + l.Letters
		if f := t.Key.Of(l.Pooled); f.Bounded() {
			label = " " + u.interval(f) + label
		}
		return label
	})
	for i, l := range t.Ranked {
		d.Rows[i].Highlight = i == 0 || strings.ContainsAny(l.Letters, best.Letters)
	}
	if t.Intervals() {
		d.X += ", with 95 % intervals"
	}
	v := &boardView{Board: b, View: Whole, marks: boardMarks(b)}
	v.ranking(t, nil, nil)
	if err := p.drawn(&PageFigure{Title: title, Drawing: d, values: v.tables[0]}, reproduce); err != nil {
		return err
	}
	p.notes(t.Notes)
	return nil
}
