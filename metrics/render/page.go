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
	"slices"
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

// PageSource is what reproduces a page.
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

// shell returns a page around a body. style is CSS besides that of every page. credits are markup of
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
			p.dots(t, start, view)
			reproduce()
			p.put("</figure>\n")
		}
	}
	p.put("<div class=\"interactive\" hidden>\n")
	for _, f := range []struct{ id, title string }{
		{"table", "All figures"}, {"curves", "Misses ÷ OPT over capacity"}, {"memory", "Miss ratio over memory"}, {"recall", "Recall over capacity"},
		{"heat", "Miss ratio by layer and head"},
	} {
		p.put("<section class=\"figure\" data-figure=\"%s\" aria-labelledby=\"%s-%d\"><h3 id=\"%s-%d\">%s</h3><div class=\"content\"></div>\n", f.id, f.id, n, f.id, n, start+f.title)
		if note := d.heatNote(); f.id == "heat" && note != "" {
			p.notes([]string{note})
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
	var footnotes []string
	for i, note := range b.Footnotes {
		footnotes = append(footnotes, v.marks.footnote(i+1, note))
	}
	if footnotes != nil {
		p.put("<h3>Footnotes</h3>\n")
		p.notes(footnotes)
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
		board.MissesKey: "has the fewest misses", board.TimeKey: "takes the least modelled time per output token", board.RecallKey: "keeps the most of its demand",
	}[t.Key], len(t.Ranked), t.Key.Kind, strings.TrimSpace(u.cell(f)), map[*board.Key]string{board.MissesKey: " × OPT"}[t.Key])
	if f.Bounded() && u.interval(f) != "" {
		finding += " (95 % interval " + strings.Trim(strings.ReplaceAll(u.interval(f), ", ", " to "), "[]()") + u.suffix + ")"
	}
	if t.Key == board.MissesKey && best.Policy != lruPolicy && best.Pooled.XLRU != nil {
		x := best.Pooled.XLRU.Value
		finding += fmt.Sprintf(", %s %% %s than LRU", rounded(100*math.Abs(1-x), digitsOf(100*math.Abs(1-x), 2)), map[bool]string{true: "fewer", false: "more"}[x < 1])
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

// dots writes a ranking as a dot plot, without the end of the figure. Its title follows start.
func (p *page) dots(t *board.Ranking, start string, view View) {
	of, kind := keyViews[t.Key], t.Key.Kind
	names := view.PolicyNames(slice.Map(t.Ranked, func(l board.Line) string { return l.Policy }))
	figures := slice.Map(t.Ranked, func(l board.Line) *board.Figure { return t.Key.Of(l.Pooled) })
	u, axis := of.unit.column(figures), newDotAxis(t, figures)
	p.put("<figure class=\"ranking\" data-kind=\"%s\">\n<figcaption><h3>%s</h3><p>Axis: %s", kind, start+of.title, of.axis)
	if t.Intervals() {
		p.put(", with 95 %% intervals")
	}
	lettered := slices.ContainsFunc(t.Ranked, func(l board.Line) bool { return l.Letters != "" })
	if lettered {
		p.put(". Policies that share a letter are not significantly different")
	}
	p.put(".</p></figcaption>\n<ol class=\"dots\" role=\"list\">\n")
	letters := lettersOf(t)
	for i := range t.Ranked {
		l, f := &t.Ranked[i], figures[i]
		class := ""
		if i == 0 || strings.ContainsAny(l.Letters, t.Ranked[0].Letters) {
			class = " class=\"lead\""
		}
		p.put("<li%s><span class=\"rank\">%s</span><span class=\"name\" title=\"%s\">%s</span>", markup(class), l.Rank, l.Policy, names[l.Policy])
		if lettered {
			p.letters(l.Letters, letters)
		}
		p.put("<span class=\"track\" aria-hidden=\"true\">%s</span><span class=\"value\">%s", markup(axis.row(f)), strings.TrimSpace(u.cell(f)))
		if f.Bounded() {
			p.put(" <span class=\"interval\">%s</span>", u.interval(f))
		}
		p.put("</span></li>\n")
	}
	p.put("<li class=\"axis\" aria-hidden=\"true\"><span class=\"rank\"></span><span class=\"name\"></span>")
	if lettered {
		p.letters("", letters)
	}
	p.put("<span class=\"track\">%s</span><span class=\"value\"></span></li>\n</ol>\n", markup(axis.labels()))
	p.notes(t.Notes)
}

// mostLetters is the number of letters that have columns of their own in a dot plot.
const mostLetters = 16

func lettersOf(t *board.Ranking) (letters []string) {
	for _, l := range t.Ranked {
		letters = text.Union(letters, strings.Split(l.Letters, "")...)
	}
	return slices.DeleteFunc(letters, func(l string) bool { return l == "" })
}

// letters writes the groups of a policy, each letter in its own column if there is room.
func (p *page) letters(own string, all []string) {
	if len(all) > mostLetters {
		p.put("<span class=\"letters\">%s</span>", own)
		return
	}
	p.put("<span class=\"letters\">")
	for _, l := range all {
		if strings.Contains(own, l) {
			p.put("<span class=\"on\">%s</span>", l)
		} else {
			p.put("<span></span>")
		}
	}
	p.put("</span>")
}

// dotAxis is the axis of a dot plot, in the unit of its figures.
type dotAxis struct {
	unit      unit
	low, high float64
	ticks     []float64
	opt       *float64 // the value of OPT, perhaps outside
}

// newDotAxis spans the figures. Values far above the median leave the axis, and so may OPT.
func newDotAxis(t *board.Ranking, figures []*board.Figure) dotAxis {
	a := dotAxis{unit: keyViews[t.Key].unit}
	var lows, highs []float64
	for _, f := range figures {
		_, low, high := interval(f, a.unit.scale)
		lows, highs = append(lows, low), append(highs, high)
	}
	if f := optimumOf(t); f != nil {
		a.opt = new(a.unit.scale * f.Value)
	}
	slices.Sort(highs)
	a.low, a.high = slices.Min(lows), highs[len(highs)-1]
	if !t.Key.Descending {
		a.high = min(a.high, 1.5*highs[len(highs)/2])
	}
	room := max((a.high-a.low)/25, a.high/1000, 1e-12)
	a.low, a.high = a.low-room, a.high+room
	step := math.Pow10(int(math.Floor(math.Log10((a.high - a.low) / 3))))
	for _, m := range []float64{5, 2} {
		if (a.high-a.low)/(m*step) >= 3 {
			step *= m
			break
		}
	}
	for i := math.Ceil(a.low / step); i*step <= a.high; i++ {
		a.ticks = append(a.ticks, i*step)
	}
	return a
}

// at returns the place of a value in percent of the axis.
func (a dotAxis) at(x float64) float64 {
	return math.Round(1e4*(min(max(x, a.low), a.high)-a.low)/(a.high-a.low)) / 100
}

// row returns the marks of a figure: ticks, OPT, the interval and the dot.
func (a dotAxis) row(f *board.Figure) string {
	var p page
	for _, tick := range a.ticks {
		p.put("<i style=\"left:%g%%\"></i>", a.at(tick))
	}
	if a.opt != nil && *a.opt >= a.low {
		p.put("<i class=\"opt\" style=\"left:%g%%\"></i>", a.at(*a.opt))
	}
	x := a.unit.scale * f.Value
	if x > a.high {
		p.put("<b class=\"beyond\">→</b>")
		return p.String()
	}
	if f.Bounded() {
		low, high := a.at(a.unit.scale**f.Low), 100.0
		if f.High != nil {
			high = a.at(a.unit.scale * *f.High)
		}
		p.put("<u style=\"left:%g%%;width:%g%%\"></u>", low, math.Round(100*(high-low))/100)
	}
	p.put("<b style=\"left:%g%%\"></b>", a.at(x))
	return p.String()
}

// labels returns the numbers of the axis.
func (a dotAxis) labels() string {
	var p page
	for _, tick := range a.ticks {
		p.put("<span style=\"left:%g%%\">%g%s</span>", a.at(tick), math.Round(1e6*tick)/1e6, strings.TrimSpace(a.unit.suffix))
	}
	switch {
	case a.opt == nil:
	case *a.opt >= a.low:
		p.put("<span class=\"opt\" style=\"left:%g%%\">OPT</span>", a.at(*a.opt))
	default:
		p.put("<span class=\"opt left\">← OPT %s</span>", threeDigits(*a.opt))
	}
	return p.String()
}
