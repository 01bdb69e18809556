package files

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// yaml are the extensions of YAML files.
var yaml = []string{".yaml", ".yml"}

// IsYAML reports whether a file has the name of a YAML file.
func IsYAML(name string) bool { return slices.Contains(yaml, path.Ext(name)) }

// YAML returns the paths of the YAML files in a folder, sorted by name. A folder without one is an
// error.
func YAML(folder string) (paths []string, err error) {
	paths, err = Ending(folder, yaml...)
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("%s has no *.yaml or *.yml: name another folder", folder)
	}
	return paths, err
}

// Ending returns the paths of the files in a folder whose names have one of the endings, sorted by
// name.
func Ending(folder string, endings ...string) (paths []string, err error) {
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if !e.IsDir() && slices.ContainsFunc(endings, func(end string) bool { return strings.HasSuffix(e.Name(), end) }) {
			paths = append(paths, filepath.Join(folder, e.Name()))
		}
	}
	return paths, err
}

// smallLimit is the largest file that ReadSmall reads, in bytes.
const smallLimit = 1 << 20

// ReadSmall reads a file of at most 1 MiB that people write, and that may be read again.
func ReadSmall(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder, expected a file", name)
	case info.Size() > smallLimit:
		return nil, fmt.Errorf("%s has %d bytes, expected at most %d", name, info.Size(), smallLimit)
	}
	if err := CheckInput(name); err != nil {
		return nil, err
	}
	return os.ReadFile(name)
}
