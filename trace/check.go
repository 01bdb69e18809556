package trace

import (
	"math"
	"math/bits"
)

// Checker applies the rules of FORMAT.md to streams. It keeps its scratch memory, so each goroutine
// needs its own.
type Checker struct {
	path string
	meta *Meta
	seen []uint64
}

// NewChecker returns a checker for streams of the file at path with metadata m.
func NewChecker(path string, m *Meta) *Checker { return &Checker{path: path, meta: m} }

// Blocks returns the number of blocks in a context of seqLen tokens.
func (m *Meta) Blocks(seqLen int) int { return (seqLen + m.BlockTokens - 1) / m.BlockTokens }

// Stream reports every broken rule of the columns that s holds, in row order, until report returns
// false. It returns whether report never returned false.
func (c *Checker) Stream(s *Stream, report func(*Error) bool) bool {
	return c.lists(s, report) && c.scores(s, report) && c.masses(s, report) && c.predicted(s, report) && c.promptMass(s, report)
}

func (c *Checker) lists(s *Stream, report func(*Error) bool) bool {
	for i, step := range s.Steps {
		list := s.List(i)
		if len(list) == 0 {
			if !report(streamError(c.path, &s.StreamInfo, i, step, RuleList, "topk_indices is empty, expected at least one index")) {
				return false
			}
			continue
		}
		if len(list) > c.meta.Candidates && !report(streamError(c.path, &s.StreamInfo, i, step, RuleList,
			"topk_indices has %d values, the metadata allows M = %d", len(list), c.meta.Candidates)) {
			return false
		}
		if c.meta.Order == OrderIndex && increasing(list, c.meta.Blocks(s.SeqLen(i))) {
			continue
		}
		if e := c.list(s, i, list, "topk_indices", RuleIndex, RuleDistinct); e != nil && !report(e) {
			return false
		}
		if c.meta.Order != OrderIndex {
			continue
		}
		for j := 1; j < len(list); j++ {
			if list[j] < list[j-1] {
				if !report(streamError(c.path, &s.StreamInfo, i, step, RuleOrder,
					"topk_indices[%d] = %d after %d, but order=index means ascending", j, list[j], list[j-1])) {
					return false
				}
				break
			}
		}
	}
	return true
}

// increasing reports whether all indices are from 0 to limit-1 and strictly increasing, hence
// distinct. It compares four at a time by the signs of their differences.
func increasing(list []int32, limit int) bool {
	// The sign bit of all is set if any index is negative. The sign bit of falls is set if each
	// index is less than the next.
	last, all, falls := int32(-1), int32(0), int32(-1)
	for ; len(list) >= 4; list = list[4:] {
		a, b, c, d := list[0], list[1], list[2], list[3]
		all |= a | b | c | d
		falls &= (last - a) & (a - b) & (b - c) & (c - d)
		last = d
	}
	for _, x := range list {
		all |= x
		falls &= last - x
		last = x
	}
	return all >= 0 && falls < 0 && int(last) < limit
}

// list checks that one list is in range and has distinct indices. It returns at most one error.
func (c *Checker) list(s *Stream, i int, list []int32, column, ruleRange, ruleDistinct string) *Error {
	limit := c.meta.Blocks(s.SeqLen(i))
	if words := limit>>6 + 1; len(c.seen) < words {
		c.seen = make([]uint64, words)
	}
	if c.sound(list, limit) {
		return nil
	}
	clear(c.seen)
	defer clear(c.seen)
	for j, x := range list {
		if x < 0 || int(x) >= limit {
			return streamError(c.path, &s.StreamInfo, i, s.Steps[i], ruleRange,
				"%s[%d] = %d, expected 0 ≤ index < %d (context of %d tokens in blocks of %d)", column, j, x, limit, s.SeqLen(i), c.meta.BlockTokens)
		}
		if c.seen[x>>6]&(1<<(x&63)) != 0 {
			return streamError(c.path, &s.StreamInfo, i, s.Steps[i], ruleDistinct,
				"%s[%d] = %d appears twice in the list", column, j, x)
		}
		c.seen[x>>6] |= 1 << (x & 63)
	}
	return nil
}

// sound reports whether all indices are from 0 to limit-1 and distinct. They are if the bits set
// below limit number as many as the indices. If so, it clears c.seen again.
func (c *Checker) sound(list []int32, limit int) bool {
	if limit < 1 {
		return len(list) == 0
	}
	seen := c.seen[:(limit+63)>>6]
	for _, x := range list {
		w := uint(uint32(x) >> 6) // a negative index gives a word that is too large
		if w >= uint(len(seen)) {
			return false
		}
		seen[w] |= 1 << (x & 63)
	}
	n, last := 0, len(seen)-1
	if seen[last]&^(1<<(limit-64*last)-1) != 0 {
		return false
	}
	if len(seen) < len(list) {
		for _, w := range seen {
			n += bits.OnesCount64(w)
		}
		clear(seen)
		return n == len(list)
	}
	for _, x := range list {
		n += bits.OnesCount64(seen[x>>6])
		seen[x>>6] = 0
	}
	return n == len(list)
}

func (c *Checker) scores(s *Stream, report func(*Error) bool) bool {
	rising := c.meta.Order == OrderRank
	for i, step := range s.Steps {
		last := float32(math.Inf(1))
		for j, v := range s.ScoreList(i) {
			var e *Error
			switch {
			case v != v || v > math.MaxFloat32 || v < -math.MaxFloat32:
				e = streamError(c.path, &s.StreamInfo, i, step, RuleScore, "scores[%d] = %v, expected a finite number", j, v)
			case rising && v > last:
				e = streamError(c.path, &s.StreamInfo, i, step, RuleScore,
					"scores[%d] = %v rises above scores[%d] = %v, but order=rank means best first", j, v, j-1, last)
			default:
				last = v
				continue
			}
			if !report(e) {
				return false
			}
			break
		}
	}
	return true
}

func (c *Checker) masses(s *Stream, report func(*Error) bool) bool {
	bad := func(v float32) bool { return !(v >= 0 && v <= 1) } // NaN too
	for i := range s.CoveredMass {
		if bad(s.CoveredMass[i]) && !report(streamError(c.path, &s.StreamInfo, i, s.Steps[i], RuleMass,
			"covered_mass = %v, expected 0 to 1", s.CoveredMass[i])) {
			return false
		}
	}
	for i, step := range s.Steps {
		for j, v := range s.MassList(i) {
			if bad(v) {
				if !report(streamError(c.path, &s.StreamInfo, i, step, RuleMass, "attention_mass[%d] = %v, expected 0 to 1", j, v)) {
					return false
				}
				break
			}
		}
	}
	return true
}

func (c *Checker) predicted(s *Stream, report func(*Error) bool) bool {
	if len(s.PredictedOffsets) == 0 {
		return true
	}
	for i := range s.Steps {
		if e := c.list(s, i, s.PredictedList(i), "predicted_indices", RulePredict, RulePredict); e != nil && !report(e) {
			return false
		}
	}
	return true
}

func (c *Checker) promptMass(s *Stream, report func(*Error) bool) bool {
	if !s.hasPromptMass() {
		return true
	}
	if want := c.meta.Blocks(int(s.PromptLen)); len(s.PromptMass) != want && !report(streamError(c.path, &s.StreamInfo, 0, s.FirstStep, RulePromptMass,
		"prompt_mass has %d values, expected %d, one per block of the prompt", len(s.PromptMass), want)) {
		return false
	}
	for j, v := range s.PromptMass {
		if !(v >= 0 && v <= math.MaxFloat32) {
			return report(streamError(c.path, &s.StreamInfo, 0, s.FirstStep, RulePromptMass, "prompt_mass[%d] = %v, expected a finite number, 0 or more", j, v))
		}
	}
	return true
}

// First returns the first broken rule of s, or nil.
func (c *Checker) First(s *Stream) *Error {
	var first *Error
	c.Stream(s, func(e *Error) bool { first = e; return false })
	return first
}
