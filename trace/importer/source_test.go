package importer

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/trace"
)

// The order and longest list that one source states do not apply to the lists of another source.
func TestSourceNextToTrace(t *testing.T) {
	dir := t.TempDir()
	traceOf := func(name, order string) string {
		path := filepath.Join(dir, name)
		src := write(t, dir, name+".jsonl", []byte(line(0, 11, "1,2", "")))
		if _, err := Import(context.Background(), Options{Meta: trace.Meta{Order: order}}, path, src); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ranked, unranked := traceOf("ranked", trace.OrderRank), traceOf("unranked", trace.OrderIndex)
	other := func(text string) string { return strings.ReplaceAll(text, `"r"`, `"q"`) }
	silent := write(t, dir, "silent", []byte(other(line(0, 11, "1,2,3", ""))))
	mustFail(t, Options{}, []string{silent + ": line 1", "does not state the order", "--order rank"}, ranked, silent)
	mustFail(t, Options{}, []string{silent + ": line 1", "does not state the order", "--order rank"}, unranked, silent)
	result, _ := importAll(t, Options{Meta: trace.Meta{Order: trace.OrderRank}}, ranked, silent)
	if m := result.Meta; m.TopK != 2 || m.Candidates != 3 {
		t.Errorf("K %d, M %d, expected the 2 that the trace states and the longest list, 3", m.TopK, m.Candidates)
	}
	withScores := write(t, dir, "scored", []byte(other(line(0, 11, "1,2", scored))))
	mustFail(t, Options{}, []string{withScores + ": line 1", "has scores", "another source", "order=index"}, unranked, withScores)
}

// Lists longer than M in the metadata of their own file are an error.
func TestLongerThanStated(t *testing.T) {
	_, streams := importAll(t, Options{}, "testdata/news.jsonl.gz")
	n := len(streams[0].List(0))
	meta := fmt.Sprintf(`{"version":1,"order":"rank","topk":1,"candidates":%d,"block_tokens":1}`, n-1)
	path := write(t, t.TempDir(), "src", arrowBytes(t, false, meta, streams))
	mustFail(t, Options{}, []string{path + ": row 1", fmt.Sprintf("list of %d indices", n), fmt.Sprintf("at most the %d", n-1)}, path)
}

// M and K that a source states are kept even if its lists are shorter. M may exceed the longest
// list. K may exceed it only if no context is as long as K.
func TestStatedLists(t *testing.T) {
	var streams []*trace.Stream
	for i := range int32(2) {
		s := &trace.Stream{}
		s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Layer: i, Head: trace.NoHead}, PromptLen: 9 + i})
		s.Append(trace.Row{Indices: []int32{3, 1}})
		streams = append(streams, s)
	}
	source := func(topk, candidates int) string {
		meta := fmt.Sprintf(`{"version":1,"order":"rank","topk":%d,"candidates":%d,"block_tokens":1}`, topk, candidates)
		return write(t, t.TempDir(), "src", arrowBytes(t, false, meta, streams))
	}
	if result, _ := importAll(t, Options{}, source(2, 12)); result.Meta.Candidates != 12 || result.Meta.TopK != 2 {
		t.Errorf("K %d, M %d, expected 2 and 12", result.Meta.TopK, result.Meta.Candidates)
	}
	if result, _ := importAll(t, Options{}, source(12, 0)); result.Meta.TopK != 12 { // no context has 12 entries
		t.Errorf("K %d, expected 12", result.Meta.TopK)
	}
	mustFail(t, Options{}, []string{"K = 11 exceeds the longest list, 2 indices of a context of 10 blocks"}, source(11, 0))
}
