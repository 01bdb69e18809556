package reproduce

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/kvreplay/kvreplay/metrics/render/texttable"
)

// figuresFolder is the folder of the figures, in the folder of the Markdown.
const figuresFolder = "reproduction"

const (
	markdownHead = `# Figures that papers print, and what kvreplay computes

` + "`kvreplay reproduce all`" + ` prints this document. [reproduce](reproduce/README.md) says how the figures are made.

`
	markdownLegend = `A *gate* is the largest error that passes. A *known miss* is past its gate, or a statement that does not hold, and its note gives the reason. It counts as judged. A line *past* its gate has no known reason, and the command fails. *Printed* holds numbers as the paper prints them. *Reference* holds all other numbers that ours are compared with, and a line below the table says where they come from.

`
	// The README shows the text between these marks.
	splitBegins, splitEnds = "<!-- split -->\n", "<!-- end of split -->\n"
)

// RenderMarkdown writes the report as Markdown (GitHub's tables). figures says whether the
// figures lie beside it.
func (r *Report) RenderMarkdown(w io.Writer, figures bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s%s\n\n%s\n%s\n%s\n\n", markdownHead, splitBegins, r.Headline(), r.byKind().RenderMarkdown(), splitEnds, r.byPaper().RenderMarkdown())
	if gaps := r.gaps(); gaps != "" {
		fmt.Fprintf(&b, "%s Each paper's part of this document ends with their list.\n\n", gaps)
	}
	b.WriteString(markdownLegend)
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
		p.markdownGaps(&b)
	}
	return writeTrimmed(w, b.String())
}

func (s *Section) markdown(b *strings.Builder, paper string, figures bool) {
	fmt.Fprintf(b, "\n<a id=\"%s-%s\"></a>\n\n### %s\n\n%s\n", paper, s.Name, escape(s.Title), escape(s.Method))
	list(b, "Assumptions", s.Assumptions)
	var constants []string
	for i := range s.Constants {
		constants = append(constants, s.Constants[i].text())
	}
	list(b, "Constants", constants)
	if len(s.Lines) > 0 {
		fmt.Fprintf(b, "\n%s\n", s.lines(true, escape).RenderMarkdown())
	}
	for _, r := range s.references() {
		fmt.Fprintf(b, "\n%s\n", escape(r))
	}
	fmt.Fprintf(b, "\n%s.\n", s.Summary())
	list(b, "Contradictions within the paper", s.Contradictions)
	for _, f := range s.Figures {
		if figures {
			fmt.Fprintf(b, "\n![%s](%s/%s.svg)\n", escape(f.Alt), figuresFolder, f.Name)
		}
	}
}

// list writes items under a heading, nothing if there are none.
func list(b *strings.Builder, heading string, items []string) {
	for i, item := range items {
		if i == 0 {
			fmt.Fprintf(b, "\n%s:\n\n", heading)
		}
		fmt.Fprintf(b, "- %s\n", escape(item))
	}
}

// markdownGaps lists the figures of the paper that have no line.
func (p *Reproduced) markdownGaps(b *strings.Builder) {
	if len(p.Gaps) == 0 {
		return
	}
	t := texttable.New(table.Row{"place", "shows", "printed numbers", "why no line exists"})
	for _, g := range p.Gaps {
		t.AppendRow(table.Row{g.Place, escape(g.Shows), escape(strings.Join(g.Prints, ", ")), escape(g.Why)})
	}
	fmt.Fprintf(b, "\n### Figures of the paper without a line\n\n%s\n", t.RenderMarkdown())
}

// escape returns the text such that Markdown shows it as it is.
func escape(s string) string {
	return strings.NewReplacer("\\", "\\\\", "*", "\\*", "_", "\\_", "`", "\\`", "<", "&lt;", "\n", " ").Replace(s)
}
