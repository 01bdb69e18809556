package requests

// Prefixes say what prompts share: what a KV cache without bound, kept from the first
// request on and filled at once, would find of each prompt when it arrives.
type Prefixes struct {
	BlockTokens int   `json:"block_tokens"`
	Blocks      int64 `json:"blocks"`   // of all prompts
	Distinct    int64 `json:"distinct"` // different ones
	// SeenShare are the blocks that a request before had, of all blocks.
	SeenShare *float64 `json:"seen_share"`
	// HitTokens are in the leading blocks of prompts that requests before had all of;
	// HitShare is their share of all input tokens.
	HitTokens int64    `json:"hit_tokens"`
	HitShare  *float64 `json:"hit_share"`
	// HitRequests found at least one block, FullRequests all of their blocks.
	HitRequests  int64 `json:"hit_requests"`
	FullRequests int64 `json:"full_requests"`
	// Uses are of a distinct block: the requests that have it.
	Uses Spread `json:"uses"`
	// UsedOnceShare are the distinct blocks that one request has.
	UsedOnceShare *float64 `json:"used_once_share"`
	// Displaced blocks were seen before behind another block, or in the same prompt. A
	// block's id stands for its whole prefix, so there should be none; they end the hit.
	Displaced int64 `json:"displaced"`

	seen     int64
	requests int64 // so far
	blocks   map[int64]block
}

// block is what is known of a block.
type block struct {
	before      int64 // the block before it, noBlock at the beginning of a prompt
	first, last int64 // requests that have it, by number
	uses        int64 // requests that have it
}

const noBlock = -1

func newPrefixes() *Prefixes {
	return &Prefixes{BlockTokens: BlockTokens, blocks: make(map[int64]block)}
}

func (p *Prefixes) add(q *Request) {
	p.requests++
	before, hit, leading := int64(noBlock), 0, true
	for _, id := range q.PrefixBlocks {
		b, known := p.blocks[id]
		switch {
		case !known:
			b, leading = block{before: before, first: p.requests}, false
		case b.before != before || b.last == p.requests:
			p.Displaced++
			leading = false
		}
		if b.first < p.requests {
			p.seen++
		}
		if leading {
			hit++
		}
		if b.last < p.requests {
			b.uses++
		}
		b.last = p.requests
		p.blocks[id] = b
		before = id
	}
	p.Blocks += int64(len(q.PrefixBlocks))
	p.HitTokens += int64(min(hit*BlockTokens, q.InputTokens))
	if hit > 0 {
		p.HitRequests++
		if hit == len(q.PrefixBlocks) {
			p.FullRequests++
		}
	}
}

func (p *Prefixes) finish(inputTokens int64) {
	var uses tally
	for _, b := range p.blocks {
		uses.add(b.uses)
	}
	p.Distinct = int64(len(p.blocks))
	p.SeenShare, p.HitShare = share(p.seen, p.Blocks), share(p.HitTokens, inputTokens)
	p.Uses, p.UsedOnceShare = uses.spread(), share(uses[1], p.Distinct)
}
