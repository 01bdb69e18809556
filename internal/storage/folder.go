package storage

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kvreplay/kvreplay/internal/files"
)

// folder is the Store of a folder. Names are paths below it.
type folder string

func (f folder) path(name string) (string, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", fmt.Errorf("name %q leaves the folder %s", name, string(f))
	}
	return filepath.Join(string(f), filepath.FromSlash(name)), nil
}

// Stat describes a file.
func (f folder) Stat(_ context.Context, name string) (Info, error) {
	path, err := f.path(name)
	if err != nil {
		return Info{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return Info{}, err
	}
	return Info{Name: name, Size: info.Size()}, nil
}

// Get opens a part of a file.
func (f folder) Get(_ context.Context, name string, from, to int64, _ string) (io.ReadCloser, Info, error) {
	path, err := f.path(name)
	if err != nil {
		return nil, Info{}, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, Info{}, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, Info{}, err
	}
	if from < 0 {
		from, to = max(0, info.Size()+from), -1
	}
	if to < 0 {
		to = info.Size()
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(file, from, to-from), file}, Info{Name: name, Size: info.Size()}, nil
}

// Put writes a file, with its folder if that is missing.
func (f folder) Put(_ context.Context, name string, r io.Reader, size int64) error {
	path, err := f.path(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return files.Rewrite(path, func(w io.Writer) error {
		n, err := io.Copy(w, r)
		if err == nil && n != size {
			err = fmt.Errorf("%d bytes, expected %d", n, size)
		}
		return err
	})
}

// Remove removes a file.
func (f folder) Remove(_ context.Context, name string) error {
	path, err := f.path(name)
	if err != nil {
		return err
	}
	return os.Remove(path)
}

// List describes the files below the folder. A folder that does not exist has none. It leaves out
// files that are being written, whose names begin with a dot.
func (f folder) List(ctx context.Context, prefix string) (list []Info, err error) {
	err = filepath.WalkDir(string(f), func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(string(f), path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(relative)
		if !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".") || !strings.HasPrefix(name, prefix) {
			return ctx.Err()
		}
		info, err := d.Info()
		if os.IsNotExist(err) {
			return nil // removed meanwhile
		}
		if err == nil {
			list = append(list, Info{Name: name, Size: info.Size()})
		}
		return err
	})
	sortNames(list)
	return list, err
}
