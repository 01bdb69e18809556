package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/storage"
	"github.com/kvreplay/kvreplay/trace/parquet"
)

// openURL opens an object of an object store. Every request for its bytes states its ETag, so an
// object that changes is an error.
func openURL(ctx context.Context, url string, ahead bool) (*File, error) {
	o, err := storage.Open(ctx, url)
	if err != nil {
		return nil, remoteError(url, err)
	}
	f := &File{path: url, source: o, closer: o, size: o.Size(), ahead: ahead}
	if f.size == 0 {
		err = fileError(url, RuleFile, "is empty, expected a trace (Parquet)")
	} else {
		err = f.loadGuarded(nil)
	}
	if err != nil {
		o.Close()
		return nil, err
	}
	return f, nil
}

// remoteError returns the error of a request for a URL. It names the URL once.
func remoteError(url string, err error) error {
	if e := (*storage.Error)(nil); errors.As(err, &e) && e.Place == url {
		err = &storage.Error{Err: e.Err}
	}
	return fileError(url, RuleFile, "%w", err)
}

// openCopy copies an object of an object store to a temporary file and opens it, as open does. Reading
// it twice then costs one transfer.
func openCopy(ctx context.Context, url string, report func(*Error) bool) (*File, error) {
	dir, err := os.MkdirTemp("", "kvreplay-")
	if err != nil {
		return nil, fmt.Errorf("copy %s: %w. Set TMPDIR to a folder with room for it", url, err)
	}
	path := filepath.Join(dir, "trace.parquet")
	var f *File
	if err = storage.Stage(ctx, url, path); storage.Unread(err) {
		err = remoteError(url, err)
	} else if err != nil {
		err = fmt.Errorf("%w. Set TMPDIR to a folder with room for it", err)
	} else {
		f, err = openFile(path, url, report)
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	f.closer = temporary{f.closer, dir}
	return f, nil
}

// temporary closes a file and removes its folder.
type temporary struct {
	io.Closer
	dir string
}

// Close closes the file and removes the folder.
func (t temporary) Close() error { return cmp.Or(t.Closer.Close(), os.RemoveAll(t.dir)) }

// Size returns the size of the file in bytes.
func (f *File) Size() int64 { return f.size }

// planner is a source for which a request costs more than a byte.
type planner interface {
	// Expect announces the ascending ranges that will be read. The source may read ahead that many
	// of its blocks.
	Expect(spans []storage.Span, ahead int)
	// Then calls f once, before the last of the announced bytes arrive.
	Then(f func())
}

// gapBytes is the longest gap that is read together with the ranges around it. Object stores send
// it faster than they answer a request. Tests make it smaller.
var gapBytes int64 = 256 << 10

// Blocks that a planner reads ahead of its reader. Key columns are small and far from each other.
const (
	aheadKeys  = 8
	aheadLists = 2
)

// beginBytes is the number of bytes of lists that OpenAhead requests.
const beginBytes = 4 << 20

// Expect announces that Readers will read these streams of the directory, by ascending number, with
// these columns. A trace in an object store is then read in few large requests. Expect has no effect
// on files.
func (f *File) Expect(streams []int, columns Columns) {
	p, ok := f.source.(planner)
	if !ok {
		return
	}
	var spans []parquet.Span
	for _, l := range f.NewReader(columns).leaves() {
		for _, i := range streams {
			s := &f.streams[i]
			spans = f.parquet.Spans(spans, s.RowGroup, l, s.FirstRow, s.FirstRow+int64(s.Rows))
		}
	}
	group := -1
	for _, i := range streams {
		if g := f.streams[i].RowGroup; f.keys != nil && g != group {
			spans, group = f.keySpans(spans, g), g
		}
	}
	p.Expect(merged(spans), aheadLists)
}

// Then makes the trace call next once, before the last bytes that Expect announced arrive. It has no effect
// on files.
func (f *File) Then(next func()) {
	if p, ok := f.source.(planner); ok {
		p.Then(next)
	}
}

// ExpectAll is Expect for all streams.
func (f *File) ExpectAll(columns Columns) {
	if _, ok := f.source.(planner); ok {
		all := slice.Indices(len(f.streams))
		f.Expect(all, columns)
	}
}

// expectBytes announces that the whole file will be read, in the order of its bytes.
func (f *File) expectBytes() {
	if p, ok := f.source.(planner); ok {
		p.Expect([]storage.Span{{From: 0, To: f.size}}, aheadLists)
	}
}

// expectOpening announces the ranges that Open reads: the first bytes, all key columns unless the file
// has a stream index, and the first page of each optional column. For OpenAhead it adds the keys and the
// first lists of the first row group.
func (f *File) expectOpening() {
	p, ok := f.source.(planner)
	if !ok {
		return
	}
	spans := []parquet.Span{{From: 0, To: int64(len(parquet.Magic))}}
	for g, group := range f.parquet.RowGroups() {
		if hasRows(group) && f.keys == nil {
			spans = f.keySpans(spans, g)
		}
	}
	first := slices.IndexFunc(f.parquet.RowGroups(), hasRows)
	for c := ColScores; c < NumColumns && first >= 0; c++ {
		if f.leaves[c] != nil {
			spans = f.parquet.Spans(spans, first, f.leaves[c], 0, 1)
		}
	}
	if f.ahead && f.keys != nil {
		spans = f.keySpans(spans, first) // which a Reader reads before the lists
	}
	expected := merged(spans)
	if f.ahead && first >= 0 { // the first lists, in a request of their own
		l := f.parquet.Spans(nil, first, f.leaves[ColIndices], 0, f.parquet.RowGroups()[first].NumRows())[0]
		i, held := slices.BinarySearchFunc(expected, l.From, storage.Span.Compare)
		if !held {
			expected = slices.Insert(expected, i, storage.Span{From: l.From, To: min(l.To, l.From+beginBytes)})
		}
	}
	p.Expect(expected, aheadKeys)
}

// merged sorts ranges and joins those that are close to each other.
func merged(spans []parquet.Span) []storage.Span {
	slices.SortFunc(spans, func(a, b parquet.Span) int { return cmp.Compare(a.From, b.From) })
	var out []storage.Span
	for _, s := range spans {
		if n := len(out); n > 0 && s.From <= out[n-1].To+gapBytes {
			out[n-1].To = max(out[n-1].To, s.To)
		} else {
			out = append(out, storage.Span(s))
		}
	}
	return out
}
