package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/storage"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/trace"
)

// traceExt is the extension by which traces are found in folders.
const traceExt = ".parquet"

// traces finds trace files by their digest.
type traces struct {
	open    map[string]*trace.File // traces that rows need
	broken  map[string]error       // read errors by digest
	named   map[string]string      // "PATH has digest D" of all other files, by file name
	names   map[string][]string    // names of all files with a digest
	skipped []string
}

// openTraces searches files and folders and keeps the traces with a wanted digest open. It skips
// files of a folder that are not valid traces. For a file that the user names, this is an error. A
// file that temporarily cannot be read is always an error.
func openTraces(ctx context.Context, paths []string, wanted map[string]bool) (*traces, error) {
	ts := &traces{open: map[string]*trace.File{}, broken: map[string]error{}, named: map[string]string{}, names: map[string][]string{}}
	for _, path := range paths {
		if err := ts.addAll(ctx, path, wanted); err != nil {
			ts.close()
			return nil, err
		}
	}
	return ts, nil
}

// addAll adds the trace at a path, or those of a folder.
func (ts *traces) addAll(ctx context.Context, path string, wanted map[string]bool) error {
	found, isFolder, err := tracesIn(ctx, path)
	switch {
	case err != nil:
		return fmt.Errorf("find traces: %w", err)
	case !isFolder:
		return ts.add(ctx, path, wanted)
	}
	for _, name := range found {
		err := ts.add(ctx, name, wanted)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case unread(err):
			return fmt.Errorf("find traces: %w", err)
		case err != nil:
			ts.skipped = append(ts.skipped, err.Error())
		}
	}
	return nil
}

// tracesIn returns the names that end in .parquet directly in a folder or below a prefix of an object
// store. isFolder is false for the path of a file or an object.
func tracesIn(ctx context.Context, at string) (found []string, isFolder bool, err error) {
	if !storage.IsURL(at) {
		if info, err := os.Stat(at); err != nil || !info.IsDir() {
			return nil, false, err
		}
		found, err = files.Ending(at, traceExt)
		return found, true, err
	}
	if path.Ext(at) == traceExt {
		return nil, false, nil
	}
	store, err := storage.At(at)
	if err != nil {
		return nil, true, err
	}
	list, err := store.List(ctx, "")
	for _, o := range list {
		if path.Ext(o.Name) == traceExt && !strings.Contains(o.Name, "/") {
			found = append(found, strings.TrimSuffix(at, "/")+"/"+o.Name)
		}
	}
	return found, true, err
}

// unread reports whether an error is about reading a file and not about its content.
func unread(err error) bool {
	return storage.Unread(err) || slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.EIO, syscall.ESTALE, syscall.ETIMEDOUT, syscall.ENOTCONN},
		func(e error) bool { return errors.Is(err, e) })
}

func (ts *traces) add(ctx context.Context, path string, wanted map[string]bool) error {
	f, err := trace.OpenContext(ctx, path)
	if err != nil {
		return err
	}
	return ts.take(f, path, wanted)
}

// take keeps the file at path open if rows need it.
func (ts *traces) take(f *trace.File, path string, wanted map[string]bool) error {
	digest, err := f.Digest()
	if err != nil {
		f.Close()
		return err
	}
	ts.names[digest] = append(ts.names[digest], filepath.Base(path))
	if !wanted[digest] || ts.open[digest] != nil {
		ts.named[filepath.Base(path)] = fmt.Sprintf("%s has digest %s", path, digest)
		return f.Close()
	}
	ts.open[digest] = f
	if ts.broken[digest] = f.Verify(); unread(ts.broken[digest]) {
		return ts.broken[digest]
	}
	return nil
}

// find returns the trace of a row, or the reason that it is missing.
func (ts *traces) find(r *result.Row) (*trace.File, string) {
	f := ts.open[r.TraceDigest]
	switch {
	case f != nil && ts.broken[r.TraceDigest] != nil:
		return nil, ts.broken[r.TraceDigest].Error()
	case f != nil:
		return f, ""
	case r.TraceDigest == "":
		return nil, "the row has no trace_digest"
	case ts.named[r.Trace] != "":
		return nil, fmt.Sprintf("another trace: %s, but the row needs %s", ts.named[r.Trace], r.TraceDigest)
	}
	return nil, "no trace of --traces has the digest " + strings.TrimSpace(r.TraceDigest)
}

func (ts *traces) close() {
	for _, f := range ts.open {
		f.Close()
	}
}
