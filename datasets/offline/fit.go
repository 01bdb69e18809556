package offline

import (
	"fmt"
	"math/rand/v2"
	"sort"

	"github.com/kvreplay/kvreplay/datasets/tokens"
)

// problem is a prompt of a length that is yet to be found. Its units are lines,
// passages or examples.
type problem struct {
	least, most int                                           // units that there must and can be
	build       func(n int) (prompt string, answers []string) // grows with n
	origin      string                                        // what of the sources it was made from
}

// generator makes a task's i-th problem.
type generator func(i int, r *rand.Rand) (*problem, error)

// fitted is a problem at its length.
type fitted struct {
	prompt  string
	answers []string
	tokens  int
}

// fit builds the problem with as many units as budget tokens hold. Guesses follow the
// bytes a token has in the last one, which takes four or five counts of a prompt.
func fit(t tokens.Tokenizer, p *problem, budget int) (best fitted, err error) {
	at := func(n int) (f fitted) {
		f.prompt, f.answers = p.build(n)
		f.tokens = tokens.Count(t, f.prompt)
		return f
	}
	best = at(p.least)
	if best.tokens > budget {
		return best, fmt.Errorf("length too short: the prompt takes %d tokens at least, %d are left for it", best.tokens, max(budget, 0))
	}
	last := best
	lo, hi := p.least, p.most+1 // lo fits, hi does not
	for guesses := 0; hi-lo > 1; guesses++ {
		n := (lo + hi) / 2
		if guesses < 8 {
			n = p.guess(lo, hi, budget*len(last.prompt)/max(last.tokens, 1))
		}
		if last = at(n); last.tokens <= budget {
			lo, best = n, last
		} else {
			hi = n
		}
	}
	return best, nil
}

// guess is the largest number of units between lo and hi with so many bytes, lo + 1 if
// there is none. Steps double first: building all units would take long.
func (p *problem) guess(lo, hi, bytes int) int {
	small := func(n int) bool {
		text, _ := p.build(n)
		return len(text) <= bytes
	}
	step := 1
	for lo+2*step < hi && small(lo+2*step) {
		step *= 2
	}
	from, to := lo+step, min(lo+2*step, hi) // to is too large
	return from + sort.Search(to-from-1, func(i int) bool { return !small(from + i + 1) })
}
