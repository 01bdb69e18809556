package demand

import (
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// units are what is cached whole in a stream: blocks of one size, or clusters.
type units interface {
	// Blocks is the number of units in a context of seqLen tokens.
	Blocks(seqLen int) int
	// unpinned is the range of units that neither sinks nor the local window pin.
	unpinned(seqLen int) (free, local int)
	// appendBirths appends the units that left the local window when the context grew to
	// seqLen tokens from before.
	appendBirths(dst []int32, before, seqLen int) []int32
}

func (p Pins) unpinned(seqLen int) (free, local int) { return p.firstFree(), p.firstLocal(seqLen) }

// clustering is the units of a stream whose tokens form clusters, numbered by first token.
type clustering struct {
	pins   Pins
	of     []int32 // unit of each token
	weight []int32 // entries that each unit takes
	tokens []int32 // of each unit
}

// units numbers the units of a stream, whose lists have at most that many candidates.
func (c *Clusters) units(s *trace.Stream, candidates int) *clustering {
	given := c.TokenClusters(s, candidates)
	u := &clustering{of: make([]int32, s.MaxSeqLen())}
	number := make([]int32, len(given)) // 1 + the unit of each cluster, 0 for none so far
	var grouped []bool
	for t := range u.of {
		group := int32(-1)
		if t < len(given) {
			group = given[t]
		}
		unit := int32(len(u.tokens))
		if group >= 0 && number[group] > 0 {
			unit = number[group] - 1
		} else {
			u.tokens, grouped = append(u.tokens, 0), append(grouped, group >= 0)
		}
		if group >= 0 {
			number[group] = unit + 1
		}
		u.of[t] = unit
		u.tokens[unit]++
	}
	for unit, n := range u.tokens {
		if grouped[unit] {
			n = (n + int32(c.page) - 1) / int32(c.page) * int32(c.page)
		}
		u.weight = append(u.weight, n)
	}
	return u
}

// Marks of a token that is followed, or led, by different ones.
const (
	unknown  int32 = -1
	differs  int32 = -2
	boundary int32 = -3 // the end of a list that was not cut
)

// chains reads the clusters off the lists of the counted steps. A selector that ranks
// clusters lists the tokens of each side by side, ascending: b belongs to the cluster of a
// where it follows a, a < b, in every list that has either, but for a at the end of a list
// of M, which is cut. Clusters that were listed only side by side, ascending, are told
// apart by nothing, and what of a cluster was never listed is not known to be of it.
func chains(s *trace.Stream, candidates int) []int32 {
	tokens := s.MaxSeqLen()
	next, before := make([]int32, tokens), make([]int32, tokens)
	for t := range next {
		next[t], before[t] = unknown, unknown
	}
	note := func(at *int32, x int32) {
		if *at == unknown {
			*at = x
		} else if *at != x {
			*at = differs
		}
	}
	for row := s.Windows; row < s.Rows; row++ {
		list := s.List(row)
		note(&before[list[0]], boundary)
		for i, b := range list[1:] {
			note(&next[list[i]], b)
			note(&before[b], list[i])
		}
		if len(list) < candidates {
			note(&next[list[len(list)-1]], boundary)
		}
	}
	of := make([]int32, tokens)
	for t := range of {
		of[t] = int32(t)
		if a := before[t]; a >= 0 && a < int32(t) && next[a] == int32(t) {
			of[t] = of[a]
		}
	}
	return of
}

// Blocks is the same in every context: the joiner has checked the lists.
func (u *clustering) Blocks(int) int { return len(u.tokens) }

// unpinned is all units: the joiner has left pinned tokens out.
func (u *clustering) unpinned(int) (free, local int) { return 0, len(u.tokens) }

// appendBirths appends the units of one token alone. Larger ones arrive when they are fetched.
func (u *clustering) appendBirths(dst []int32, before, seqLen int) []int32 {
	for t := max(u.pins.firstLocal(before), u.pins.firstFree()); t < u.pins.firstLocal(seqLen); t++ {
		if unit := u.of[t]; u.tokens[unit] == 1 {
			dst = append(dst, unit)
		}
	}
	return dst
}

// dense renumbers clusters 0, 1, … by their first tokens. Tokens of none keep their negative number.
func dense(of []int32) []int32 {
	number, names := slices.Clone(of), map[int32]int32{}
	for t, name := range of {
		if name < 0 {
			continue
		}
		n, known := names[name]
		if !known {
			n = int32(len(names))
			names[name] = n
		}
		number[t] = n
	}
	return number
}

// numbered renames clusters, which are named by their first tokens: 0, 1, … in that order,
// -1 for those of one token.
func numbered(of []int32) []int32 {
	size, number := make([]int32, len(of)), make([]int32, len(of))
	for _, first := range of {
		size[first]++
	}
	next := int32(0)
	for t, first := range of {
		switch {
		case size[first] == 1:
			number[t] = -1
		case int(first) == t:
			number[t] = next
			next++
		default:
			number[t] = number[first]
		}
	}
	return number
}
