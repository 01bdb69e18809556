package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/trace"
)

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
		info, err := os.Stat(path)
		switch {
		case err != nil:
			err = fmt.Errorf("find traces: %w", err)
		case info.IsDir():
			err = ts.addFolder(ctx, path, wanted)
		default:
			err = ts.add(path, wanted)
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
		if e.IsDir() || filepath.Ext(e.Name()) != ".parquet" {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := ts.add(filepath.Join(dir, e.Name()), wanted)
		if unread(err) {
			return fmt.Errorf("find traces: %w", err)
		}
		if err != nil {
			ts.skipped = append(ts.skipped, err.Error())
		}
	}
	return nil
}

// unread reports whether an error is about reading a file and not about its content.
func unread(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.EIO, syscall.ESTALE, syscall.ETIMEDOUT, syscall.ENOTCONN},
		func(e error) bool { return errors.Is(err, e) })
}

func (ts *traces) add(path string, wanted map[string]bool) error {
	f, err := trace.Open(path)
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
