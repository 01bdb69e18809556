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

// newBar shows a bar of total steps on w if w is a terminal.
func newBar(w io.Writer, total int64, what string) *bar {
	b := &bar{w: w}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		b.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionShowCount(), progressbar.OptionShowIts(),
			progressbar.OptionSetItsString("rows"), progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true))
	}
	return b
}

// add advances the bar; any goroutine may call it.
func (b *bar) add(n int) {
	if b.bar != nil {
		_ = b.bar.Add(n) // a bar that cannot be drawn is no reason to stop
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
