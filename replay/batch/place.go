package batch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/trace"
)

// place is the storage that all machines of a batch see. Only this file knows that it is a folder.
type place struct{ folder string }

// openPlace returns the storage of packs. It makes the folder if it does not exist.
func openPlace(folder string) (place, error) {
	if err := files.MakeFolder(folder); err != nil {
		return place{}, err
	}
	files.Sweep(folder)
	return place{folder}, nil
}

// get returns the bytes of a file, or an error that is fs.ErrNotExist.
func (p place) get(name string) ([]byte, error) { return os.ReadFile(filepath.Join(p.folder, name)) }

// put writes a file, which appears whole or not at all and replaces another of its name.
func (p place) put(name string, text []byte) error {
	return files.Write(filepath.Join(p.folder, name), text)
}

// list returns the names of all files. A folder that does not exist has none.
func (p place) list() (names []string, err error) {
	entries, err := os.ReadDir(p.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// remove removes a file if it exists.
func (p place) remove(name string) error {
	if err := os.Remove(filepath.Join(p.folder, name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// name returns the name of a file for messages.
func (p place) name(file string) string { return filepath.Join(p.folder, file) }

// openTrace opens a trace.
func openTrace(path string) (*trace.File, error) { return trace.Open(path) }

// sizeOf returns the bytes of a trace.
func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
