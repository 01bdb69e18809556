package cli

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

// openTraces opens every trace before anything is replayed, so that a wrong name or a
// broken file costs no work, and counts the rows to come.
func openTraces(paths []string, o *replay.Options) (files []*trace.File, total int64, err error) {
	seen := map[string]bool{}
	for _, path := range paths {
		if seen[path] {
			return files, 0, usagef("trace %s is named twice", path)
		}
		seen[path] = true
		f, err := trace.Open(path)
		if err != nil {
			return files, 0, err
		}
		files = append(files, f)
		n, err := replay.Rows(f, *o)
		if err != nil {
			return files, 0, fmt.Errorf("replay %s: %w", path, err)
		}
		total += n
	}
	return files, total, nil
}

func closeAll(files []*trace.File) {
	for _, f := range files {
		f.Close()
	}
}
