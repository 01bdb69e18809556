package kvpr

import "github.com/kvreplay/kvreplay/replay/reproduce"

// gaps are the figures of the paper that have no line.
var gaps = []reproduce.Gap{
	{Place: "Fig. 1", Shows: "the system with one A100", Why: "a diagram"},
	{Place: "Fig. 2", Shows: "the design", Why: "a diagram"},
	{Place: "Fig. 3", Shows: "two offloading pipelines", Why: "a diagram"},
	{Place: "Fig. 4", Shows: "the column-by-column schedule", Why: "a diagram"},
	{Place: "Fig. 5", Shows: "orders of loading weights", Why: "a diagram"},
	{Place: "Fig. 6, DeepSpeed Inference", Shows: "decode latency of a third system", Why: "bars without values. Tables 3 and 4 print the other two systems"},
	{Place: "Fig. 7, first row", Shows: "throughput over prompt and generation lengths, three models", Why: "bars without values. Three headline gains are listed as not computable"},
	{Place: "Fig. 7, second row", Shows: "throughput over batch sizes 1 to 48", Why: "curves without values"},
	{Place: "Fig. 8", Shows: "GPU utilisation and memory over time", Prints: []string{"85 %", "99 %"},
		Why: "the driver's busy counter, which no model here computes. It contradicts the compute share of Fig. 10"},
	{Place: "Fig. 9", Shows: "throughput with a 4-bit cache", Why: "bars without values. One statement is judged"},
	{Place: "Fig. 10", Shows: "shares of the run time of an MHA block", Prints: []string{"58 %", "38 %", "8 %", "2.3 %", "13.3 %"},
		Why: "the paper states neither model, batch nor lengths, and the shares are of two different totals"},
	{Place: "Fig. 11", Shows: "two schedules", Why: "a diagram"},
	{Place: "Fig. 13, FastDecode", Shows: "throughput of attention on the CPU among several processes", Why: "curves without values. kvreplay has no schedule for attention on the CPU"},
	{Place: "Table 3, GPU peak memory", Shows: "twelve cells", Prints: []string{"14.427 GB", "14.708 GB", "16.337 GB", "16.618 GB", "20.154 GB", "20.576 GB", "14.364 GB", "14.645 GB", "16.212 GB", "16.493 GB", "19.904 GB", "20.951 GB"},
		Why: "mostly prefill's activations, which kvreplay does not model"},
	{Place: "Table 4, GPU peak memory", Shows: "twelve cells", Prints: []string{"26.083 GB", "26.434 GB", "28.087 GB", "28.439 GB", "32.851 GB", "34.146 GB", "26.005 GB", "26.356 GB", "27.931 GB", "28.337 GB", "33.203 GB", "34.615 GB"},
		Why: "mostly prefill's activations, which kvreplay does not model"},
}
