package lirs

import (
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// stack is S without D_t: an array from bottom to top. A block that leaves keeps its entry. The
// entry is stale if it disagrees with the block's place.
type stack struct {
	place   []int32 // place of each block, off if it is not on S
	lir     []uint8 // 1: LIR block
	entries []int32
	bottom  int // entries before are stale
	size    int
}

const (
	off   = -1
	slack = 4096 // entries that the array may have before it is compacted
)

func (s *stack) reset(blocks int) {
	s.place = policies.Fill(s.place, blocks, off)
	s.lir = policies.Fill(s.lir, blocks, 0)
	s.entries, s.bottom, s.size = s.entries[:0], 0, 0
}

// push puts blocks on top, the last one highest.
func (s *stack) push(blocks []int32) {
	if len(s.entries) > 8*s.size+slack {
		s.compact()
	}
	n := len(s.entries)
	s.entries = append(s.entries, blocks...)
	for i, x := range blocks {
		s.place[x] = int32(n + i)
	}
	s.size += len(blocks)
}

func (s *stack) compact() {
	kept := s.entries[:0]
	for i, x := range s.entries[s.bottom:] {
		if s.place[x] == int32(s.bottom+i) {
			s.place[x] = int32(len(kept))
			kept = append(kept, x)
		}
	}
	s.entries, s.bottom = kept, 0
}

// take removes x. It returns 1 if x was on S, and 0 otherwise.
func (s *stack) take(x int32) (was uint8) {
	was = 1 + uint8(s.place[x]>>31)
	s.place[x] = off
	s.size -= int(was)
	return was
}

// cool removes the n lowest LIR blocks, or all if there are fewer, with everything below them. It
// appends the LIR blocks to dst as HIR blocks.
func (s *stack) cool(n int, dst []int32) []int32 {
	n = max(n, 0)
	from := len(dst)
	dst = slices.Grow(dst, n+1)
	out := dst[from : from+n+1] // a spare place lets the loop write before it checks
	at, k := s.bottom, 0
	for ; k < n && at < len(s.entries); at++ {
		x := s.entries[at]
		out[k] = x
		k += int(s.pop(x, at) & s.lir[x])
	}
	s.bottom = at
	dst = dst[:from+k]
	for _, x := range dst[from:] {
		s.lir[x] = 0
	}
	return dst
}

// pop removes x if its entry is the one at the given place. It returns 1 if so, and 0 otherwise.
func (s *stack) pop(x int32, at int) (was uint8) {
	place := s.place[x]
	if place == int32(at) {
		place = off
		was = 1
	}
	s.place[x] = place
	s.size -= int(was)
	return was
}

// prune removes the entries below the lowest LIR block.
func (s *stack) prune() {
	for ; s.bottom < len(s.entries); s.bottom++ {
		x := s.entries[s.bottom]
		if s.lir[x] != 0 && s.place[x] == int32(s.bottom) {
			return
		}
		s.pop(x, s.bottom)
	}
}
