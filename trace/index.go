package trace

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/trace/parquet"
)

// A stream index is the directory of streams as text in the file's metadata (FORMAT.md, "Stream
// index"). Without it, Open reads the key columns of every row group, which lie far from each other.
// With it, a Reader reads the key columns of a row group before the group's first stream, and compares
// them with the index.

// indexedGroups is the number of row groups from which on a Writer stores a stream index. Tests make it
// smaller.
var indexedGroups = 8

// streamIndex is the stored form of a directory.
type streamIndex struct {
	Requests []string     `json:"requests"` // in file order
	Groups   [][][6]int64 `json:"groups"`   // by row group and stream: request, layer, head, prompt_len, first step, rows
}

// indexText returns the text of a stream index for the streams of a file with this digest.
func indexText(streams []StreamInfo, groups int, digest string) (string, error) {
	x := streamIndex{Groups: make([][][6]int64, groups)}
	for i := range x.Groups {
		x.Groups[i] = [][6]int64{}
	}
	for _, s := range streams {
		if n := len(x.Requests); n == 0 || x.Requests[n-1] != s.Request {
			x.Requests = append(x.Requests, s.Request)
		}
		x.Groups[s.RowGroup] = append(x.Groups[s.RowGroup],
			[6]int64{int64(len(x.Requests) - 1), int64(s.Layer), int64(s.Head), int64(s.PromptLen), int64(s.FirstStep), int64(s.Rows)})
	}
	text, err := json.Marshal(x)
	return seal(digest, string(text)) + " " + string(text), err
}

// indexedStreams returns the directory that the metadata state, or nil without a sound index. The key
// columns then are the directory.
func (f *File) indexedStreams() []StreamInfo {
	text, _ := f.parquet.Lookup(keyStreams)
	stored, text, ok := strings.Cut(text, " ")
	if !ok || stored != seal(f.digest, text) || f.digest == "" || !f.sealed {
		return nil
	}
	var x streamIndex
	groups := f.parquet.RowGroups()
	if json.Unmarshal([]byte(text), &x) != nil || len(x.Groups) != len(groups) || !slices.ContainsFunc(groups, hasRows) {
		return nil
	}
	var streams []StreamInfo
	for g, group := range x.Groups {
		row := int64(0)
		for _, v := range group {
			if v[0] < 0 || v[0] >= int64(len(x.Requests)) || slices.ContainsFunc(v[:], func(n int64) bool { return n != int64(int32(n)) }) {
				return nil
			}
			s := StreamInfo{Key: Key{x.Requests[v[0]], int32(v[1]), int32(v[2])}, PromptLen: int32(v[3]), RowGroup: g, FirstRow: row,
				FirstStep: int32(v[4]), Rows: int(v[5]), Windows: int(max(0, min(-v[4], v[5]))), LastStep: int32(v[4] + v[5] - 1)}
			n := len(streams)
			if s.Rows < 1 || v[4]+v[5] > math.MaxInt32 || s.Layer < 0 || s.Head < NoHead || s.PromptLen < 0 || v[3]+v[4]+1 < 1 ||
				!utf8.ValidString(s.Request) || n > 0 && streams[n-1].Key.Compare(s.Key) >= 0 {
				return nil
			}
			streams, row = append(streams, s), row+v[5]
		}
		if row != groups[g].NumRows() {
			return nil
		}
	}
	return streams
}

// useIndex takes the directory from the metadata. It reports whether they have a sound index.
func (f *File) useIndex() bool {
	if f.streams = f.indexedStreams(); f.streams == nil {
		return false
	}
	for g := range f.parquet.RowGroups() {
		f.indices += f.parquet.Metadata().RowGroups[g].Columns[f.leaves[ColIndices].Index].MetaData.NumValues
		f.keys = append(f.keys, sync.OnceValue(func() error { return f.compareKeys(g, false) }))
	}
	return true
}

// checkKeys compares the key columns of row group g with the index, once. Without an index there is
// nothing to compare.
func (f *File) checkKeys(g int, trust bool) error {
	switch {
	case f.keys == nil:
		return nil
	case trust: // the pages need no CRC, unlike those of other readers
		return f.compareKeys(g, true)
	}
	return f.keys[g]()
}

// compareKeys reads the key columns of row group g, checks them and compares them with the index.
func (f *File) compareKeys(g int, trust bool) error {
	own := &File{path: f.path, parquet: f.parquet, leaves: f.leaves}
	var first *Error
	k := keyRows{trust: trust}
	if err := own.group(g, &k, func(e *Error) bool { first = e; return false }); err != nil {
		return err
	}
	if first != nil {
		return first
	}
	if own.sparse != nil || !slices.Equal(own.streams, f.ofGroup(g)) {
		return &Error{Path: f.path, RowGroup: g, Row: -1, Rule: RuleKey, Err: errIndex}
	}
	return nil
}

func (f *File) ofGroup(g int) []StreamInfo {
	find := func(g int) int {
		i, _ := slices.BinarySearchFunc(f.streams, g, func(s StreamInfo, g int) int { return s.RowGroup - g })
		return i
	}
	return f.streams[find(g):find(g+1)]
}

// validateIndex reports a stream index that differs from the directory.
func (f *File) validateIndex(report func(*Error) bool) {
	if _, ok := f.parquet.Lookup(keyStreams); ok && (f.sparse != nil || !slices.Equal(f.indexedStreams(), f.streams)) {
		report(&Error{Path: f.path, RowGroup: -1, Row: -1, Rule: RuleKey, Err: errIndex})
	}
}

// keySpans appends the bytes of the key columns of row group g.
func (f *File) keySpans(dst []parquet.Span, g int) []parquet.Span {
	for c := ColRequestID; c <= ColSeqLen; c++ {
		if f.leaves[c] != nil {
			dst = f.parquet.Spans(dst, g, f.leaves[c], 0, f.parquet.RowGroups()[g].NumRows())
		}
	}
	return dst
}
