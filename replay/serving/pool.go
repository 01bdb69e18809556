package serving

// blockKey identifies the content of a block: an id of a prefix and the block's place in it, or
// −1 − the request and the block's place in that.
type blockKey struct {
	owner int64
	index int32
}

// pool hands out blocks of KV. Blocks that no request holds keep their content until they are handed
// out again, the longest free first, as in vLLM.
type pool struct {
	holders    []int32 // requests that hold a block
	key        []blockKey
	keyed      []bool
	next, prev []int32 // list of free blocks, ring at the end
	found      map[blockKey]int32
	used       int // blocks with holders
}

func newPool(blocks int) *pool {
	p := &pool{holders: make([]int32, blocks), key: make([]blockKey, blocks), keyed: make([]bool, blocks),
		next: make([]int32, blocks+1), prev: make([]int32, blocks+1), found: map[blockKey]int32{}}
	for i := range p.next {
		p.next[i], p.prev[i] = int32((i+1)%len(p.next)), int32((i+blocks)%len(p.next))
	}
	return p
}

// take hands out the block that has been free for longest. The caller knows that one is free.
func (p *pool) take() int32 {
	b := p.next[len(p.holders)]
	if p.keyed[b] {
		delete(p.found, p.key[b])
		p.keyed[b] = false
	}
	p.hold(b)
	return b
}

// hold adds a holder to a block.
func (p *pool) hold(b int32) {
	if p.holders[b] == 0 {
		p.next[p.prev[b]], p.prev[p.next[b]] = p.next[b], p.prev[b]
		p.used++
	}
	p.holders[b]++
}

// release removes a holder. A block without holders goes to the end of the list.
func (p *pool) release(b int32) {
	if p.holders[b]--; p.holders[b] > 0 {
		return
	}
	ring := int32(len(p.holders))
	last := p.prev[ring]
	p.next[last], p.prev[b], p.next[b], p.prev[ring] = b, last, ring, b
	p.used--
}

// name gives a block its content, unless another block has the same.
func (p *pool) name(b int32, k blockKey) {
	if _, known := p.found[k]; !known {
		p.found[k], p.key[b], p.keyed[b] = b, k, true
	}
}
