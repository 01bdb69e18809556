package transfer

import (
	"fmt"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

// misses returns counts of blocks and runs like those in a profile's rows.
func misses() (rows [][2]int64) {
	for i := range int64(4096) {
		n := 16 + i*7919%600
		rows = append(rows, [2]int64{n, 1 + n*2/3})
	}
	return rows
}

// One layer and step: its misses become a request, and the request seconds by closed form.
func BenchmarkLayerSteps(b *testing.B) {
	lib, err := hardware.Load("")
	fatal.If(b, err)
	l, err := lib.Link("pcie5-x16")
	fatal.If(b, err)
	link, rows := NewLink(l), misses()
	layout := Layout{EntryBytes: 656}
	paths := map[string]Path{"fastest": link.Fastest(HostToDevice)}
	for m := range Kernel + 1 {
		c, err := link.Path(HostToDevice, m)
		fatal.If(b, err)
		paths[m.String()] = c
	}
	for _, name := range []string{"call", "batch", "kernel", "fastest"} {
		b.Run(fmt.Sprintf("path=%s", name), func(b *testing.B) {
			path, sum := paths[name], 0.
			for b.Loop() {
				for _, r := range rows {
					sum += path.Time(layout.Request(r[0], r[1]))
				}
			}
			if sum <= 0 {
				b.Fatal("no time")
			}
			b.ReportMetric(float64(b.N)*float64(len(rows))/b.Elapsed().Seconds()/1e6, "Mlayer-steps/s")
		})
	}
}

// The four levels of one layer and step from an SSD.
func BenchmarkLevels(b *testing.B) {
	tiers, demand := hand(false)
	for level := LayerWise; level <= Balanced; level++ {
		b.Run("level="+level.String(), func(b *testing.B) {
			sum := 0.
			for b.Loop() {
				sum += tiers.Fetch(level, demand).Seconds
			}
			if sum <= 0 {
				b.Fatal("no time")
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mlayer-steps/s")
		})
	}
}

// The placement pass over one stream: 32 demands of 2048 of 131072 blocks.
func BenchmarkPack(b *testing.B) {
	var history [][]int32
	for w := range int32(32) {
		var demand []int32
		for i := range int32(2048) {
			demand = append(demand, i*64+(i*w*7919)%64)
		}
		history = append(history, demand)
	}
	for b.Loop() {
		if len(Pack(131072, history)) != 131072 {
			b.Fatal("blocks are lost")
		}
	}
}
