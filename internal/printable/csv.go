package printable

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// formula are the first characters that make spreadsheets compute a cell instead of showing
// it (OWASP, "CSV Injection"): the ASCII ones and their full-width forms.
const formula = "=+-@\t\r\n＝＋－＠"

// quote marks a cell as text, as in spreadsheets.
const quote = "'"

// CSV returns the text of a cell that spreadsheets show and do not compute: a quote goes
// before the beginning of a formula. FromCSV removes it. Numbers get none.
func CSV(s string) string {
	if computed(s) {
		return quote + s
	}
	return s
}

// FromCSV returns the text that CSV was given.
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

// computed reports whether CSV puts a quote before s: s is a formula, or a formula that has
// quotes already, which FromCSV has to leave.
func computed(s string) bool {
	s = strings.TrimLeft(s, quote)
	first, size := utf8.DecodeRuneInString(s)
	if size == 0 || !strings.ContainsRune(formula, first) {
		return false
	}
	_, err := strconv.ParseFloat(s, 64)
	return err != nil
}
