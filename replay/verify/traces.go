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
		if storage.IsURL(path) {
			if err := ts.addURL(ctx, path, wanted); err != nil {
				ts.close()
				return nil, err
			}
			continue
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			err = fmt.Errorf("find traces: %w", err)
		case info.IsDir():
			err = ts.addFolder(ctx, path, wanted)
		default:
			err = ts.add(ctx, path, wanted)
		}
		if err != nil {
			ts.close()
			return nil, err
		}
	}
	return ts, nil
}

func (ts *traces) addFolder(ctx context.Context, dir string, wanted map[string]bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("find traces: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() || filepath.Ext(e.Name()) != traceExt {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := ts.addFound(ctx, filepath.Join(dir, e.Name()), wanted); err != nil {
			return err
		}
	}
	return nil
}

// addFound adds a file that the user did not name. It skips one that is not a valid trace.
func (ts *traces) addFound(ctx context.Context, path string, wanted map[string]bool) error {
	err := ts.add(ctx, path, wanted)
	if unread(err) {
		return fmt.Errorf("find traces: %w", err)
	}
	if err != nil {
		ts.skipped = append(ts.skipped, err.Error())
	}
	return nil
}

// addURL adds an object whose name ends in .parquet, or all such objects directly below a prefix.
func (ts *traces) addURL(ctx context.Context, url string, wanted map[string]bool) error {
	if path.Ext(url) == traceExt {
		return ts.add(ctx, url, wanted)
	}
	store, err := storage.At(url)
	if err != nil {
		return fmt.Errorf("find traces: %w", err)
	}
	list, err := store.List(ctx, "")
	if err != nil {
		return fmt.Errorf("find traces: %w", err)
	}
	for _, o := range list {
		if path.Ext(o.Name) != traceExt || strings.Contains(o.Name, "/") {
			continue
		}
		if err := ts.addFound(ctx, strings.TrimSuffix(url, "/")+"/"+o.Name, wanted); err != nil {
			return err
		}
	}
	return nil
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
