package printable

import (
	"regexp"
	"strings"
)

// markup are the texts that GitHub's Markdown reads as its own inside a line: emphasis,
// code, strikethrough, links, formulas, HTML and entities.
var markup = strings.NewReplacer(`\`, `\\`, "*", `\*`, "`", "\\`", "~", `\~`, "](", `]\(`, "$", `\$`,
	"&", "&amp;", "<", "&lt;", "://", `:\//`, "www.", `www\.`, "\r", " ", "\n", " ", "\t", " ")

// space is one that Markdown keeps at the ends of a line.
const space = "&#32;"

// opens is the beginning of a line that Markdown reads as a heading, a quote, an item of a
// list, a definition of a link, a checkbox or a table.
var opens = regexp.MustCompile(`^(?:[#>=[|:]|[+-]\B|[0-9]+[.)]\B)`)

// Cell returns Text of s as Markdown for the cell of a table whose writer escapes bars.
// Readers see s and nothing else: no picture, HTML, formatting or link.
func Cell(s string) string {
	s = markup.Replace(Text(s))
	var b strings.Builder
	for i := range len(s) {
		if s[i] == '_' && !(i > 0 && i+1 < len(s) && isWord(s[i-1]) && isWord(s[i+1])) { // no emphasis within a word
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return address.ReplaceAllString(b.String(), "$1<!-- -->$2")
}

// address matches the middle of a mail address. GitHub makes a link of an address whatever is
// escaped, so Cell puts an empty comment before the "@".
var address = regexp.MustCompile(`([A-Za-z0-9.!#$%&'*+/=?^_{|}~;-])(@[A-Za-z0-9_\\-]+\.[A-Za-z0-9])`)

func isWord(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// Markdown returns Text of s as one line of Markdown, of a paragraph, heading or item of a
// list, with the same promise as Cell.
func Markdown(s string) string {
	s = strings.ReplaceAll(Cell(s), "|", `\|`)
	if rest, ok := strings.CutPrefix(s, " "); ok { // not code, and a name of spaces is one
		s = space + rest
	}
	if rest, ok := strings.CutSuffix(s, " "); ok {
		s = rest + space
	}
	if at := opens.FindStringIndex(s); at != nil {
		s = s[:at[1]-1] + `\` + s[at[1]-1:]
	}
	if whole := strings.TrimSuffix(s, "#"); whole != s && !strings.HasSuffix(whole, `\`) { // the end of a heading
		s = whole + `\#`
	}
	return s
}

// Code returns Text of s as a code span of Markdown, for a cell whose writer escapes bars.
func Code(s string) string {
	s = strings.NewReplacer("\n", " ", "\t", " ").Replace(Text(s))
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if s == "" || strings.Trim(s, "` ") != s { // a space at both ends is not part of the code
		s = " " + s + " "
	}
	return fence + s + fence
}
