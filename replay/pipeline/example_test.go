package pipeline_test

import (
	"context"
	"fmt"
	"log"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/trace"
)

// Price the misses of a replay as the time of a step on a machine.
func ExampleRowPricer() {
	f, err := trace.Open("../../datasets/bundled/smollm2_multi_news_8k.parquet")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	lru, err := all.Table().Parse("lru")
	if err != nil {
		log.Fatal(err)
	}
	capacities, err := replay.ParseCapacities([]string{"2x", "4x"})
	if err != nil {
		log.Fatal(err)
	}
	result, err := replay.Run(context.Background(), f, replay.Options{Policies: []policies.Spec{lru}, Capacities: capacities})
	if err != nil {
		log.Fatal(err)
	}

	lib, err := hardware.Load("")
	if err != nil {
		log.Fatal(err)
	}
	machine, err := lib.Machine("h100")
	if err != nil {
		log.Fatal(err)
	}
	model, err := lib.Model("smollm2-135m")
	if err != nil {
		log.Fatal(err)
	}
	schedule, err := schedule.Parse("sequential")
	if err != nil {
		log.Fatal(err)
	}
	pricer := pipeline.RowPricer{
		Options:   pipeline.Options{Machine: machine, Schedule: schedule, Batch: 8, Threads: 16, Reserve: 0.1},
		Find:      func(string) *hardware.Model { return model },
		Selection: "auto",
	}
	for _, row := range result.Rows {
		priced, err := pricer.Price(context.Background(), &row)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s at %s: %.2f ms a step of 8 requests\n", row.Policy, *row.Capacity, 1e3*priced.TPOT)
	}
	// Output:
	// lru at 2x: 0.58 ms a step of 8 requests
	// lru at 4x: 0.51 ms a step of 8 requests
}
