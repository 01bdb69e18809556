package cli

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/kvreplay/kvreplay/internal/files"
)

// checkOutput says before the work why a command must not write out: it is one of the
// inputs, or no regular file. No output was asked for where out is empty.
func checkOutput(command, out string, inputs []string) error {
	if out == "" {
		return nil
	}
	if err := files.Check(out, inputs...); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return nil
}

// filesOf are the paths and, of folders among them, the files below that have one of the
// extensions. What cannot be read is left to the command, which says so.
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
