// Command synth writes a synthetic trace of about the given size, for tests of memory
// and speed: K = 2048, M = 2560, 32K context, 90 % overlap of consecutive demands.
//
//	go run ./scripts/synth FILE MEGABYTES
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "synth:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: synth FILE MEGABYTES")
	}
	megabytes, err := strconv.Atoi(args[1])
	if err != nil || megabytes < 1 {
		return fmt.Errorf("size %q: expected megabytes", args[1])
	}
	const k, m, context, rows = 2048, 2560, 32 << 10, 512
	bytesPerStream := rows * m * 21 / 10 // measured: 2.1 bytes an index
	w, err := trace.Create(args[0], trace.Meta{Order: trace.OrderRank, TopK: k, BlockTokens: 1, EntryBytes: 656, Model: "synthetic", Generator: "scripts/synth"})
	if err != nil {
		return err
	}
	defer w.Abort()
	base := replaytest.Overlapping(1, context, k, m, rows, 0.9)
	for i := range max(1, megabytes*1_000_000/bytesPerStream) {
		base.Request, base.Layer = fmt.Sprintf("request-%05d", i/61), int32(i%61)
		shift(base)
		if err := w.Write(base); err != nil {
			return err
		}
	}
	return w.Close()
}

// shift makes the next stream another one: every prompt token moves by one place.
func shift(s *trace.Stream) {
	for i, x := range s.Indices {
		if x < s.PromptLen {
			s.Indices[i] = (x + 1) % s.PromptLen
		}
	}
}
