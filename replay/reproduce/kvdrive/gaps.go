package kvdrive

import "github.com/kvreplay/kvreplay/replay/reproduce"

// gaps are the figures of the paper that have no line.
var gaps = []reproduce.Gap{
	{Place: "Fig. 1", Shows: "sparse attention in one model", Why: "a diagram"},
	{Place: "Fig. 2", Shows: "two types of offloading systems", Why: "a diagram"},
	{Place: "Fig. 4, RetroInfer", Shows: "time of a step by stage, third of three systems", Why: "bars without values. Two systems are judged by statements"},
	{Place: "Fig. 5", Shows: "throughput over batch sizes with DRAM alone and with a disk", Why: "curves without values. The disk is a strawman of the authors"},
	{Place: "Fig. 6", Shows: "the system", Why: "a diagram"},
	{Place: "Fig. 8", Shows: "transfer and memory by window size, layer and head", Why: "curves without values. The text cites none of them"},
	{Place: "Fig. 9", Shows: "offline initialization and online running", Why: "a diagram"},
	{Place: "Fig. 13, tokens/s", Shows: "throughput of nine systems, three models and five settings", Why: "bars without values. The order of four systems on one model is judged"},
	{Place: "Fig. 14", Shows: "throughput on two more servers", Why: "bars without values. The printed gains of 1.23 and 1.53 are listed as not computable"},
	{Place: "Fig. 15", Shows: "transfer volume with 2D scaling, three models", Why: "bars without values. The direction is judged on our traces"},
	{Place: "Fig. 18", Shows: "time of a layer by number of centroids", Why: "bars without values. kvreplay replays recorded selections and cannot change the number of centroids"},
	{Place: "Fig. 19", Shows: "accuracy by number of centroids", Why: "accuracy, which kvreplay does not measure"},
	{Place: "Fig. 24", Shows: "throughput over batch sizes, several models and contexts", Why: "curves without values"},
	{Place: "Table 1", Shows: "a comparison of systems in words", Why: "prints no numbers"},
	{Place: "Table 2", Shows: "accuracy on RULER and LongBench, 23 systems and models", Why: "accuracy, which kvreplay does not measure: it replays recorded selections"},
	{Place: "Table 3, hit rates", Shows: "24 hit rates", Prints: []string{"89.2", "90.1", "84.2", "87.3", "80.7", "82.0", "80.0", "81.5", "89.7", "91.0", "81.0", "83.2", "70.0", "73.9", "77.5", "79.0", "90.7", "88.9", "86.1", "84.6", "78.3", "80.1", "78.0", "81.0"},
		Why: "the traces of three models at 120K are not public. Signs and order are judged on ours"},
}
