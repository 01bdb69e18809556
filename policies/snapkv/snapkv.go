// Package snapkv keeps the blocks of the prompt that its last queries attended to. It chooses once.
//
// Source: SnapKV (Li et al. 2024, "SnapKV: LLM Knows What You are Looking for Before Generation",
// arXiv:2404.14469, section 4 and Listing 1).
//
// Rule: the last window blocks of the prompt, the observation window, stay. A block i in front of
// them has the score
//
//	s(i) = pool of m(j) over i-k/2 ≤ j ≤ i+k/2,   m(j) = Σ attention of the last queries to j
//
// m is the trace's prompt_mass. pool is the maximum, or the sum ÷ k, over blocks in front of the
// window. Blocks that do not exist count as nothing. The highest scores fill the budget. Victims:
// the lowest score first, ties to the lowest index, and when none of these is left, the oldest of
// the rest. The run's local window pins some blocks of the prompt. When they leave it, they are
// held, with their score if they lie in front of the observation window.
//
// Options: window=32, kernel=7 and pooling=max are those of the authors' LongBench experiments
// (configuration ablation_c1024_w32_k7_maxpool). The classes of their code default to the average
// over 5. kernel is odd. Options count blocks of the trace, which are tokens if a block is one
// token.
//
// State: the blocks in front of the window by score. Cost: O(P·kernel) once for P blocks of the
// prompt. Then it is O(1) per step, or O(C) if a block of the prompt leaves the local window.
// Memory: 12 B per block of the prompt. Lossy, online, needs prompt_mass. Differences from the
// paper: there generated tokens make the cache grow beyond its budget. Here they replace the lowest
// scores, so the budget holds at every step and methods compare at equal memory. The sum is over
// the queries that the trace recorded, not over window queries. For grouped queries the mass is
// their mean, one score per KV head.
//
// It loses if generation needs blocks that the end of the prompt does not attend to.
package snapkv

import (
	"cmp"
	_ "embed" // the package comment is the policy's documentation
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

//go:embed snapkv.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "snapkv",
	Summary: "drops the prompt blocks with the least attention from the prompt's last queries",
	Source:  "SnapKV (Li et al. 2024, arXiv:2404.14469)",
	Usage:   Usage("snapkv", 32, ""),
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Lossy: true, Sized: true, Memory: "12 B", Cost: "O(1) a step"},
	New:     Parser(New(32), func(p *Policy) (*Policy, []policies.Option) { return p, nil }),
}

// Usage returns the usage text of a method that embeds SnapKV. window is its default observation
// window in blocks. more is the text of its further options, each behind a comma.
func Usage(name string, window int, more string) string {
	return fmt.Sprintf("%s[:window=%d,kernel=7,pooling=max%s], window and kernel in blocks, kernel odd, pooling max or avg", name, window, more)
}

// Parser returns a parser of the options of a method that embeds SnapKV, for policies.Entry.New.
// own returns the embedded SnapKV and the further options of the method.
func Parser[P any, M interface {
	*P
	policies.Policy
}](defaults P, own func(*P) (*Policy, []policies.Option)) func(options string) (func() policies.Policy, string, error) {
	return func(options string) (func() policies.Policy, string, error) {
		method := defaults
		p, more := own(&method)
		canonical, err := policies.ParseOptions(options, append(p.options(), more...)...)
		if err == nil {
			err = p.check()
		}
		return func() policies.Policy { instance := method; return M(&instance) }, canonical, err
	}
}

// Policy is SnapKV over one stream.
type Policy struct {
	Window  int    // last blocks of the prompt that stay
	Kernel  int    // blocks that are pooled, odd
	Pooling string // max or avg

	first, front int32     // blocks of the prompt with a score: [first, front)
	scores       []float32 // scores of these blocks
	order        []int32   // those of these blocks that are held, lowest score first, from next on
	next         int
	oldest       int32 // oldest held block without a score
	ranking      ranking
}

var _ policies.Lossy = (*Policy)(nil)

// New returns the policy with its defaults and the given observation window.
func New(window int) Policy { return Policy{Window: window, Kernel: 7, Pooling: "max"} }

// options returns the options of the policy.
func (p *Policy) options() []policies.Option {
	return []policies.Option{policies.Int("window", &p.Window, 0, 1<<20), policies.Int("kernel", &p.Kernel, 1, 1<<16-1),
		policies.Word("pooling", &p.Pooling, "max", "avg")}
}

// check rejects a kernel without a middle.
func (p *Policy) check() error {
	if p.Kernel%2 == 0 {
		return fmt.Errorf("kernel=%d, expected an odd number of blocks", p.Kernel)
	}
	return nil
}

// Needs returns the need for prompt_mass.
func (p *Policy) Needs() policies.Needs { return policies.NeedPromptMass }

// Reset starts a stream.
func (p *Policy) Reset(*policies.Scope) error { return nil }

// Observed returns the number of observation window blocks that are held when the prompt ends. The
// others are in the local window.
func (p *Policy) Observed(pr *policies.Prompt) int {
	return max(0, pr.End-max(pr.First, pr.Blocks-p.Window))
}

// Scores appends the pooled masses of the blocks [First, end) in front of the observation window.
func (p *Policy) Scores(pr *policies.Prompt, end int, dst []float32) []float32 {
	front, half := min(len(pr.Mass), pr.Blocks-p.Window), p.Kernel/2
	for i := pr.First; i < min(end, front); i++ {
		pooled := pr.Mass[max(0, i-half):min(front, i+half+1)]
		if p.Pooling == "max" {
			dst = append(dst, slices.Max(pooled))
			continue
		}
		sum := 0.0
		for _, m := range pooled {
			sum += float64(m)
		}
		dst = append(dst, float32(sum/float64(p.Kernel)))
	}
	return dst
}

// Prompt ranks the prompt.
func (p *Policy) Prompt(pr *policies.Prompt) {
	p.first = int32(pr.First)
	p.scores = p.Scores(pr, pr.Blocks, p.scores[:0])
	p.front = p.first + int32(len(p.scores))
	p.next, p.oldest = 0, p.front
	held := p.scores[:max(0, min(len(p.scores), pr.End-pr.First))]
	p.order = p.ranking.rank(p.first, held, p.order)
}

// before orders victims with a score.
func (p *Policy) before(a, b int32) int {
	return cmp.Or(cmp.Compare(p.scores[a-p.first], p.scores[b-p.first]), cmp.Compare(a, b))
}

// Update applies a step. It ranks blocks of the prompt that leave the local window like the others.
func (p *Policy) Update(s *policies.Step) {
	for _, x := range s.Offered {
		if x < p.front {
			at, _ := slices.BinarySearchFunc(p.order[p.next:], x, p.before)
			p.order = slices.Insert(p.order, p.next+at, x)
		}
	}
}

// Evict appends the lowest scores, then the oldest of the rest.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	for range n {
		if p.next < len(p.order) {
			dst = append(dst, p.order[p.next])
			p.next++
		} else {
			dst = append(dst, p.oldest)
			p.oldest++
		}
	}
	return dst
}
