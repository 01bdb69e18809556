package reproduce

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/kvreplay/kvreplay/metrics/texttable"
)

// figuresFolder is where the Markdown expects the figures, beside it.
const figuresFolder = "reproduction"

const (
	markdownHead = `# What the papers printed, and what kvreplay computes

Everything below is printed by ` + "`kvreplay reproduce all`" + `; [reproduce](reproduce/README.md) says how the figures are made and what a status is worth.

`
	markdownLegend = `A figure is *judged* against a gate, a statement by whether it holds. *Known misses* do not meet theirs, for the reason in the note; they are part of what is judged and of the *worst error*. What is *past* its gate has no such reason: the command fails. *Fitted* cells gave a constant and prove nothing; what is *not reproducible* does not follow from what the paper prints.

`
)

// RenderMarkdown writes the report as Markdown (GitHub's tables). figures says whether the
// figures lie beside it.
func (r *Report) RenderMarkdown(w io.Writer, figures bool) error {
	var b strings.Builder
	b.WriteString(markdownHead)
	fmt.Fprintf(&b, "In all: %s.\n\n%s", r.total(), markdownLegend)
	all := texttable.New(summaryHeader, 3, 4, 5, 6, 7, 8, 9)
	for _, p := range r.Papers {
		for i := range p.Sections {
			s := &p.Sections[i]
			all.AppendRow(s.sum(p.Name, fmt.Sprintf("[%s](#%s-%s)", escape(s.Title), p.Name, s.Name)))
		}
	}
	fmt.Fprintf(&b, "%s\n", all.RenderMarkdown())
	for _, p := range r.Papers {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", p.Name, escape(p.Citation))
		for i := range p.Sections {
			p.Sections[i].markdown(&b, p.Name, figures)
		}
	}
	return writeTrimmed(w, b.String())
}

func (s *Section) markdown(b *strings.Builder, paper string, figures bool) {
	fmt.Fprintf(b, "\n<a id=\"%s-%s\"></a>\n\n### %s\n\n%s\n", paper, s.Name, escape(s.Title), escape(s.Method))
	for i := range s.Constants {
		if i == 0 {
			b.WriteString("\nConstants:\n\n")
		}
		fmt.Fprintf(b, "- %s\n", escape(s.Constants[i].text()))
	}
	if len(s.Lines) > 0 {
		fmt.Fprintf(b, "\n%s\n", s.noted().RenderMarkdown())
	}
	fmt.Fprintf(b, "\n%s.\n", s.Summary())
	for i, c := range s.Contradictions {
		if i == 0 {
			b.WriteString("\nWhere the paper contradicts itself:\n\n")
		}
		fmt.Fprintf(b, "- %s\n", escape(c))
	}
	for _, f := range s.Figures {
		if figures {
			fmt.Fprintf(b, "\n![%s](%s/%s.svg)\n", escape(f.Alt), figuresFolder, f.Name)
		}
	}
}

// noted is the table of lines with their notes, where some line has one.
func (s *Section) noted() table.Writer {
	header, any := append(table.Row{}, lineHeader...), false
	for i := range s.Lines {
		any = any || s.Lines[i].Note != ""
	}
	if any {
		header = append(header, "note")
	}
	t := texttable.New(header, 2, 3, 4)
	for i := range s.Lines {
		row := s.Lines[i].row()
		row[0] = escape(s.Lines[i].Item)
		if any {
			row = append(row, escape(s.Lines[i].Note))
		}
		t.AppendRow(row)
	}
	return t
}

// escape keeps words from being read as markup.
func escape(s string) string {
	return strings.NewReplacer("\\", "\\\\", "*", "\\*", "_", "\\_", "`", "\\`", "<", "&lt;", "\n", " ").Replace(s)
}
