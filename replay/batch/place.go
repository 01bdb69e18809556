package batch

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/storage"
)

// place is the storage of packs that all machines of a batch see: a folder, or s3://bucket/prefix.
type place struct {
	store storage.Store
	at    string
}

// openPlace returns the storage of packs. It makes a folder that does not exist.
func openPlace(at string) (place, error) {
	if !storage.IsURL(at) {
		if err := files.MakeFolder(at); err != nil {
			return place{}, err
		}
		files.Sweep(at)
	}
	return readPlace(at)
}

// readPlace returns the storage of packs and makes nothing.
func readPlace(at string) (place, error) {
	store, err := storage.At(at)
	return place{store, at}, err
}

// get returns the bytes of a file, or an error that is fs.ErrNotExist.
func (p place) get(name string) ([]byte, error) {
	return storage.ReadFile(context.Background(), p.store, name, mostPack)
}

// put writes a file, which appears whole or not at all and replaces another of its name. It also
// does so after SIGTERM.
func (p place) put(name string, text []byte) error {
	return p.store.Put(context.Background(), name, bytes.NewReader(text), int64(len(text)))
}

// list returns the names of all files. A folder that does not exist has none.
func (p place) list() (names []string, err error) {
	list, err := p.store.List(context.Background(), "")
	names = slice.Map(list, func(info storage.Info) string { return info.Name })
	return names, err
}

// drop removes a file that is of no more use.
func (p place) drop(name string) {
	_ = p.store.Remove(context.Background(), name) // harmless if it stays
}

// name returns the name of a file for messages.
func (p place) name(file string) string { return join(p.at, file) }

// join returns the path of a file in a folder or below a URL.
func join(folder, file string) string {
	if storage.IsURL(folder) {
		return strings.TrimSuffix(folder, "/") + "/" + file
	}
	return filepath.Join(folder, filepath.FromSlash(file))
}

// split divides a path or a URL into folder and name.
func split(path string) (folder, name string) {
	if storage.IsURL(path) {
		at := strings.LastIndexByte(path, '/')
		return path[:at+1], path[at+1:]
	}
	return filepath.Dir(path), filepath.Base(path)
}

// openFolder returns the storage and the name of a file.
func openFolder(path string) (place, string, error) {
	folder, name := split(path)
	p, err := readPlace(folder)
	return p, name, err
}

// sizeOf returns the bytes of a file or an object.
func sizeOf(path string) (int64, error) {
	p, name, err := openFolder(path)
	if err != nil {
		return 0, err
	}
	info, err := p.store.Stat(context.Background(), name)
	return info.Size, err
}
