package ess

import "github.com/kvreplay/kvreplay/replay/reproduce"

// gaps are the figures of the paper that have no line.
var gaps = []reproduce.Gap{
	{Place: "Fig. 1", Shows: "throughput over batch sizes at 32K with all KV on the GPU", Prints: []string{"52", "9,647 tokens/s"},
		Why: "a curve. Its one printed point is the first row of Table 2, from which a constant is fitted"},
	{Place: "Fig. 3", Shows: "when offload and prefetch are triggered", Why: "a diagram"},
	{Place: "Fig. 6", Shows: "the text that we have does not mention it", Why: "neither caption nor figure is in the text"},
	{Place: "Table 1", Shows: "the configuration of the simulation", Why: "inputs, not results"},
	{Place: "Section 3.1", Shows: "the bandwidth of PCIe 5.0", Prints: []string{"64 GB/s"}, Why: "a datasheet's figure"},
}
