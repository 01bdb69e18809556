package trace_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/kvreplay/kvreplay/trace"
)

// Read a trace's first stream. The next Read may reuse its memory.
func Example() {
	f, err := trace.Open("../datasets/bundled/smollm2_multi_news_8k.parquet")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	r := f.NewReader(trace.ReadScores)
	defer r.Close()
	var s trace.Stream
	if err := r.Read(0, &s); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("layer %d: %d windows, %d steps, a demand of %d of %d tokens\n",
		s.Layer, s.Windows, s.Rows-s.Windows, f.Meta().TopK, s.MaxSeqLen())
	// Output:
	// layer 0: 32 windows, 96 steps, a demand of 256 of 8288 tokens
}

// Write a trace of one stream, step by step. Lists are best first, and each whole list is the
// demand.
func ExampleCreate() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "mine.parquet")
	w, err := trace.Create(path, trace.Meta{Model: "mine", Order: trace.OrderRank, BlockTokens: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Abort() // does nothing after Close
	var s trace.Stream
	s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r1", Layer: 0, Head: trace.NoHead}, PromptLen: 100})
	for step, list := range [][]int32{{93, 4, 57}, {93, 100, 4}, {57, 4, 101}} {
		s.Append(trace.Row{Step: int32(step), Indices: list})
	}
	if err := w.Write(&s); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	f, err := trace.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	fmt.Printf("%d stream, K = %d of M = %d\n", len(f.Streams()), f.Meta().TopK, f.Meta().Candidates)
	// Output:
	// 1 stream, K = 3 of M = 3
}
