package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// MakeFolder makes a folder and those above it, where they are not there yet. An error says
// what lies in the place of one.
func MakeFolder(folder string) error {
	err := os.MkdirAll(folder, 0o755)
	var path *fs.PathError
	if !errors.As(err, &path) {
		return err
	}
	info, missing := os.Stat(path.Path)
	_, unlinked := os.Lstat(path.Path)
	switch {
	case missing == nil && info.Mode().IsRegular():
		return fmt.Errorf("%s is a file, expected a folder or a new name", path.Path)
	case missing == nil && !info.IsDir():
		return fmt.Errorf("%s is %s, expected a folder or a new name", path.Path, kind(info.Mode()))
	case errors.Is(missing, fs.ErrNotExist) && unlinked == nil:
		return fmt.Errorf("%s is a symbolic link to nothing, expected a folder or a new name", path.Path)
	}
	return err
}

// Matching returns the files of a folder whose names match the pattern (path.Match), with
// the folder, by name. The name of the folder itself is no pattern.
func Matching(folder, pattern string) ([]string, error) {
	names, err := fs.Glob(os.DirFS(folder), pattern)
	for i, name := range names {
		names[i] = filepath.Join(folder, name)
	}
	return names, err
}
