// Package h2o keeps the most recent blocks and the heavy hitters: the blocks with the largest
// attention of all queries so far.
//
// Source: H2O (Zhang et al. 2023, "H2O: Heavy-Hitter Oracle for Efficient Generative Inference of
// Large Language Models", arXiv:2306.14048, Algorithm 1).
//
// Rule: the score of a block is F(i) = Σ over queries of the attention that it was given. With a
// budget of C blocks, the ⌊recent·C⌋ blocks with the highest index are recent and stay. The lowest
// score of the others leaves first, ties to the lowest index. The choice is greedy: a dropped block
// does not return, whatever its later scores.
//
// Options: recent=0.5, half of the budget, as in the authors' experiments (heavy_ratio =
// recent_ratio). scores=attention or ranks. ranks is a stand-in for traces without attention: the
// r-th block of a step's list that is still held, r = 1 for the best, is given 1 ÷ r.
//
// State: the score of each block and the list of those that are held. Cost: O(M + C) per step, and
// a sort if more than one block leaves, as at the end of the prompt. Memory: 12 B per block of the
// context. Lossy, online. It needs the attention that listed blocks were given (or ranks), and for
// the prompt it needs prompt_mass or prompt windows.
//
// Differences from the paper: only the last queries of the prompt count, those that the trace
// recorded. With prompt_mass that is all their attention, otherwise that of the blocks that they
// listed. A decoding step counts only the M blocks of its list. The attention is the full model's.
// H2O's own is over the blocks that it has kept.
//
// It loses if attention moves: a block that no query has demanded so far is dropped before its
// first demand.
package h2o

import (
	"cmp"
	_ "embed" // the package comment is the policy's documentation
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

//go:embed h2o.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "h2o",
	Summary: "drops the block with the least attention so far, except recent blocks",
	Source:  "H2O (Zhang et al. 2023, arXiv:2306.14048)",
	Usage:   "h2o[:recent=0.5,scores=attention], recent a share of the budget, scores attention or ranks",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Lossy: true, Sized: true, Memory: "12 B", Cost: "O(M + C) a step"},
	New: policies.WithOptions(Policy{Recent: 0.5, Scores: byAttention}, func(p *Policy) []policies.Option {
		return []policies.Option{policies.Float("recent", &p.Recent, 0, 1), policies.Word("scores", &p.Scores, byAttention, byRanks)}
	}),
}

const (
	byAttention = "attention"
	byRanks     = "ranks"
)

// Policy is H2O over one stream.
type Policy struct {
	Recent float64 // share of the budget
	Scores string  // attention or ranks

	recent int // blocks
	score  []float64
	held   []int32 // ascending
}

var _ policies.Lossy = (*Policy)(nil)

// Needs returns the need for the attention of listed blocks or for ranks, and for the prompt's.
func (p *Policy) Needs() policies.Needs {
	if p.Scores == byRanks {
		return policies.NeedCandidates | policies.NeedWindows
	}
	return policies.NeedAttention | policies.NeedWindows
}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.recent = policies.Part(p.Recent, sc.Capacity)
	p.score = policies.Fill(p.score, sc.Blocks, 0)
	p.held = p.held[:0]
	return nil
}

// Prompt replaces the scores from prompt windows by the attention of the last queries, if the trace
// has it.
func (p *Policy) Prompt(pr *policies.Prompt) {
	for i, m := range pr.Mass {
		p.score[i] = float64(m)
	}
	for i := pr.First; i < pr.End; i++ {
		p.held = append(p.held, int32(i))
	}
}

// Update applies a step.
func (p *Policy) Update(s *policies.Step) {
	for i, x := range s.List {
		if p.Scores == byRanks {
			p.score[x] += 1 / float64(i+1)
		} else {
			p.score[x] += float64(s.Scores[i])
		}
	}
	p.held = append(p.held, s.Offered...)
}

// Evict appends the blocks with the lowest scores. It appends recent blocks last, and only if the
// budget is smaller than their number.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	old := p.held[:max(0, len(p.held)-p.recent)]
	switch {
	case n == 0:
	case n == 1 && len(old) > 0:
		least := 0
		for i := range old {
			if p.before(old[i], old[least]) < 0 {
				least = i
			}
		}
		dst = append(dst, old[least])
		p.held = slices.Delete(p.held, least, least+1)
	default:
		slices.SortFunc(old, p.before)
		dst = append(dst, p.held[:n]...)
		p.held = slices.Delete(p.held, 0, n)
		slices.Sort(p.held)
	}
	return dst
}

// before orders victims.
func (p *Policy) before(a, b int32) int {
	return cmp.Or(cmp.Compare(p.score[a], p.score[b]), cmp.Compare(a, b))
}
