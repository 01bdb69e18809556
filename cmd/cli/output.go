package cli

import (
	"fmt"
	"io"
)

// output is stdout; it keeps the first error, as help and many a line of text are
// written by what does not look.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("write output: %w", err)
	}
	return n, err
}
