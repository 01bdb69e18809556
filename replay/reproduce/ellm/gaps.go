package ellm

import "github.com/kvreplay/kvreplay/replay/reproduce"

// measured is why figures that were taken under load have no line.
const measured = "measured under load. No model of the paper gives it, and the points behind it are not printed"

// gaps are the figures and printed numbers of the paper that have no line.
var gaps = []reproduce.Gap{
	{Place: "Fig. 1", Shows: "serving with KV caches", Why: "a diagram"},
	{Place: "Fig. 2", Shows: "memory and compute of a GPU under load", Prints: []string{"35 %", "97.4 %"}, Why: measured},
	{Place: "Fig. 3b, Fig. 4", Shows: "TTFT, throughput and time per token by cached share", Prints: []string{"48 %", "57 %"}, Why: measured},
	{Place: "Fig. 5b", Shows: "throughput with fused kernels", Prints: []string{"18 %"}, Why: measured},
	{Place: "Fig. 6", Shows: "the system", Why: "a diagram"},
	{Place: "Fig. 9", Shows: "layer-level optimization", Why: "a diagram"},
	{Place: "Fig. 10a", Shows: "throughput of Llama2-70B, ShareGPT", Prints: []string{"2.0 ×", "1.6 ×"}, Why: measured},
	{Place: "Fig. 10b", Shows: "TTFT, ShareGPT", Prints: []string{"2.59 ×", "1.7 ×", "1.62 ×", "1.61 ×", "1.21 ×"}, Why: measured},
	{Place: "Fig. 10c", Shows: "SLO attainment, ShareGPT", Prints: []string{"98.6 %", "88 %", "92.8 %", "92.9 %"}, Why: measured},
	{Place: "Section 6.2, time per token", Shows: "four systems, two models", Prints: []string{"63.91 ms", "64.57 ms", "54.54 ms", "680.82 ms", "667.01 ms", "522.2 ms", "501.74 ms"}, Why: measured},
	{Place: "Fig. 11a", Shows: "running requests", Prints: []string{"223.16", "220.94", "240.71", "254.64", "448"}, Why: measured},
	{Place: "Fig. 11b", Shows: "SM utilisation", Prints: []string{"58.65 %", "58.20 %", "61.20 %", "67.02 %", "15 %"}, Why: measured},
	{Place: "Section 6.2, energy", Shows: "tokens per watt", Prints: []string{"1.43 ×", "2.21 ×"}, Why: measured},
	{Place: "Fig. 12", Shows: "throughput, TTFT, memory and SLO attainment, L-Eval", Prints: []string{"0.53", "47 %", "1.79 ×", "96.6 %", "97.4 %", "2.73 ×", "1.76 ×", "1.71 ×", "1.61 ×", "1.37 ×"}, Why: measured},
	{Place: "Fig. 13", Shows: "throughput and TTFT without overlap and without fusion", Prints: []string{"1.61 ×", "1.73 ×", "1.4 ×", "1.83 ×", "1.34 ×", "1.46 ×", "1.96 ×"}, Why: measured},
	{Place: "Fig. 14", Shows: "TTFT over load", Prints: []string{"2.5 ×", "2 ×", "1.25 ×", "2 ×"}, Why: measured},
	{Place: "Fig. 15", Shows: "SLO attainment over load, and goodput", Prints: []string{"90 %", "1.5 ×", "6 ×", "1.67 ×", "5 ×"}, Why: measured},
	{Place: "Fig. 16a", Shows: "time to solve", Prints: []string{"10 ms", "4.58 ms", "2.91 ms", "6.04 ms", "3.25 ms", "7.41 ms"}, Why: "times of the authors' machine and solver"},
	{Place: "Fig. 16b", Shows: "time to look up a map and choose threads", Prints: []string{"0.015 ms", "0.025 ms", "0.105 ms", "0.03 ms"}, Why: "times of the authors' machine and code"},
	{Place: "Table 1", Shows: "models, data sets, GPUs and SLOs", Why: "inputs, not results"},
	{Place: "Table 2, throughput", Shows: "throughput by block layers, normalised", Prints: []string{"1.13 ×", "1.31 ×", "1.0"}, Why: measured},
	{Place: "Section 6.6", Shows: "TTFT if FLOP/s are misjudged", Prints: []string{"5.4 %", "3.4 %"}, Why: measured},
	{Place: "Section 7", Shows: "shares of time in DeepSeek-V2 and Llama2-70B", Prints: []string{"54 %", "37 %", "7.3 %", "6.5 %", "6.4 %", "10.0 %"}, Why: "profiles of the authors' server"},
}
