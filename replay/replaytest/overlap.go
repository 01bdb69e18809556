package replaytest

import (
	"math/rand/v2"

	"github.com/kvreplay/kvreplay/trace"
)

// Overlapping draws a long stream with a given overlap of consecutive demands, for benchmarks. The
// first k of each list of m blocks keep the given share of the previous row. Six in ten of the
// others are recently dropped blocks. The rest come from the whole context. It holds the stream in
// memory.
func Overlapping(seed uint64, context, k, m, rows int, overlap float64) *trace.Stream {
	r := rand.New(rand.NewPCG(seed, 21))
	s := new(trace.Stream)
	s.Reset(trace.StreamInfo{Key: trace.Key{Request: "synthetic", Head: trace.NoHead}, PromptLen: int32(context - rows)})
	in := make([]bool, context)
	list := make([]int32, 0, m)
	dropped := make([]int32, 4*k)
	for i := range dropped {
		dropped[i] = int32(r.IntN(context - rows))
	}
	at := 0
	drop := func(i int) {
		x := list[i]
		in[x] = false
		dropped[at%len(dropped)] = x
		at++
		list[i] = list[len(list)-1]
		list = list[:len(list)-1]
	}
	for t := range rows {
		seqLen := context - rows + t + 1
		for len(list) > k { // the candidates are drawn anew
			in[list[len(list)-1]] = false
			list = list[:len(list)-1]
		}
		for n := int(float64(len(list))*(1-overlap) + 0.5); n > 0; n-- {
			drop(r.IntN(len(list)))
		}
		for len(list) < m {
			x := dropped[r.IntN(len(dropped))]
			if r.IntN(10) >= 6 {
				x = int32(r.IntN(seqLen))
			}
			if !in[x] {
				in[x] = true
				list = append(list, x)
			}
		}
		s.Append(trace.Row{Step: int32(t), Indices: list})
	}
	return s
}
