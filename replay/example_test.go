package replay_test

import (
	"context"
	"fmt"
	"log"

	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// Replay a trace through two policies at twice K.
func ExampleRun() {
	f, err := trace.Open("../datasets/bundled/smollm2_multi_news_8k.parquet")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	var o replay.Options
	for _, name := range []string{"lru", "opt"} {
		spec, err := all.Table().Parse(name)
		if err != nil {
			log.Fatal(err)
		}
		o.Policies = append(o.Policies, spec)
	}
	if o.Capacities, err = replay.ParseCapacities([]string{"2x"}); err != nil {
		log.Fatal(err)
	}
	result, err := replay.Run(context.Background(), f, o)
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range result.Rows {
		fmt.Printf("%s: %d of %d blocks missed\n", row.Policy, row.Misses, row.Demand)
	}
	// Output:
	// lru: 20751 of 146880 blocks missed
	// opt: 13210 of 146880 blocks missed
}

func ExampleParseCapacity() {
	for _, text := range []string{"1.5x", "0.2ctx", "6400", "64MiB"} {
		c, err := replay.ParseCapacity(text)
		if err != nil {
			panic(err)
		}
		bytes := 656
		blocks, err := c.Blocks(setting.Sizing{TopK: 256, BlockTokens: 1, PromptLen: 8192, EntryBytes: &bytes, Streams: 61})
		if err != nil {
			panic(err)
		}
		fmt.Println(c, blocks)
	}
	// Output:
	// 1.5x 384
	// 0.2ctx 1638
	// 6400 6400
	// 64MiB 1677
}
