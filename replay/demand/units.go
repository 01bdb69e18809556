package demand

import (
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// units are the units of a stream, which are cached as a whole: blocks of one size, or clusters.
type units interface {
	// Blocks returns the number of units in a context of seqLen tokens.
	Blocks(seqLen int) int
	// unpinned returns the range [free, local) of units that neither sinks nor the local window pin.
	unpinned(seqLen int) (free, local int)
	// appendBirths appends the units that left the local window when the context grew from before
	// tokens to seqLen tokens.
	appendBirths(dst []int32, before, seqLen int) []int32
}

func (p Pins) unpinned(seqLen int) (free, local int) { return p.firstFree(), p.firstLocal(seqLen) }

// clustering is the units of a stream whose tokens form clusters. Units are numbered by their first
// tokens.
type clustering struct {
	pins   Pins
	of     []int32 // unit of each token
	weight []int32 // capacity that each unit takes, in entries
	tokens []int32 // number of tokens of each unit
}

// units numbers the units of a stream. candidates is the largest length of its lists.
func (c *Clusters) units(s *trace.Stream, candidates int) *clustering {
	given := c.TokenClusters(s, candidates)
	u := &clustering{of: make([]int32, s.MaxSeqLen())}
	number := make([]int32, len(given)) // 1 + the unit of each cluster, or 0 before its first token
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

// Marks for a token that has no single neighbour in the lists.
const (
	unknown  int32 = -1 // no list has the token
	differs  int32 = -2 // the lists have different neighbours
	boundary int32 = -3 // the token begins a list, or ends one that was not cut
)

// chains derives the clusters from the lists of the counted steps. A selector that ranks clusters
// lists the tokens of a cluster one after the other, ascending. Token b > a belongs to the cluster
// of a if b follows a directly in every list that has either. A list of M tokens is cut, so its
// last token may lack its successor.
//
// chains cannot separate clusters that every list has in the same order, ascending. Tokens that no
// list has form no clusters.
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

// Blocks returns the number of units, the same for every context. The joiner has checked that lists
// are within the context.
func (u *clustering) Blocks(int) int { return len(u.tokens) }

// unpinned returns the range of all units. The joiner has removed pinned tokens.
func (u *clustering) unpinned(int) (free, local int) { return 0, len(u.tokens) }

// appendBirths appends the units of one token. Larger units arrive only when they are fetched.
func (u *clustering) appendBirths(dst []int32, before, seqLen int) []int32 {
	for t := max(u.pins.firstLocal(before), u.pins.firstFree()); t < u.pins.firstLocal(seqLen); t++ {
		if unit := u.of[t]; u.tokens[unit] == 1 {
			dst = append(dst, unit)
		}
	}
	return dst
}

// dense renumbers clusters 0, 1, … in the order of their first tokens. Tokens in no cluster keep
// their negative number.
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

// numbered renumbers clusters, which of names by their first tokens, 0, 1, … in that order. Tokens
// that are alone in a cluster get -1.
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
