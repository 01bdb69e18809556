package lru

import (
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// pool is the order of last use in a tracked pool. The blocks of E are in three places. The policy's
// queue has those that left the demand of their stream, in the order of last use. births has those that
// were born since their last use, in the order of birth. The others are in the latest demand of another
// stream than that of the update.
type pool struct {
	tracked bool
	scope   policies.Scope
	row     int32 // of the latest update, 0 for the first
	births  Queue
	last    []int32  // by block: row of the last use of those in a queue. Births: the row before
	latest  []latest // of each stream
	oldest  int      // no stream whose row came more rows before that of the update has resident blocks
}

// latest is the resident blocks of a stream's latest demand.
type latest struct {
	set   []uint64 // by the block's number in its stream
	size  int
	first int // no word before has a block
}

func (p *pool) reset(sc *policies.Scope) {
	if p.tracked = sc.Tracked; !p.tracked {
		return
	}
	p.scope, p.row, p.oldest = *sc, 0, 0
	p.births.Reset(sc.Blocks)
	p.last = policies.Fill(p.last, sc.Blocks, 0)
	p.latest = slices.Grow(p.latest[:0], sc.Updates())[:sc.Updates()]
	for i := range p.latest {
		p.latest[i] = latest{set: policies.Fill(p.latest[i].set, p.stride()>>6+1, 0)}
	}
}

// stride returns the number of blocks of each stream.
func (p *pool) stride() int { return p.scope.Blocks / p.scope.Updates() }

// update applies a step.
func (p *pool) update(left *Queue, s *policies.Step) {
	p.row = s.T + int32(p.scope.Windows)
	streams := int32(p.scope.Updates())
	stream := p.row % streams
	own, base := &p.latest[stream], stream*int32(p.stride())
	for _, x := range s.Exit {
		p.last[x] = p.row - streams
		own.set[(x-base)>>6] &^= 1 << ((x - base) & 63)
	}
	left.join(s.Exit)
	for _, x := range s.Offered {
		p.last[x] = p.row - 1
	}
	p.births.join(s.Offered)
	for _, x := range s.Hit {
		left.place[x], p.births.place[x] = -1, -1
		own.set[(x-base)>>6] |= 1 << ((x - base) & 63)
	}
	for _, x := range s.Miss {
		own.set[(x-base)>>6] |= 1 << ((x - base) & 63)
	}
	own.size += len(s.Hit) + len(s.Miss) - len(s.Exit)
	own.first = 0
	p.oldest = min(p.oldest+1, len(p.latest)-1)
}

// evict appends the n least recently used blocks.
func (p *pool) evict(left *Queue, n int, dst []int32) []int32 {
	for n += len(dst); len(dst) < n; {
		// Blocks that left were last used before the latest demand of every stream.
		birth, born := p.births.Peek()
		if x, ok := left.Peek(); ok && (!born || p.last[x] <= p.last[birth]) {
			dst = append(dst, x)
			left.head++
			continue
		}
		for p.oldest > 0 && p.of(p.oldest).size == 0 {
			p.oldest--
		}
		switch {
		case p.oldest > 0 && (!born || p.row-int32(p.oldest) <= p.last[birth]):
			dst = p.evictLatest(p.oldest, n-len(dst), dst)
		case born:
			dst = append(dst, birth)
			p.births.head++
		default:
			return dst // fewer than n blocks
		}
	}
	return dst
}

// of returns the latest demand of the stream whose row came age rows before that of the update.
func (p *pool) of(age int) *latest { return &p.latest[p.streamOf(age)] }

func (p *pool) streamOf(age int) int {
	return (int(p.row) + len(p.latest) - age) % len(p.latest)
}

// evictLatest appends at most n blocks of the demand of that age, in ascending order.
func (p *pool) evictLatest(age, n int, dst []int32) []int32 {
	of, base, from := p.of(age), int32(p.streamOf(age)*p.stride()), len(dst)
	n = min(n, of.size)
	of.size -= n
	dst = slices.Grow(dst, n)[:from+n]
	out, w := dst[from:], of.first
	for k := 0; k < n; w++ {
		word := of.set[w]
		for ; word != 0 && k < n; word &= word - 1 {
			out[k] = base + int32(w<<6+bits.TrailingZeros64(word))
			k++
		}
		if of.set[w] = word; word != 0 {
			break
		}
	}
	of.first = w
	return dst
}
