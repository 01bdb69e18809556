package tracetest

import (
	"math/rand/v2"
	"strings"
)

// Hostile are texts that attack the readers of names: terminals, spreadsheets, browsers,
// Markdown, shells and file systems.
var Hostile = []string{
	"x\x1b[31m\x1b]0;title\x07", "\u009b31m\u0090q\u009c", "a\rb\x08\x7f\x00", "t\u202ecod.exe\u2066\u200f",
	"l\u200br\u200du\u2060\ufeff\u00ad\ufe0f\u115f\u3164", "\U000e0041\U000e0042", "line\u2028par\u2029end", "\xff\xfe\xc0\x80\xed\xa0\x80", "\ufffe\uffff\U0010ffff\ufffd",
	"line\nFORGED: every check passed", "\r\nFORGED,1,2\r\n", "\tFORGED",
	"=1+1", "+1+1", "-2+3+cmd|' /C calc'!A0", "@SUM(1,1)", "\t=1", "'=1", "''", "＝1+1", "=HYPERLINK(\"http://a.example\",\"b\")", "a,\"=1\"", "-1", "1e5",
	"<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</text></svg><script>", "<!--", "-->", "]]>", "<![CDATA[", "&lt;b&gt;&#60;&copy;", "<https://a.example>", "<a@b.example>",
	"[a](javascript:alert)", "![a](http://a.example/x.png)", "[a]: http://a.example", "[^1]: hidden", "[^1]", "[x] done", "[ ]", "](", "\\](a)", "http://a.example www.a.example ftp://a a@b.example",
	"# heading", "heading #", "###", "> quote", "- item", "+ item", "* item", "1. item", "2) item", "---", "***", "===", "    code", "```", "~~~", "`code`", "``", "`` ` ``",
	"*a*", "**a**", "_a_", "~~a~~", "$x$", "$`x`$", "a|b", "a\\|b", "a\\", "\\", "\\\\`", "|---|", "| a | b |", "||", "a  ", " ",
	"../../etc/x", "/etc/passwd", "a/b", "a\\b", "..", ".", ".hidden", "-rf", "--out=x", "~root", "C:x", "con", "NUL.txt", "LPT¹", "a:b", "*", "?", "[a-z]", "{a,b}", "a b", "$(touch x)", "`touch x`", ";touch x", "a&b", "!!", "a'b", "\"", "%s%n%d", "{{.}}", "%PATH%",
	"漢字 é 🙂", strings.Repeat("x", 300), strings.Repeat("é", 150), strings.Repeat("\u202e", 80), "",
}

// HostileText draws a text that is made of pieces of Hostile and of any characters.
func HostileText(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(5) {
		piece := Hostile[r.IntN(len(Hostile))]
		switch r.IntN(5) {
		case 0:
			piece = piece[:r.IntN(len(piece)+1)]
		case 1:
			b.WriteRune(rune(r.IntN(0x80)))
		case 2:
			b.WriteRune(rune(r.IntN(0x3100)))
		case 3:
			b.WriteByte(byte(r.IntN(0x100)))
		}
		b.WriteString(piece)
	}
	return b.String()
}
