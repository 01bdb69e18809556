package card

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/trace/inspect"
)

const none = "–" // no value: nothing to divide by, or not in the trace

// percent is a share to a tenth of a percent.
func percent(s share) string {
	if !s.ok {
		return none
	}
	return strconv.FormatFloat(100*s.v, 'f', 1, 64) + " %"
}

// spanOf is "5.0 %" or "5.0 % to 9.0 %".
func spanOf(values []share) string {
	var least, most share
	for _, v := range values {
		if v.ok && (!least.ok || v.v < least.v) {
			least = v
		}
		if v.ok && (!most.ok || v.v > most.v) {
			most = v
		}
	}
	if percent(least) == percent(most) {
		return percent(least)
	}
	return percent(least) + " to " + percent(most)
}

func decimals(s share, n int) string {
	if !s.ok {
		return none
	}
	return strconv.FormatFloat(s.v, 'f', n, 64)
}

func whole(v *float64) string {
	if v == nil {
		return none
	}
	return strconv.FormatFloat(*v, 'f', 0, 64)
}

// span is "5" or "5 to 9".
func span(values []int) string {
	least, most := slices.Min(values), slices.Max(values)
	if least == most {
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// ranges writes numbers, in any order, as "0, 5, 10-20".
func ranges(values []int32) string {
	return inspect.Ranges(slices.Compact(slices.Sorted(slices.Values(values))))
}

// and joins words as "a, b and c".
func and(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// codeBegins and codeEnds enclose the text of a code span in a cell. Texts of traces may
// contain them: whatever lies between them is escaped, too.
const codeBegins, codeEnds = "\x0e", "\x0f"

// code marks a text of a cell as code.
func code(s string) string { return codeBegins + s + codeEnds }

// cell is the Markdown of a cell, in which nothing but code is markup.
func cell(s string) string {
	before, rest, _ := strings.Cut(s, codeBegins)
	text := printable.Cell(before)
	if rest != "" {
		inside, after, _ := strings.Cut(rest, codeEnds)
		text += printable.Code(inside) + cell(after)
	}
	return strings.ReplaceAll(text, "|", `\|`)
}

// markdown is a table of texts; columns from the given one on are numbers, right aligned.
// Without rows it is empty.
func markdown(numbers int, header []string, rows [][]string) string {
	for _, r := range rows {
		for i, c := range r {
			r[i] = cell(c)
		}
	}
	return table(numbers, header, rows)
}

// table is markdown of cells that are Markdown already.
func table(numbers int, header []string, rows [][]string) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(header)
	var rule []string
	for i := range header {
		if i >= numbers {
			rule = append(rule, "---:")
		} else {
			rule = append(rule, "---")
		}
	}
	line(rule)
	for _, r := range rows {
		line(r)
	}
	return b.String()
}
