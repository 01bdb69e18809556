package printable_test

import (
	"bytes"
	"html"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	render "github.com/yuin/goldmark/renderer/html"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/trace/tracetest"
)

// Adversarial texts stay plain text in every notation. They come from a table and from random
// combinations of its pieces.
func TestHostileTexts(t *testing.T) {
	for _, s := range tracetest.Hostile {
		checkNotations(t, s)
		checkMarkdown(t, s)
	}
	const seed, markdownEach = 20, 200 // rendering is slow
	texts := 1_000_000
	if testing.Short() {
		texts = 20_000
	}
	r := rand.New(rand.NewPCG(seed, 1))
	for i := 0; i < texts && !t.Failed(); i++ {
		s := tracetest.HostileText(r)
		checkNotations(t, s)
		if i%markdownEach == 0 {
			checkMarkdown(t, s)
		}
	}
}

// FuzzNotations is TestHostileTexts for any text.
func FuzzNotations(f *testing.F) {
	for _, s := range tracetest.Hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkNotations(t, s); checkMarkdown(t, s) })
}

func checkNotations(t *testing.T, s string) {
	t.Helper()
	text, line := printable.Text(s), printable.Line(s)
	if hidden := strings.IndexFunc(text, isHidden); hidden >= 0 || !utf8.ValidString(text) || printable.Text(text) != text {
		t.Errorf("Text(%q) = %q", s, text)
	}
	if strings.ContainsAny(line, "\n\t") {
		t.Errorf("Line(%q) = %q", s, line)
	}
	cell := printable.CSV(s)
	if _, err := strconv.ParseFloat(cell, 64); cell != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", []rune(cell)[0]) && err != nil {
		t.Errorf("CSV(%q) = %q, a formula", s, cell)
	}
	if back := printable.FromCSV(cell); back != s {
		t.Errorf("FromCSV(CSV(%q)) = %q", s, back)
	}
}

// isHidden defines independently which characters no output may contain.
func isHidden(r rune) bool {
	return r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Cs, unicode.Zl, unicode.Zp) ||
		unicode.In(r, unicode.Bidi_Control, unicode.Variation_Selector, unicode.Noncharacter_Code_Point, unicode.Other_Default_Ignorable_Code_Point)
}

// parser reads Markdown as GitHub does, with footnotes, and passes HTML through.
var parser = goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote), goldmark.WithRendererOptions(render.WithUnsafe()))

// checkMarkdown renders documents that contain s. It expects the document of a plain name with s in
// its place.
func checkMarkdown(t *testing.T, s string) {
	t.Helper()
	bars := strings.NewReplacer("|", `\|`)
	for _, d := range []struct{ document, markdown, shown string }{
		{"# @\n\nend", printable.Markdown(s), printable.Text(s)},
		{"- @\n- @\n\nend", printable.Markdown(s), printable.Text(s)},
		{"before\n\n@\n\nend", printable.Markdown(s), printable.Text(s)},
		{"| a | b |\n| --- | --- |\n| @ | 1 |\n| 2 | @ |\n", bars.Replace(printable.Cell(s)), printable.Text(s)},
		{"| a | b |\n| --- | --- |\n| @ | 1 |\n| 2 | @ |\n", bars.Replace(printable.Code(s)), ""},
	} {
		if strings.TrimSpace(d.markdown) == "" {
			continue // an empty paragraph disappears
		}
		got, plain := asHTML(t, strings.ReplaceAll(d.document, "@", d.markdown)), asHTML(t, strings.ReplaceAll(d.document, "@", "NAME"))
		if d.shown == "" {
			d.shown = printable.Text(s)
			plain = strings.ReplaceAll(plain, "NAME", "<code>NAME</code>")
		}
		got = strings.ReplaceAll(got, "<!-- -->", "") // in mail addresses
		if want := strings.ReplaceAll(plain, "NAME", html.EscapeString(d.shown)); words(got) != words(want) {
			t.Errorf("%q as %q in %q:\n%s\nexpected\n%s", s, d.markdown, d.document, got, want)
		}
	}
}

func asHTML(t *testing.T, markdown string) string {
	t.Helper()
	var out bytes.Buffer
	fatal.If(t, parser.Convert([]byte(markdown), &out))
	return out.String()
}

// words makes HTML comparable. It unifies the spelling of entities and removes white space, whose
// rules in Markdown do not matter here.
func words(s string) string {
	s = strings.NewReplacer("&quot;", `"`, "&#34;", `"`, "&#39;", "'").Replace(s)
	return strings.Join(strings.FieldsFunc(s, unicode.IsSpace), "")
}
