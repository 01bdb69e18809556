package table_test

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/table"
)

// Names from rows are never commands of LaTeX.
func TestLatex(t *testing.T) {
	tab := table.New("policy", "× OPT").Right(1)
	tab.Title = "50 % of A & B"
	tab.Add(`\input{x}`, "1.5 ±2")
	tab.Add("[a]_^~$#", "-")
	tab.Line()
	tab.Add("bound\x1b[2J\nnext", "¹")
	tab.Notes = []string{"one\nnote"}
	const want = `\begin{table}
  \caption{50 \% of A \& B}
  \begin{tabular}{lr}
  \toprule
  policy & $\times$ OPT \\
  \midrule
  \textbackslash{}input\{x\} & 1.5 $\pm$2 \\
  {}[a]\_\textasciicircum{}\textasciitilde{}\$\# & - \\
  \midrule
`
	got := tab.Latex()
	if !strings.HasPrefix(got, want) {
		t.Errorf("got:\n%s\nexpected:\n%s", got, want)
	}
	if strings.ContainsRune(got, 0x1b) || !strings.HasSuffix(got, "\\end{table}\n% one\\nnote\n") || !strings.Contains(got, "$^{1}$") {
		t.Errorf("got:\n%q", got)
	}
	var out strings.Builder
	if err := (&table.Report{Tables: []*table.Table{tab, tab}, Footnotes: []string{"last"}}).Latex(&out); err != nil || out.String() != got+"\n"+got+"% last\n" {
		t.Errorf("%v:\n%s", err, out.String())
	}
}
