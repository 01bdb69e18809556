package printable

import (
	"regexp"
	"strings"
)

// markup are the texts with a meaning inside a line in GitHub's Markdown: emphasis, code,
// strikethrough, links, formulas, HTML and entities.
var markup = strings.NewReplacer(`\`, `\\`, "*", `\*`, "`", "\\`", "~", `\~`, "](", `]\(`, "$", `\$`,
	"&", "&amp;", "<", "&lt;", "://", `:\//`, "www.", `www\.`, "\r", " ", "\n", " ", "\t", " ")

// space is a space that Markdown keeps at the ends of a line.
const space = "&#32;"

// opens matches the beginning of a line that Markdown reads as a block: a heading, a quote, a list
// item, a link definition, a checkbox or a table.
var opens = regexp.MustCompile(`^(?:[#>=[|:]|[+-]\B|[0-9]+[.)]\B)`)

// Cell returns Text of s as Markdown for a table cell whose writer escapes bars. Readers see
// exactly s, without pictures, HTML, formatting or links.
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

// address matches the middle of a mail address. GitHub makes a link of an address despite escapes,
// so Cell puts an empty comment before the "@".
var address = regexp.MustCompile(`([A-Za-z0-9.!#$%&'*+/=?^_{|}~;-])(@[A-Za-z0-9_\\-]+\.[A-Za-z0-9])`)

func isWord(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// Markdown returns Text of s as one line of Markdown: a paragraph, a heading or a list item.
// Readers see exactly s, as with Cell.
func Markdown(s string) string {
	s = strings.ReplaceAll(Cell(s), "|", `\|`)
	if rest, ok := strings.CutPrefix(s, " "); ok { // not code, even if the name consists of spaces
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
	if s == "" || strings.Trim(s, "` ") != s { // Markdown strips one space at both ends of a code span
		s = " " + s + " "
	}
	return fence + s + fence
}
