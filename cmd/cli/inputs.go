package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/trace"
)

// inputFiles returns the named files, those of the model and the kernels, and the user's files of
// systems and hardware, each once. It leaves out all but regular files.
func (f *timeFlags) inputFiles(named []string, systems string) ([]string, error) {
	all := append(slices.Clone(named), f.kernels, f.model)
	dir, _ := f.hardware.folder()
	for _, folder := range []string{systems, dir} {
		if folder == "" {
			continue
		}
		own, err := files.YAML(folder)
		if err != nil {
			return nil, err
		}
		all = append(all, own...)
	}
	return slices.DeleteFunc(slice.Add(nil, all...), func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || !info.Mode().IsRegular()
	}), nil
}

// explainMissing adds the nearest names in the same folder to the error of a missing file. If a folder
// should be a trace, it adds the traces in it.
func explainMissing(err error) error {
	if missing, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(missing, fs.ErrNotExist) {
		folder, name := filepath.Split(missing.Path)
		if near := names.Near(name, entriesOf(cmp.Or(folder, "."))); len(near) > 0 && near[0] != name {
			return fmt.Errorf("%w%s", err, names.DidYouMean(slice.Map(near, func(n string) string { return folder + n })))
		}
	}
	if e := trace.AsError(err); e != nil && errors.Is(err, trace.ErrFolder) {
		has := slices.DeleteFunc(entriesOf(e.Path), func(name string) bool { return filepath.Ext(name) != ".parquet" })
		if len(has) == 0 {
			return fmt.Errorf("%w, and the folder has none", err)
		}
		return fmt.Errorf("%w, such as %s", err, names.Some(slice.Map(has, func(n string) string { return filepath.Join(e.Path, n) })))
	}
	return err
}

// entriesOf returns the names of the files in a folder, none if it cannot be read.
func entriesOf(folder string) []string {
	entries, _ := os.ReadDir(folder) // a missing folder has none
	return slice.Map(entries, func(e fs.DirEntry) string { return e.Name() })
}

// openTraces opens traces. The returned function closes those that were opened.
func openTraces(ctx context.Context, paths []string) (traces []*trace.File, closeAll func(), err error) {
	closeAll = func() {
		for _, t := range traces {
			t.Close()
		}
	}
	for _, path := range paths {
		t, err := trace.OpenContext(ctx, path)
		if err != nil {
			return traces, closeAll, err
		}
		traces = append(traces, t)
	}
	return traces, closeAll, nil
}

// addSums adds a footnote with the SHA-256 of each file.
func addSums(ctx context.Context, report *table.Report, paths []string) error {
	for _, path := range paths {
		sum, _, err := files.Sum(ctx, path)
		if err != nil {
			return err
		}
		report.Footnotes = append(report.Footnotes, path+": SHA-256 "+sum)
	}
	return nil
}
