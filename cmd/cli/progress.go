package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// bar is a progress bar on a terminal and nothing elsewhere.
type bar struct {
	w   io.Writer
	bar *progressbar.ProgressBar
}

// newBar prepares a bar on w; it shows nothing before start, and nothing at all if w
// is no terminal.
func newBar(w io.Writer) *bar { return &bar{w: w} }

// terminal is the terminal that w writes to, nil if it is none.
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

// unknown is a total that is not known: the bar counts, and tells how fast.
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

// add advances the bar; any goroutine may call it.
func (b *bar) add(n int) {
	if b.bar != nil {
		_ = b.bar.Add(n) // a bar that cannot be drawn is no reason to stop
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

// close removes the bar.
func (b *bar) close() {
	if b.bar != nil {
		_ = b.bar.Finish()
		b.bar = nil
	}
}
