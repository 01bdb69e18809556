package replaytest

import (
	"math/rand/v2"

	"github.com/kvreplay/kvreplay/trace"
)

// Masses gives a stream attention masses of listed blocks and of the prompt's blocks of blockTokens
// tokens. Some masses tie. Those of a row sum to at most 1.
func Masses(r *rand.Rand, s *trace.Stream, blockTokens int) {
	levels := 1 + r.IntN(8)
	s.AttentionMass, s.PromptMass = s.AttentionMass[:0], s.PromptMass[:0]
	for row := range s.Rows {
		n := len(s.List(row))
		for range n {
			s.AttentionMass = append(s.AttentionMass, float32(r.IntN(levels+1))/float32(levels*n))
		}
	}
	for range (int(s.PromptLen) + blockTokens - 1) / blockTokens {
		s.PromptMass = append(s.PromptMass, float32(r.IntN(4*levels))/float32(levels))
	}
}
