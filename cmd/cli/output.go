package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kvreplay/kvreplay/internal/printable"
)

// output is stdout; it keeps the first error, as help and many a line of text are
// written by what does not look.
type output struct {
	w    io.Writer
	text *printable.Writer // of w, where what is written is for people
	err  error
}

// forPeople says that what follows is no data format, in which names stand as they are.
func (o *output) forPeople() { o.text = printable.NewWriter(o.w) }

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

// close writes what is kept back and returns the first error.
func (o *output) close() error {
	if o.text != nil && o.err == nil {
		o.err = o.text.Flush()
	}
	return o.err
}

// messages is stderr, which is for people, whatever stdout is.
type messages struct{ w io.Writer }

func (m messages) Write(p []byte) (int, error) {
	if _, err := io.WriteString(m.w, printable.Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// indented is the text of an error with its further lines indented. A line feed in the name
// of a file cannot forge a message of its own this way.
func indented(err error) string { return strings.ReplaceAll(err.Error(), "\n", "\n  ") }

// dataFormats are what --format names that other programs read.
var dataFormats = []string{"json", "jsonl", "csv", "yaml"}

// printsData says whether a command was asked for data on stdout.
func printsData(fl *pflag.FlagSet) bool {
	format, flatten := fl.Lookup("format"), fl.Lookup("flatten")
	return format != nil && slices.Contains(dataFormats, format.Value.String()) || flatten != nil && flatten.Changed
}
