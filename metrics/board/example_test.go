package board_test

import (
	"fmt"
	"log"

	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// Rank the policies of rows that a run wrote.
func ExampleNewBoard() {
	rows, err := result.ReadRows("../testdata/rows.jsonl")
	if err != nil {
		log.Fatal(err)
	}
	b, err := board.NewBoard(rows, board.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range b.Tables[0].Ranked {
		fmt.Printf("%s %s: %.3f × OPT\n", line.Rank, line.Policy, line.Pooled.XOpt.Value)
	}
	// Output:
	// 1 admit: 1.221 × OPT
	// 2 s3fifo: 1.297 × OPT
	// 3 lru: 1.410 × OPT
	// 4 fifo: 1.651 × OPT
}
