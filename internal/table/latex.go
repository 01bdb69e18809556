package table

import (
	"io"
	"strings"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// latex escapes the characters that LaTeX reads as commands, and writes signs in math mode. Other
// characters stay, for engines that read UTF-8.
var latex = strings.NewReplacer(`\`, `\textbackslash{}`, "{", `\{`, "}", `\}`, "$", `\$`, "&", `\&`, "%", `\%`, "#", `\#`, "_", `\_`,
	"~", `\textasciitilde{}`, "^", `\textasciicircum{}`, "<", `\textless{}`, ">", `\textgreater{}`, `"`, `''`,
	"×", `$\times$`, "÷", `$\div$`, "±", `$\pm$`, "≈", `$\approx$`, "≤", `$\leq$`, "≥", `$\geq$`, "−", "$-$", "…", `\ldots{}`, "–", "--",
	"⁰", "$^{0}$", "¹", "$^{1}$", "²", "$^{2}$", "³", "$^{3}$", "⁴", "$^{4}$", "⁵", "$^{5}$", "⁶", "$^{6}$", "⁷", "$^{7}$", "⁸", "$^{8}$", "⁹", "$^{9}$")

// Latex renders the table for the package booktabs, with the title as the caption. Notes are comments.
func (t *Table) Latex() string {
	var out strings.Builder
	n := t.columns()
	write := func(row []string) {
		cells := make([]string, n)
		for c := range row {
			cells[c] = latex.Replace(strings.TrimSpace(printable.Line(row[c])))
		}
		if strings.HasPrefix(cells[0], "[") { // would be the argument of the line end before
			cells[0] = "{}" + cells[0]
		}
		out.WriteString("  " + strings.Join(cells, " & ") + ` \\` + "\n")
	}
	columns := ""
	for c := range n {
		columns += map[bool]string{true: "r", false: "l"}[t.right[c]]
	}
	out.WriteString("\\begin{table}\n  \\caption{" + latex.Replace(printable.Line(t.Title)) + "}\n  \\begin{tabular}{" + columns + "}\n  \\toprule\n")
	if t.Header != nil {
		write(t.Header)
		out.WriteString("  \\midrule\n")
	}
	for i, row := range t.rows {
		write(row)
		if t.lines[i] && i+1 < len(t.rows) {
			out.WriteString("  \\midrule\n")
		}
	}
	out.WriteString("  \\bottomrule\n  \\end{tabular}\n\\end{table}\n")
	for _, note := range t.Notes {
		out.WriteString("% " + printable.Line(note) + "\n")
	}
	return out.String()
}

// Latex writes the tables of the report for the package booktabs. Notes are comments.
func (r *Report) Latex(w io.Writer) error {
	out := strings.Join(slice.Map(r.Tables, (*Table).Latex), "\n")
	for _, note := range r.Footnotes {
		out += "% " + printable.Line(note) + "\n"
	}
	_, err := io.WriteString(w, out)
	return err
}
