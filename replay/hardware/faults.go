package hardware

import (
	"errors"
	"fmt"
	"strings"
)

// faults collects what is wrong with an item, each with its file, line and field.
type faults struct {
	file  string
	lines map[string]int // of fields by their path, "host_to_device.call.regimes[1].rate"
	errs  []error
}

// at notes what is wrong with a field, as a sentence that begins with its path.
func (f *faults) at(path, format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf("%s:%d: %s "+format, append([]any{f.file, f.line(path), path}, args...)...))
}

// line is where a field stands or, if the file does not have it, what it belongs to.
func (f *faults) line(path string) int {
	for {
		if line, ok := f.lines[path]; ok {
			return line
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return 1
		}
		path = path[:i]
	}
}

func (f *faults) err() error { return errors.Join(f.errs...) }
