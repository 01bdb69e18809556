package catalogue

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Formats are the renderings of a list of entries.
var Formats = []string{"table", "json", "csv", "markdown"}

// Render writes entries in one of Formats. Table leaves out origins, commands and most
// of the digests, which Text and the other formats have.
func Render(w io.Writer, entries []Entry, format string) error {
	switch format {
	case "json":
		return writeJSON(w, entries)
	case "csv":
		return writeCSV(w, entries)
	case "markdown":
		return writeMarkdown(w, entries)
	case "table":
		return writeTable(w, entries)
	}
	return fmt.Errorf("format %q, expected one of %s", format, strings.Join(Formats, ", "))
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// columns are those of CSV and Markdown.
var columns = []string{"name", "kind", "what", "licence", "origin", "file", "bytes", "sha256", "digest", "make", "note"}

// lines are an entry's, one a file, at least one.
func (e *Entry) lines() [][]string {
	files := e.Files
	if len(files) == 0 {
		files = []File{{}}
	}
	var lines [][]string
	for _, f := range files {
		size := ""
		if f.Bytes > 0 {
			size = strconv.FormatInt(f.Bytes, 10)
		}
		lines = append(lines, []string{e.Name, string(e.Kind), e.What, e.Licence, e.Origin, f.Name, size, f.SHA256, f.Digest, strings.Join(e.Make, "\n"), e.Note})
	}
	return lines
}

func writeCSV(w io.Writer, entries []Entry) error {
	c := csv.NewWriter(w)
	lines := [][]string{columns}
	for i := range entries {
		lines = append(lines, entries[i].lines()...)
	}
	if err := c.WriteAll(lines); err != nil {
		return fmt.Errorf("write catalogue: %w", err)
	}
	return nil
}

func writeMarkdown(w io.Writer, entries []Entry) error {
	t := table.NewWriter()
	row := func(cells []string) table.Row {
		r := make(table.Row, len(cells))
		for i, c := range cells {
			r[i] = c
		}
		return r
	}
	t.AppendHeader(row(columns))
	for i := range entries {
		for _, cells := range entries[i].lines() {
			cells[9] = code(entries[i].Make)
			t.AppendRow(row(cells))
		}
	}
	_, err := fmt.Fprintln(w, t.RenderMarkdown())
	return err
}

// code is commands as Markdown's inline code, a line each.
func code(commands []string) string {
	quoted := make([]string, len(commands))
	for i, c := range commands {
		quoted[i] = "`" + c + "`"
	}
	return strings.Join(quoted, "\n")
}

func writeTable(w io.Writer, entries []Entry) error {
	t := table.NewWriter()
	style := table.StyleLight
	style.Format = table.FormatOptions{Header: text.FormatDefault, Row: text.FormatDefault}
	style.Options = table.Options{SeparateHeader: true}
	t.SetStyle(style)
	t.SetColumnConfigs([]table.ColumnConfig{
		{Name: "bytes", Align: text.AlignRight, AlignHeader: text.AlignRight},
		{Name: "licence", WidthMax: 18, WidthMaxEnforcer: text.WrapSoft},
		{Name: "what", WidthMax: 56, WidthMaxEnforcer: text.WrapSoft},
	})
	t.AppendHeader(table.Row{"name", "kind", "licence", "bytes", "digest", "what"})
	for i := range entries {
		e := &entries[i]
		size, digest := e.short()
		t.AppendRow(table.Row{e.Name, e.Kind, e.Licence, size, digest, e.What})
	}
	for line := range strings.Lines(t.Render() + "\n") {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	_, err := fmt.Fprint(w, `
Origin, digests in full, and the commands that make it again: kvreplay datasets
describe NAME, or --format json, csv or markdown. bytes and digest are of the files that
it makes or names; – where they depend on what is asked for.
`)
	return err
}

// short is size and digest for the table: of a trace its content's.
func (e *Entry) short() (size, digest string) {
	if len(e.Files) == 0 {
		return "–", "–"
	}
	var bytes int64
	for _, f := range e.Files {
		bytes += f.Bytes
	}
	digest = e.Files[0].SHA256
	if d, ok := strings.CutPrefix(e.Files[0].Digest, "sha256:"); ok {
		digest = d
	}
	if digest = digest[:12] + "…"; len(e.Files) > 1 {
		digest += fmt.Sprintf(" +%d", len(e.Files)-1)
	}
	return humanize.Comma(bytes), digest
}

// Text writes all that is known of an entry for people.
func (e *Entry) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\n", e.Name, e.What)
	fact := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-8s %s\n", name, value)
		}
	}
	fact("kind", string(e.Kind))
	fact("licence", e.Licence)
	fact("origin", e.Origin)
	for _, f := range e.Files {
		fact("file", fmt.Sprintf("%s, %s bytes", f.Name, humanize.Comma(f.Bytes)))
		fact("", "SHA-256 "+f.SHA256)
		if f.Digest != "" {
			fact("", "content "+f.Digest)
		}
	}
	for _, s := range e.Sources {
		fact("source", s.text())
	}
	fact("note", strings.ReplaceAll(text.WrapSoft(e.Note, 80), "\n", "\n         "))
	fmt.Fprint(&b, "\nMade by\n")
	for _, c := range e.Make {
		fmt.Fprintf(&b, "  %s\n", c)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *Source) text() string {
	text := s.Name
	if s.SHA256 != "" {
		text += ", SHA-256 " + s.SHA256
	}
	if s.Origin != "" {
		text += ", " + s.Origin
	}
	return text
}
