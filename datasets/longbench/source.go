package longbench

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/internal/bom"
	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/gunzip"
	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// file is one file of rows, on disk or in a zip.
type file struct {
	path   string // for messages: folder/a.jsonl, data.zip/data/a.jsonl
	name   string // for manifests, without folders
	open   func() (io.ReadCloser, error)
	digest string // sha256:…, after all of it was read
}

// onDisk returns a file outside of zips. Reading it ends with ctx.
func onDisk(ctx context.Context, path string) *file {
	return &file{path: path, name: filepath.Base(path), open: func() (io.ReadCloser, error) { return files.Open(ctx, path) }}
}

// values streams the file's rows. Afterwards its digest is known.
func (f *file) values() iter.Seq2[value, error] {
	return func(yield func(value, error) bool) {
		r, err := f.open()
		if err != nil {
			yield(value{}, fmt.Errorf("%s: %w", f.path, err))
			return
		}
		defer r.Close()
		sum := sha256.New()
		text, err := gunzip.Reader(io.TeeReader(r, sum))
		if err != nil {
			yield(value{}, fmt.Errorf("%s: %w", f.path, err))
			return
		}
		for v, err := range values(f.path, bom.Reader(text)) {
			if !yield(v, err) || err != nil {
				return
			}
		}
		f.digest = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	}
}

// library is the content of the sources of v1.
type library struct {
	files map[string]*file // by task
	zips  []*zip.ReadCloser
}

// openLibrary opens files, folders and zips. The caller closes it.
func openLibrary(ctx context.Context, paths []string) (*library, error) {
	l := &library{files: map[string]*file{}}
	for _, p := range paths {
		if err := l.add(ctx, p); err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

func (l *library) close() {
	for _, z := range l.zips {
		z.Close()
	}
}

func (l *library) add(ctx context.Context, path string) error {
	if err := files.CheckInput(path); err != nil { // its first row decides its set
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return l.addFolder(ctx, path)
	}
	if isZip(path) {
		return l.addZip(path)
	}
	return l.addFile(ctx, path)
}

// addFolder adds the files with names of sets, in the folder or in its folder data. If there are
// none, it adds data.zip.
func (l *library) addFolder(ctx context.Context, folder string) error {
	before := len(l.files)
	for _, name := range taskNames() {
		for _, p := range []string{name + ".jsonl", name + ".jsonl.gz", "data/" + name + ".jsonl", "data/" + name + ".jsonl.gz"} {
			p = filepath.Join(folder, filepath.FromSlash(p))
			if _, err := os.Stat(p); err != nil {
				continue
			}
			if err := l.put(name, onDisk(ctx, p)); err != nil {
				return err
			}
		}
	}
	if len(l.files) > before {
		return nil
	}
	if packed := filepath.Join(folder, "data.zip"); isZip(packed) {
		return l.addZip(packed)
	}
	return fmt.Errorf("%s: no set of LongBench in this folder, expected <set>.jsonl, data/<set>.jsonl or data.zip", folder)
}

func (l *library) addZip(path_ string) error {
	z, err := zip.OpenReader(path_)
	if err != nil {
		return fmt.Errorf("%s: %w", path_, err)
	}
	l.zips = append(l.zips, z)
	before := len(l.files)
	for _, entry := range z.File {
		name, ok := strings.CutSuffix(path.Base(entry.Name), ".jsonl")
		if !ok || !slices.Contains(taskNames(), name) {
			continue
		}
		f := &file{path: path_ + "/" + entry.Name, name: filepath.Base(path_) + "/" + entry.Name, open: entry.Open}
		if err := l.put(name, f); err != nil {
			return err
		}
	}
	if len(l.files) == before {
		return fmt.Errorf("%s: no set of LongBench in this zip, expected data/<set>.jsonl", path_)
	}
	return nil
}

// addFile adds one file of rows. If its name is not a set's, its first row decides its set.
func (l *library) addFile(ctx context.Context, path string) error {
	f := onDisk(ctx, path)
	name := strings.TrimSuffix(strings.TrimSuffix(f.name, ".gz"), ".jsonl")
	if checkTask(name) == nil {
		return l.put(name, f)
	}
	for row, err := range rows(f.values(), func(text []byte) (*Row, error) {
		row, err := parseRow(text)
		if err == nil {
			if err = checkTask(row.Dataset); err != nil {
				err = fmt.Errorf("dataset: %w", err)
			}
		}
		return row, err
	}) {
		if err != nil {
			return err
		}
		return l.put(row.Dataset, f)
	}
	return nil
}

func (l *library) put(name string, f *file) error {
	if other, twice := l.files[name]; twice {
		return fmt.Errorf("set %s is in two sources: %s and %s", name, other.path, f.path)
	}
	l.files[name] = f
	return nil
}

// names returns the sets of the library, in order.
func (l *library) names() (names []string) {
	return slice.Filter(taskNames(), func(name string) bool { return l.files[name] != nil })
}

// choose returns the requested tasks, in order: the named ones, or all of the library.
func (l *library) choose(asked []string) (chosen []task, err error) {
	if len(asked) == 0 {
		asked = []string{prompts.All}
	}
	wanted := map[string]bool{}
	for _, name := range asked {
		if name == prompts.All || name == AllE {
			found := false
			for _, t := range allTasks(name == AllE) {
				if l.files[t.name()] != nil {
					wanted[t.name()], found = true, true
				}
			}
			if !found {
				return nil, fmt.Errorf("the sources have none of these sets, only %s (all means LongBench, all_e LongBench-E)", strings.Join(l.names(), ", "))
			}
			continue
		}
		found, err := names.Find("set", name, names.Of(taskNames()...))
		if err != nil {
			return nil, err
		}
		if l.files[found] == nil {
			return nil, fmt.Errorf("set %s is not in the sources, which have %s", name, strings.Join(l.names(), ", "))
		}
		wanted[found] = true
	}
	chosen = slice.Filter(append(allTasks(false), allTasks(true)...), func(t task) bool { return wanted[t.name()] })
	return chosen, nil
}

// rows streams the rows of a task. Each must state its set.
func (l *library) rows(t task) iter.Seq2[*Row, error] {
	return rows(l.files[t.name()].values(), func(text []byte) (*Row, error) {
		row, err := parseRow(text)
		if err == nil && row.Dataset != t.Name && row.Dataset != t.name() {
			err = fmt.Errorf("dataset is %q, expected %q", row.Dataset, t.Name)
		}
		return row, err
	})
}

var zipMagic = []byte("PK\x03\x04")

func isZip(path string) bool {
	if files.CheckInput(path) != nil {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, len(zipMagic))
	_, err = io.ReadFull(f, magic)
	return err == nil && bytes.Equal(magic, zipMagic)
}
