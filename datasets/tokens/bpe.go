package tokens

import (
	"container/heap"
	"fmt"
	"strings"
	"sync"
)

// bpe is a tokenizer of byte-pair encoding (Sennrich et al. 2016).
type bpe struct {
	name      string
	byteLevel bool           // the vocabulary is in bytes, not in characters
	ids       map[string]int // of tokens, in bytes if byteLevel
	texts     map[int]string // of ids
	// merges are of two tokens. If nil, two tokens become the token of their joined text,
	// and its id is the rank.
	merges map[[2]int32]merge

	unknown      int // −1: characters that are not in the vocabulary are dropped
	fuseUnknown  bool
	fallback     bool // characters that are not in the vocabulary become bytes, <0x00> …
	ignoreMerges bool // a piece that is a token needs no merges

	added      addedTokens
	normalizer []func(string) string
	splitters  []splitter
	decoders   []decoder
	cache      pieceCache
}

// splitter cuts texts further. first reports that they begin the whole text.
type splitter func(texts []string, first bool) []string

// decoder turns the texts of tokens into others.
type decoder func([]string) []string

// merge is the token that two tokens become, and when: the lowest rank first.
type merge struct{ rank, id int32 }

// Name implements Tokenizer.
func (t *bpe) Name() string { return t.name }

// Encode implements Tokenizer. It finds the tokens that the file adds, special ones too, in the
// text.
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

// Decode implements Tokenizer. Added tokens are decoded to their text.
func (t *bpe) Decode(ids []int) (string, error) {
	list := make([]string, len(ids))
	for i, id := range ids {
		text, ok := t.texts[id]
		if !ok {
			return "", fmt.Errorf("decode by %s: it has no token %d", t.name, id)
		}
		list[i] = text
	}
	for _, decode := range t.decoders {
		list = decode(list)
	}
	return strings.Join(list, ""), nil
}

// each yields the tokens of text, piece by piece.
func (t *bpe) each(text string, yield func([]int32)) {
	first := true
	t.added.cut(strings.ToValidUTF8(text, "\uFFFD"), func(part string, id int) {
		if id >= 0 {
			yield([]int32{int32(id)})
		} else {
			for _, normalize := range t.normalizer {
				part = normalize(part)
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

// maxCached is the length in bytes of the longest piece in the cache.
const maxCached = 32

// pieceCache caches the tokens of short pieces, up to a number of them.
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

// merge returns the tokens of a piece. It begins with bytes or characters and joins the pair
// of the lowest rank until none is left.
func (t *bpe) merge(p string) []int32 {
	if id, ok := t.ids[p]; ok && t.ignoreMerges {
		return []int32{int32(id)}
	}
	ids := t.symbols(p)
	list := make([]symbol, len(ids))
	var queue pairs
	find := func(at int) (m merge, ok bool) {
		s := &list[at]
		if s.gone || s.next < 0 {
			return m, false
		}
		next := &list[s.next]
		if t.merges == nil { // symbols are bytes: their places are their numbers
			end := next.next
			if end < 0 {
				end = len(p)
			}
			id, ok := t.ids[p[at:end]]
			return merge{int32(id), int32(id)}, ok
		}
		m, ok = t.merges[[2]int32{s.id, next.id}]
		return m, ok
	}
	offer := func(at int) {
		if at < 0 {
			return
		}
		if m, ok := find(at); ok {
			heap.Push(&queue, pair{m, at})
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
		if m, ok := find(top.at); !ok || m != top.merge {
			continue // one of the two is part of another token by now
		}
		s := &list[top.at]
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

// symbols returns the tokens of single bytes or characters.
func (t *bpe) symbols(p string) []int32 {
	ids := make([]int32, 0, len(p))
	fused := false
	put := func(part string) {
		if id, ok := t.ids[part]; ok {
			ids, fused = append(ids, int32(id)), false
			return
		}
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

// bytes returns the tokens <0x00> … of the bytes of a character.
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
