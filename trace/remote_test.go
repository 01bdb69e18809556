package trace_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/storage"
	"github.com/kvreplay/kvreplay/trace"
)

// countingStore counts the requests for the bytes of a folder's files.
type countingStore struct {
	storage.Store
	requests, bytes atomic.Int64
	fail            error // of every request, if it is not nil
}

func (c *countingStore) Get(ctx context.Context, name string, from, to int64, tag string) (io.ReadCloser, storage.Info, error) {
	c.requests.Add(1)
	if from < 0 {
		to = 0 // the last bytes
	}
	c.bytes.Add(to - from)
	if c.fail != nil {
		return nil, storage.Info{}, c.fail
	}
	return c.Store.Get(ctx, name, from, to, tag)
}

// taken returns the counts since the last call.
func (c *countingStore) taken() (requests, bytes int64) { return c.requests.Swap(0), c.bytes.Swap(0) }

// stored opens the trace at path as an object of a store that counts requests.
func stored(t *testing.T, path string) (*trace.File, *countingStore) {
	t.Helper()
	s, err := storage.At(filepath.Dir(path))
	fatal.If(t, err)
	c := &countingStore{Store: s}
	o, err := storage.OpenIn(t.Context(), c, filepath.Base(path))
	fatal.If(t, err)
	t.Cleanup(func() { o.Close() })
	f, err := trace.OpenReader("stored", o, o.Size())
	fatal.If(t, err)
	return f, c
}

const manyLayers, manyRequests = 61, 6

// manyGroups writes a trace with the structure of one of 1 GB: 61 layers of 6 requests, 4 streams in a
// row group, several pages in a column chunk. It has a thirtieth of the bytes.
func manyGroups(t *testing.T) string { return groups(t, manyLayers, "a", "b", "c", "d", "e", "f") }

// groups writes a trace of many row groups.
func groups(t *testing.T, layers int32, requests ...string) string {
	t.Helper()
	const rows, m = 24, 1280
	defer trace.SetRowGroupIndices(3*rows*m + 1)()
	defer trace.SetPageBytes(16 << 10)()
	t.Cleanup(trace.SetGapBytes(8 << 10)) // a thirtieth, as the file
	path := filepath.Join(t.TempDir(), "many.parquet")
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: m, BlockTokens: 1})
	fatal.If(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	var s trace.Stream
	for _, request := range requests {
		for layer := range layers {
			drift(r, &s, trace.Key{Request: request, Layer: layer, Head: trace.NoHead}, 32<<10, rows, m, true)
			fatal.If(t, w.Write(&s))
		}
	}
	fatal.If(t, w.Close())
	return path
}

// Opening a trace with a stream index takes a few requests, however many row groups and pages it has.
// Without an index it takes one for each row group. One layer of 61 takes its share of the bytes. The
// indices of all streams take one request for each row group or for 8 MiB.
func TestRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a trace of 35 MB")
	}
	for _, c := range []struct {
		name    string
		indexed int
		open    int64 // requests that Open may send, without those for row groups
		groups  int64 // requests for a row group
	}{{"stream index", 8, 10, 0}, {"no index", 1 << 30, 10, 1}} {
		t.Run(c.name, func(t *testing.T) {
			defer trace.SetIndexedGroups(c.indexed)()
			f, count := stored(t, manyGroups(t))
			groups := int64(f.RowGroups())
			requests, bytes := count.taken()
			t.Logf("%d bytes, %d row groups: open %d requests, %d bytes", f.Size(), groups, requests, bytes)
			if requests > c.open+c.groups*groups || groups < 90 {
				t.Errorf("Open sent %d requests for %d row groups", requests, groups)
			}
			var layer []int
			for i, s := range f.Streams() {
				if s.Layer == 10 {
					layer = append(layer, i)
				}
			}
			f.Expect(layer, 0)
			readAll(t, f, 0, layer)
			requests, bytes = count.taken()
			t.Logf("indices of one layer: %d requests, %.2f %% of the bytes", requests, 100*float64(bytes)/float64(f.Size()))
			if bytes > f.Size()/50 || requests > 4*manyRequests {
				t.Errorf("one layer took %d requests and %d of %d bytes", requests, bytes, f.Size())
			}
			f.ExpectAll(0)
			readAll(t, f, 0, nil)
			requests, bytes = count.taken()
			t.Logf("all indices: %d requests, %.2f %% of the bytes", requests, 100*float64(bytes)/float64(f.Size()))
			if requests > groups+f.Size()/(8<<20)+2 || bytes > f.Size()*3/4 {
				t.Errorf("all indices took %d requests and %d of %d bytes", requests, bytes, f.Size())
			}
			f.ExpectAll(trace.ReadScores)
			readAll(t, f, trace.ReadScores, nil)
			if requests, bytes = count.taken(); requests > f.Size()/(8<<20)+2 || bytes > f.Size() {
				t.Errorf("all columns took %d requests and %d of %d bytes", requests, bytes, f.Size())
			}
			t.Logf("all columns: %d requests", requests)
		})
	}
}

// readAll reads streams, or all.
func readAll(t *testing.T, f *trace.File, columns trace.Columns, streams []int) {
	t.Helper()
	if streams == nil {
		for i := range f.Streams() {
			streams = append(streams, i)
		}
	}
	r := f.NewReader(columns)
	defer r.Close()
	var s trace.Stream
	for _, i := range streams {
		fatal.If(t, r.Read(i, &s))
	}
}

// A request that fails is an error that says so. It does not call the file corrupt.
func TestStoreFails(t *testing.T) {
	path := groups(t, 8, "a")
	f, count := stored(t, path)
	o, err := storage.OpenIn(t.Context(), count, filepath.Base(path))
	fatal.If(t, err)
	defer o.Close()
	count.fail = &storage.Error{Place: "x", Err: errors.New("no connection")}
	_, err = trace.OpenReader("stored", o, o.Size())
	if err == nil || !storage.Unread(err) || strings.Contains(err.Error(), "corrupt") || !strings.Contains(err.Error(), "no connection") {
		t.Errorf("Open: %v, expected the error of the request", err)
	}
	r := f.NewReader(trace.ReadAll)
	defer r.Close()
	if err := r.Read(0, new(trace.Stream)); !storage.Unread(err) {
		t.Errorf("Read: %v, expected the error of the request", err)
	}
}

// A file gives the same contents with its stream index, and without it.
func TestIndexChangesNothing(t *testing.T) {
	raw, want := indexedSample(t)
	path := filepath.Join(t.TempDir(), "indexed.parquet")
	at := bytes.LastIndex(raw, []byte(`{"requests":`))
	if at < 0 {
		t.Fatal("the file has no stream index")
	}
	raw[at-2] ^= 1 // its seal
	fatal.If(t, os.WriteFile(path, raw, 0o600))
	if got, err := contents(path, nil); err != nil || got != want {
		t.Errorf("without its index the file has other contents (%v)", err)
	}
	if err := validates(t, path); err == nil || !strings.Contains(err.Error(), "stream index") {
		t.Errorf("Validate accepts a damaged stream index: %v", err)
	}
}

// An index with a good seal that the key columns contradict is an error before a list is used.
func TestFalseIndex(t *testing.T) {
	raw, _ := indexedSample(t)
	path := filepath.Join(t.TempDir(), "false.parquet")
	at := bytes.LastIndex(raw, []byte(`{"requests":`))
	end := at + bytes.IndexByte(raw[at:], '}') + 1
	text := raw[at:end]
	// The first stream of the first group, [request, layer, head, prompt_len, first step, rows], gets
	// another prompt_len.
	text[bytes.Index(text, []byte("[0,0,-1,"))+len("[0,0,-1,")] ^= 1
	fatal.If(t, os.WriteFile(path, raw, 0o600))
	f, err := trace.Open(path)
	fatal.If(t, err)
	digest := f.StoredDigest()
	f.Close()
	copy(raw[at-17:], trace.SealIndex(text, digest))
	fatal.If(t, os.WriteFile(path, raw, 0o600))
	if f, err = trace.Open(path); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := f.NewReader(0)
	defer r.Close()
	if err := r.Read(0, new(trace.Stream)); err == nil || !strings.Contains(err.Error(), "row group 0: the key columns differ from the stream index") {
		t.Errorf("Read: %v, expected an error of the index", err)
	}
	if err := validates(t, path); err == nil || !strings.Contains(err.Error(), "stream index") {
		t.Errorf("Validate accepts a false stream index: %v", err)
	}
}

// validates returns the first violation of a file.
func validates(t *testing.T, path string) error {
	t.Helper()
	var first error
	_, err := trace.Validate(t.Context(), path, func(e *trace.Error) bool {
		first = e
		return false
	})
	fatal.If(t, err)
	return first
}
