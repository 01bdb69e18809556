package cli

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/datasets/corpus"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/render"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/trace"
)

// demoCapacities are those of the demo, in multiples of K.
var demoCapacities = []string{"1.5x", "2x", "4x"}

func demoCommand(table policies.Table) command {
	return command{
		use:   "demo",
		short: "Replay the trace inside this program and print its board",
		long: `Replay the real trace that is part of this program through every policy, and print the leaderboard.
It needs no files and takes a second.`,
		example: "  kvreplay demo",
		run:     func(c *call) error { return demo(c, table) },
		next:    always("datasets", "extract", embeddedName, "-o", "t.parquet"),
	}
}

func demo(c *call, table policies.Table) error {
	t, err := openEmbedded()
	if err != nil {
		return err
	}
	defer t.Close()
	o, err := byRequest(table, []string{"all"}, demoCapacities)
	if err != nil {
		return err
	}
	o.Policies = slices.DeleteFunc(o.Policies, func(s policies.Spec) bool { return s.Entry.Traits.Windowed })
	rows, err := replayTraces(c, []*trace.File{t}, o)
	if err != nil {
		return err
	}
	b, err := board.NewBoard(rows, board.Options{})
	if err != nil {
		return err
	}
	meta := t.Meta()
	fmt.Fprintf(c.stdout, "%s, %d requests: a step selects K = %d entries of the KV cache per layer.\n"+
		"The GPU keeps 1.5, 2 or 4 × K entries. Selected entries that it lacks are misses and cross PCIe.\n\n", meta.Model, *b.Traces[0].RequestCount, meta.TopK)
	if err := render.Board(b, render.View{Fixed: true, Defaults: defaultsOf(table)}).Text(c.stdout); err != nil {
		return err
	}
	_, err = fmt.Fprint(c.stdout, `
Your own trace:   kvreplay import --help, then kvreplay replay TRACE --per request --out results
Your own policy:  kvreplay policies new NAME
Time and memory:  kvreplay advise --hardware h100 --model llama-3.1-8b --context 64K
`)
	return err
}

// openEmbedded opens the trace of the corpus that is part of this program.
func openEmbedded() (*trace.File, error) {
	return trace.OpenReader(corpus.EmbeddedFile, bytes.NewReader(corpus.Embedded), int64(len(corpus.Embedded)))
}
