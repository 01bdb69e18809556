package tokens

import (
	"container/heap"
	"fmt"
	"strings"
	"sync"
)

// Name implements Tokenizer.
func (t *bpe) Name() string { return t.name }

// Encode implements Tokenizer. Tokens that the file adds, special ones too, are found in
// the text.
func (t *bpe) Encode(text string) []int {
	var ids []int
	t.each(text, func(list []int32) {
		for _, id := range list {
			ids = append(ids, int(id))
		}
	})
	return ids
}

func (t *bpe) count(text string) (n int) {
	t.each(text, func(list []int32) { n += len(list) })
	return n
}

// each yields the tokens of text, piece by piece.
func (t *bpe) each(text string, yield func([]int32)) {
	first := true
	t.added.cut(strings.ToValidUTF8(text, "\uFFFD"), func(part string, id int) {
		if id >= 0 {
			yield([]int32{int32(id)})
		} else {
			if t.normalizer != nil {
				part = t.normalizer(part)
			}
			pieces := []string{part}
			for _, split := range t.splitters {
				pieces = split(pieces, first)
			}
			for _, p := range pieces {
				yield(t.piece(p))
			}
		}
		first = false
	})
}

// maxCached is the length in bytes of the longest piece that is remembered.
const maxCached = 32

// pieceCache remembers the tokens of short pieces, up to a number of them.
type pieceCache struct {
	sync.RWMutex
	list map[string][]int32
}

// maxPieces bounds the cache: 64 Ki pieces are about 8 MB.
const maxPieces = 1 << 16

func (t *bpe) piece(p string) []int32 {
	if p == "" {
		return nil
	}
	if len(p) > maxCached {
		return t.merge(p)
	}
	t.cache.RLock()
	ids, ok := t.cache.list[p]
	t.cache.RUnlock()
	if ok {
		return ids
	}
	ids = t.merge(p)
	t.cache.Lock()
	defer t.cache.Unlock()
	if t.cache.list == nil {
		t.cache.list = make(map[string][]int32)
	}
	if len(t.cache.list) < maxPieces {
		t.cache.list[strings.Clone(p)] = ids
	}
	return ids
}

// symbol is a token of a piece while it is merged, in a list.
type symbol struct {
	id         int32
	prev, next int // −1: none
	gone       bool
}

// pair is a merge that may be made at a symbol.
type pair struct {
	merge
	at int
}

// pairs are a heap: lowest rank first, then leftmost.
type pairs []pair

func (p pairs) Len() int { return len(p) }
func (p pairs) Less(i, j int) bool {
	return p[i].rank < p[j].rank || p[i].rank == p[j].rank && p[i].at < p[j].at
}
func (p pairs) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p *pairs) Push(x any)   { *p = append(*p, x.(pair)) }
func (p *pairs) Pop() any {
	last := len(*p) - 1
	x := (*p)[last]
	*p = (*p)[:last]
	return x
}

// merge returns the tokens of a piece: its bytes or characters, of which the pair with the
// lowest rank becomes one until none is left.
func (t *bpe) merge(p string) []int32 {
	if id, ok := t.ids[p]; ok && t.ignoreMerges {
		return []int32{int32(id)}
	}
	ids := t.symbols(p)
	list := make([]symbol, len(ids))
	var queue pairs
	offer := func(i int) {
		if i < 0 || list[i].next < 0 {
			return
		}
		if m, ok := t.merges[[2]int32{list[i].id, list[list[i].next].id}]; ok {
			heap.Push(&queue, pair{m, i})
		}
	}
	for i, id := range ids {
		list[i] = symbol{id: id, prev: i - 1, next: i + 1}
	}
	if len(list) > 0 {
		list[len(list)-1].next = -1
	}
	for i := range list {
		offer(i)
	}
	for queue.Len() > 0 {
		top := heap.Pop(&queue).(pair)
		s := &list[top.at]
		if s.gone || s.next < 0 || t.merges[[2]int32{s.id, list[s.next].id}] != top.merge {
			continue // one of the two is part of another token by now
		}
		list[s.next].gone = true
		s.id, s.next = top.id, list[s.next].next
		if s.next >= 0 {
			list[s.next].prev = top.at
		}
		offer(s.prev)
		offer(top.at)
	}
	ids = ids[:0]
	for i := range list {
		if !list[i].gone {
			ids = append(ids, list[i].id)
		}
	}
	return ids
}

// symbols are the tokens of single bytes or characters.
func (t *bpe) symbols(p string) []int32 {
	ids := make([]int32, 0, len(p))
	fused := false
	miss := func(part string) {
		if t.fallback {
			if list, ok := t.bytes(part); ok {
				ids, fused = append(ids, list...), false
				return
			}
		}
		if t.unknown >= 0 && !(fused && t.fuseUnknown) {
			ids, fused = append(ids, int32(t.unknown)), true
		}
	}
	put := func(part string) {
		if id, ok := t.ids[part]; ok {
			ids, fused = append(ids, int32(id)), false
		} else {
			miss(part)
		}
	}
	if t.byteLevel {
		for i := range len(p) {
			put(p[i : i+1])
		}
		return ids
	}
	for _, r := range p {
		put(string(r))
	}
	return ids
}

// bytes are the tokens <0x00> … of the bytes of a character.
func (t *bpe) bytes(part string) ([]int32, bool) {
	var list []int32
	for i := range len(part) {
		id, ok := t.ids[fmt.Sprintf("<0x%02X>", part[i])]
		if !ok {
			return nil, false
		}
		list = append(list, int32(id))
	}
	return list, true
}
