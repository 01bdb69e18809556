package cli

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/render"
	"github.com/kvreplay/kvreplay/metrics/render/figure"
)

// output is stdout. It keeps the first error, because help and most text is written by code
// that does not check.
type output struct {
	w    io.Writer
	text *printable.Writer // shows control characters, which data formats carry as they are. nil for data
	err  error
}

func (o *output) Write(p []byte) (int, error) {
	w := o.w
	if o.text != nil {
		w = o.text
	}
	n, err := w.Write(p)
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("write output: %w", err)
	}
	return n, err
}

func (o *output) close() error {
	if o.text != nil && o.err == nil {
		o.err = o.text.Flush()
	}
	return o.err
}

// messages is stderr, which is always for people.
type messages struct{ w io.Writer }

func (m messages) Write(p []byte) (int, error) {
	if _, err := io.WriteString(m.w, printable.Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// indented returns the text of an error with its further lines indented. A line feed in a file name
// then cannot forge a message.
func indented(err error) string { return strings.ReplaceAll(err.Error(), "\n", "\n  ") }

// dataFormats are the values of --format that other programs read.
var dataFormats = []string{"json", "jsonl", "csv", "yaml"}

// printsData reports whether a command prints data on stdout.
func printsData(fl *pflag.FlagSet) bool {
	format := fl.Lookup("format")
	return format != nil && slices.Contains(dataFormats, format.Value.String()) || fl.Changed("flatten")
}

// count returns "1 row", "2 rows" or "1,000 rows".
func count[N int | int64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return humanize.Comma(int64(n)) + " " + what + "s"
}

// checkOutput returns an error before the work if out is one of the inputs or not a regular
// file. An empty out is no output.
func checkOutput(command, out string, inputs []string) error {
	if out == "" {
		return nil
	}
	if err := files.Check(out, inputs...); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return nil
}

// filesOf returns the paths and, for folders, the files below that have one of the extensions.
// It skips files that it cannot read: the command reports them.
func filesOf(paths []string, extensions ...string) (found []string) {
	for _, path := range paths {
		_ = filepath.WalkDir(path, func(file string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && (file == path || slices.Contains(extensions, filepath.Ext(file))) {
				found = append(found, file)
			}
			return nil
		})
	}
	return found
}

// page prints a report as an HTML page that states its command and version.
func (c *call) page(name, finding string, r *table.Report, figures ...render.PageFigure) error {
	source := render.PageSource{Command: commandLine(slices.Concat(strings.Fields(name), c.args, c.given(name))...), Version: versionText()}
	return render.ReportPage(c.stdout, finding, r, figures, source)
}

// print prints a value as JSON, and in other formats by a function.
func (c *call) print(format string, value any, write func(io.Writer) error) error {
	if format == "json" {
		return text.WriteJSON(c.stdout, value)
	}
	return write(c.stdout)
}

// report prints a value as JSON, or its report as html, markdown, latex or csv, and in other formats as
// text. A page begins with the finding and has the figures. CSV is that of the first table.
func (c *call) report(format string, value any, finding string, r *table.Report, figures ...render.PageFigure) error {
	switch format {
	case "json":
		return text.WriteJSON(c.stdout, value)
	case "html":
		return c.page(commandName(c.Command), finding, r, figures...)
	case "markdown":
		return r.Markdown(c.stdout)
	case "latex":
		return r.Latex(c.stdout)
	case "csv":
		return r.Tables[0].CSV(c.stdout)
	}
	return r.Text(c.stdout)
}

// drawFile writes a figure in a format, and says so. The file is whole or missing.
func (c *call) drawFile(path, format string, f *figure.Figure) error {
	drawn, err := f.Draw(format)
	if err == nil {
		err = files.Write(path, drawn)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", commandName(c.Command), path, err)
	}
	c.wrote(path)
	return nil
}

// wrote prints the line for a file or folder that the command wrote. Details, such as counts, follow
// the path.
func (c *call) wrote(path string, details ...string) {
	c.bar.note("kvreplay: wrote %s", strings.Join(append([]string{path}, details...), ": "))
}

// bar is a progress bar on w. It shows nothing before start, and nothing at all if w is no terminal.
type bar struct {
	w   io.Writer
	bar *progressbar.ProgressBar
}

// terminal returns the terminal that w writes to, nil if it is none.
func terminal(w io.Writer) *os.File {
	switch wrapped := w.(type) {
	case messages:
		w = wrapped.w
	case *output:
		w = wrapped.w
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// unknown is a total that is not known: the bar shows a count and a rate.
const unknown = -1

// start shows the bar with total units of what: how far, how fast, how long still.
func (b *bar) start(total int64, what, unit string) {
	if f := terminal(b.w); f != nil && total != 0 {
		b.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(f), progressbar.OptionSetDescription(what),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionShowCount(), progressbar.OptionShowIts(),
			progressbar.OptionSetItsString(unit), progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true))
		_ = b.bar.RenderBlank() // at once: the first step may take long
	}
}

// add advances the bar. Any goroutine may call it.
func (b *bar) add(n int) {
	if b.bar != nil {
		_ = b.bar.Add(n) // a bar that cannot be drawn is no reason to stop
	}
}

// counts returns a function that shows how many of a total are done. The first call starts the bar.
func (b *bar) counts(what, unit string) func(done, total int) {
	return func(done, total int) {
		if done == 0 {
			b.start(int64(total), what, unit)
			return
		}
		b.add(1)
	}
}

// to advances the bar to n units in all.
func (b *bar) to(n int64) {
	if b.bar != nil {
		_ = b.bar.Set64(n)
	}
}

// note prints a line without tearing the bar.
func (b *bar) note(format string, args ...any) {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
	fmt.Fprintf(b.w, format+"\n", args...)
}

func (b *bar) close() {
	if b.bar != nil {
		_ = b.bar.Finish()
		b.bar = nil
	}
}
