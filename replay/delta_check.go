package replay

import (
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// brokenList names the rule that a list breaks.
func brokenList(s *trace.Stream, check *trace.Checker) error {
	if e := check.First(s); e != nil {
		return e
	}
	panic("replay: the delta refused a list that breaks no rule")
}

// load sets d.cur to the first n of a row's list, its demand, and reports whether the
// list breaks no rule but distinctness of those n, which extract counts: not empty, no
// longer than the metadata's M, in range [0, blocks), candidates distinct, ascending
// where the metadata says so. A joined list may be longer.
func (d *Delta) load(list []int32, n, blocks int, m *trace.Meta) bool {
	if len(list) == 0 && d.clusters == nil || len(list) > m.Candidates && d.joined == nil || m.Order == trace.OrderIndex && !slices.IsSorted(list) {
		return false
	}
	cur := d.cur
	clear(cur)
	head := list[:n]
	if !mark(cur, head) {
		return false
	}
	if len(head) == len(list) {
		return noneFrom(cur, blocks)
	}
	return d.soundTail(list[len(head):], blocks)
}

// mark adds the list to the set and reports whether it has room for all, which it has
// not for negative indices.
func mark(set []uint64, list []int32) bool {
	for _, x := range list {
		w := int(uint32(x) >> 6)
		if w >= len(set) {
			return false
		}
		set[w] |= 1 << (uint32(x) & 63)
	}
	return true
}

// noneFrom reports whether the set has no member from blocks on. The bitsets cover
// the stream's last context; earlier ones are shorter.
func noneFrom(set []uint64, blocks int) bool {
	w := blocks >> 6
	if w >= len(set) {
		return true
	}
	past := set[w] >> (blocks & 63)
	for _, c := range set[w+1:] {
		past |= c
	}
	return past == 0
}

// soundTail checks the candidates against the context, the demand in d.cur and each
// other, and the demand against the context.
func (d *Delta) soundTail(rest []int32, blocks int) bool {
	all := d.all[:len(d.cur)]
	copy(all, d.cur)
	var twice uint64
	for _, x := range rest {
		w, bit := uint32(x)>>6, uint64(1)<<(uint32(x)&63)
		if w >= uint32(len(all)) {
			return false
		}
		twice |= all[w] & bit
		all[w] |= bit
	}
	return twice == 0 && noneFrom(all, blocks)
}
