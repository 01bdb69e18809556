package trace_test

import (
	"fmt"
	"log"

	"github.com/kvreplay/kvreplay/trace"
)

// Read a trace's first stream; the next one may use its memory again.
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
