package ruler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Variable tracking (scripts/data/synthetic/variable_tracking.py): one chain of hops
// assignments in noise, and a solved example before it.
const (
	vtHops          = 4
	vtLetters       = 5   // of a variable's name
	vtExampleLetter = 3   // of one in the example
	vtLeastNoise    = 5   // lines of noise at least: one position for each assignment
	vtExampleTokens = 500 // the example without its answer is the largest of at most so many tokens, or the least
)

// chain is a prompt of variable tracking without an example.
type chain struct {
	draws draws
	names []string // variables, in the order of assignment
	value string   // of the first
	lines []string // VAR A = 12345, VAR B = VAR A , …
}

// makeChain draws names and value that no other chain of the sample has.
func makeChain(d draws, r *rand.Rand, seen map[string]bool, length int) *chain {
	c := &chain{draws: d}
	c.value = unused(seen, func() string { return strconv.Itoa(10_000 + r.IntN(89_999)) })
	for i := range vtHops + 1 {
		c.names = append(c.names, unused(seen, func() string { return letters(r, 'A', length) }))
		if i == 0 {
			c.lines = append(c.lines, fmt.Sprintf("VAR %s = %s", c.names[i], c.value))
			continue
		}
		c.lines = append(c.lines, fmt.Sprintf("VAR %s = VAR %s ", c.names[i], c.names[i-1])) // the space is RULER's
	}
	return c
}

func (c *chain) sizes() (least, most int) { return vtLeastNoise, unbounded }

// prompt puts the assignments in order before lines of noise at random.
func (c *chain) prompt(n int) draft {
	positions := distinct(c.draws.stream("positions", n), n, len(c.lines))
	slices.Sort(positions)
	context := strings.Join(insert(slices.Repeat([]string{noiseLine}, n), c.lines, positions), "\n")
	return draft{
		input:   fill(vtTemplate.input, "query", c.value, "context", context),
		prefix:  fill(vtTemplate.prefix, "query", c.value, "count", strconv.Itoa(len(c.names))),
		outputs: c.names,
	}
}

// tracked is a chain after a solved example.
type tracked struct {
	*chain
	example string
}

func newChain(m *maker, _, _ int, d draws) (sample, error) {
	seen := make(map[string]bool)
	c := makeChain(d, d.stream("chain", 0), seen, vtLetters)
	solved := d
	solved.name += "/example"
	e := makeChain(solved, solved.stream("chain", 0), seen, vtExampleLetter)
	example := e.prompt(vtLeastNoise)
	if f, err := fit(e, vtExampleTokens, 0, m.count); err == nil {
		example = f.draft
	}
	return &tracked{c, example.input + example.prefix + " " + strings.Join(example.outputs, " ") + "\n\n"}, nil
}

func (t *tracked) prompt(n int) draft {
	d := t.chain.prompt(n)
	d.input = t.example + d.input
	return d
}
