// Package printable shows untrusted texts on a terminal and in documents. Names of files, requests
// and models may contain characters that control a terminal or reorder the text around them. Data
// formats carry such characters unchanged. People see them escaped.
package printable

import (
	"fmt"
	"html"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text escapes the characters of s that act or are invisible, as Go does (\x1b or \u202e). These
// are control characters other than line feeds and tabs, bytes that are not UTF-8, and marks of
// writing direction. Unicode's line ends and characters without a glyph also count.
func Text(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, acts) {
		return s
	}
	var b strings.Builder
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case acts(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// HTML returns Line of s as text of an HTML element, or of an attribute in quotes.
func HTML(s string) string { return html.EscapeString(Line(s)) }

// breaks writes line breaks and tabs as escapes.
var breaks = strings.NewReplacer("\n", `\n`, "\t", `\t`)

// Line is Text for texts that must stay on one line.
func Line(s string) string { return breaks.Replace(Text(s)) }

// acts reports whether a terminal obeys a character or shows nothing for it.
func acts(r rune) bool {
	if r == '\n' || r == '\t' {
		return false
	}
	return unicode.IsControl(r) || unicode.In(r, invisible...)
}

// invisible are the characters that readers cannot see. They are formats (zero-width spaces and
// joiners, marks of direction, tags), Unicode's line ends, fillers and variation selectors.
// Noncharacters, which XML does not allow, also count.
var invisible = []*unicode.RangeTable{unicode.Cf, unicode.Zl, unicode.Zp,
	unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Noncharacter_Code_Point}

// Writer writes Text of its input to another writer.
type Writer struct {
	w    io.Writer
	part []byte // incomplete character that the next Write may complete
}

// NewWriter returns a writer in front of w. Flush ends it.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes whole characters and keeps an incomplete one at the end of p.
func (t *Writer) Write(p []byte) (int, error) {
	text := append(t.part, p...)
	whole := len(text)
	for at := max(0, len(text)-utf8.UTFMax+1); at < len(text); at++ {
		if utf8.RuneStart(text[at]) && !utf8.FullRune(text[at:]) {
			whole = at
			break
		}
	}
	t.part = append([]byte(nil), text[whole:]...)
	if _, err := io.WriteString(t.w, Text(string(text[:whole]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes the kept bytes.
func (t *Writer) Flush() error {
	_, err := io.WriteString(t.w, Text(string(t.part)))
	t.part = nil
	return err
}

// formula are first characters that make spreadsheets compute a cell instead of showing it (OWASP,
// "CSV Injection"). They are the ASCII ones and their full-width forms.
const formula = "=+-@\t\r\n＝＋－＠"

// quote marks a cell as text in spreadsheets.
const quote = "'"

// CSV returns a text for a cell that spreadsheets show and do not compute. It puts a quote before a
// formula, and FromCSV removes it. Numbers get no quote.
func CSV(s string) string {
	if computed(s) {
		return quote + s
	}
	return s
}

// FromCSV returns the argument of CSV.
func FromCSV(s string) string {
	if rest, ok := strings.CutPrefix(s, quote); ok && computed(rest) {
		return rest
	}
	return s
}

// Record is CSV of each cell, in place.
func Record(cells []string) []string {
	for i, c := range cells {
		cells[i] = CSV(c)
	}
	return cells
}

// computed reports whether CSV puts a quote before s. It does so for a formula, and for a formula
// that already has quotes, which FromCSV must keep.
func computed(s string) bool {
	s = strings.TrimLeft(s, quote)
	first, size := utf8.DecodeRuneInString(s)
	if size == 0 || !strings.ContainsRune(formula, first) {
		return false
	}
	_, err := strconv.ParseFloat(s, 64)
	return err != nil
}

// plainWord matches a word that no shell changes.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// ShellWord quotes a word for a POSIX shell if it needs quotes.
func ShellWord(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
