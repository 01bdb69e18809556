package serving

// content identifies a block by its owner and its index. The owner is a shared prefix, or a job for tokens
// that only this job has.
type content struct {
	job    *Job // nil if the owner is a prefix
	prefix int64
	index  int32
}

// pool hands out blocks of KV. Blocks that no request holds keep their content until they are handed
// out again, the longest free first, as in vLLM.
type pool struct {
	holders    []int32 // requests that hold a block
	contents   []content
	known      []bool            // whether a block has the content
	next, prev []int32           // list of free blocks, ring at the end
	shared     map[content]int32 // blocks of prefixes. Those of jobs are in Job.own
	used       int               // blocks with holders
}

func newPool(blocks int) *pool {
	p := &pool{holders: make([]int32, blocks), contents: make([]content, blocks), known: make([]bool, blocks),
		next: make([]int32, blocks+1), prev: make([]int32, blocks+1), shared: map[content]int32{}}
	for i := range p.next {
		p.next[i], p.prev[i] = int32((i+1)%len(p.next)), int32((i+blocks)%len(p.next))
	}
	return p
}

// take hands out the block that has been free for longest. The caller knows that one is free.
func (p *pool) take() int32 {
	b := p.next[len(p.holders)]
	if c := p.contents[b]; p.known[b] {
		p.known[b] = false
		if c.job != nil {
			c.job.own[c.index] = none
		} else {
			delete(p.shared, c)
		}
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

// none is the block of a content that no block has.
const none = -1

// find returns the block with a content, or none.
func (p *pool) find(c content) int32 {
	if c.job == nil {
		if b, ok := p.shared[c]; ok {
			return b
		}
	} else if int(c.index) < len(c.job.own) {
		return c.job.own[c.index]
	}
	return none
}

// name gives a block its content, unless another block has the same.
func (p *pool) name(b int32, c content) {
	if p.find(c) != none {
		return
	}
	p.contents[b], p.known[b] = c, true
	if c.job == nil {
		p.shared[c] = b
		return
	}
	for int(c.index) >= len(c.job.own) {
		c.job.own = append(c.job.own, none)
	}
	c.job.own[c.index] = b
}

// forget drops the content of a job, which nothing will find again.
func (p *pool) forget(j *Job) {
	for _, b := range j.own {
		if b != none {
			p.contents[b], p.known[b] = content{}, false
		}
	}
}
