package catalogue

import (
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/internal/text"
)

// Formats are the renderings of a list of entries.
var Formats = []string{"table", "json", "csv", "markdown"}

// Render writes entries in one of Formats. The table omits origins, commands and most of the
// digests. Text and the other formats have them.
func Render(w io.Writer, entries []Entry, format string) error {
	switch format {
	case "json":
		return text.WriteJSON(w, entries)
	case "csv":
		return fullTable(entries, func(commands []string) string { return strings.Join(commands, "\n") }).CSV(w)
	case "markdown":
		_, err := io.WriteString(w, fullTable(entries, code).RawMarkdown())
		return err
	case "table":
		return writeTable(w, entries)
	}
	return fmt.Errorf("format %q, expected one of %s", format, strings.Join(Formats, ", "))
}

// fullTable returns a table with every column and a line for each file of an entry, at least one. join
// makes one text of the commands that make an entry.
func fullTable(entries []Entry, join func(commands []string) string) *table.Table {
	t := table.New("name", "kind", "what", "licence", "origin", "file", "bytes", "sha256", "digest", "make", "note")
	for _, e := range entries {
		files := e.Files
		if len(files) == 0 {
			files = []File{{}}
		}
		for _, f := range files {
			t.Add(e.Name, e.Kind, e.What, e.Licence, e.Origin, f.Name, table.NonZero(int(f.Bytes)), f.SHA256, f.Digest, join(e.Make), e.Note)
		}
	}
	return t
}

// code returns commands as Markdown's inline code, one per line.
func code(commands []string) string {
	quoted := slice.Map(commands, func(c string) string { return "`" + c + "`" })
	return strings.Join(quoted, "\n")
}

func writeTable(w io.Writer, entries []Entry) error {
	t := table.New("name", "kind", "licence", "bytes", "SHA-256", "what").Right(3)
	for i := range entries {
		e := &entries[i]
		size, sum := e.short()
		t.Add(e.Name, e.Kind, e.Licence, size, sum, e.What)
	}
	_, err := fmt.Fprint(w, t.Text()+`
kvreplay datasets describe NAME prints the origin, the whole SHA-256 and the commands
that make an entry again. So do --format json, csv and markdown. Bytes and SHA-256 are
those of its files. – means that they depend on options.
`)
	return err
}

// short returns the size of the files and the beginning of the first one's SHA-256 for the table.
func (e *Entry) short() (size, sum string) {
	if len(e.Files) == 0 {
		return "–", "–"
	}
	bytes := slice.Sum(e.Files, func(f File) int64 { return f.Bytes })
	if sum = e.Files[0].SHA256[:12] + "…"; len(e.Files) > 1 {
		sum += fmt.Sprintf(" +%d", len(e.Files)-1)
	}
	return humanize.Comma(bytes), sum
}

// Text returns everything known about an entry.
func (e *Entry) Text() string {
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
			fact("", "digest "+f.Digest)
		}
	}
	for _, s := range e.Sources {
		fact("source", s.text())
	}
	fact("note", strings.Join(table.Wrap(e.Note, 80), "\n         "))
	fmt.Fprint(&b, "\nMade by\n")
	for _, c := range e.Make {
		fmt.Fprintf(&b, "  %s\n", c)
	}
	return b.String()
}

func (s *Source) text() string {
	line := s.Name
	if s.SHA256 != "" {
		line += ", SHA-256 " + s.SHA256
	}
	if s.Origin != "" {
		line += ", " + s.Origin
	}
	return line
}
