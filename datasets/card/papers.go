package card

// What the papers print. ESS: "ESS: An Offload-Centric Latent-Cache Management
// Architecture for DeepSeek-V3.2-Exp", arXiv 2512.10576. KVDrive: "KVDRIVE: A Holistic
// Multi-Tier KV Cache Management System for Long-Context LLM Inference".
const (
	essFewest, essMost = 16.66, 605 // misses a batch over layers at Sparse Memory Ratio 0.2 (section 3.3 on Fig. 5)
	essTopK            = 2048       // DeepSeek-V3.2-Exp's Top-K (section 2.2)

	driveWindow0, driveWindow3 = 500, 12.5 // MB a step for windows ×0 (over) and ×3 (below) at 6.25 % (section 3 on Fig. 3)
)

// driveHits are KVDrive's Table 3: hit rates of LRU and lookahead eviction in percent at
// window 2, K = 2048, M = 2560, 120K context; of Llama-3-8B, Qwen-3-8B, Phi-4-mini.
var driveHits = []struct {
	selector string
	lru, la  [3]float64
}{
	{"quest", [3]float64{89.2, 89.7, 90.7}, [3]float64{90.1, 91.0, 88.9}},
	{"shadowkv", [3]float64{84.2, 81.0, 86.1}, [3]float64{87.3, 83.2, 84.6}},
	{"retroinfer", [3]float64{80.7, 70.0, 78.3}, [3]float64{82.0, 73.9, 80.1}},
	{"kvdrive", [3]float64{80.0, 77.5, 78.0}, [3]float64{81.5, 79.0, 81.0}},
}

// driveHitRange are the least and most of LRU's in driveHits, in how many cells lookahead
// is better, of how many, and the least, most and mean that it gains in points.
func driveHitRange() (least, most float64, better, of int, loss, gain, mean float64) {
	least = 100
	for _, row := range driveHits {
		for i := range row.lru {
			least, most = min(least, row.lru[i]), max(most, row.lru[i])
			d := row.la[i] - row.lru[i]
			loss, gain = min(loss, d), max(gain, d)
			mean += d
			of++
			if d > 0 {
				better++
			}
		}
	}
	return least, most, better, of, loss, gain, mean / float64(of)
}

// driveAnswers are KVDrive's Table 2, RULER's average with Llama-3-8B, best first. The
// papers compare answers with each other, not recall of the exact Top-K.
var driveAnswers = []struct {
	selector string
	ruler    float64
}{{"shadowkv", 76.95}, {"kvdrive", 76.15}, {"retroinfer", 75.82}, {"quest", 73.99}, {"pqcache", 69.49}, {"magicpig", 67.54}}
