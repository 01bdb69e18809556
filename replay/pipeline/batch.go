package pipeline

import (
	"fmt"
	"math/rand/v2"
)

// Batch is what decodes together: requests of a profile, aligned by decode index. A
// request that ends before the others begins again.
type Batch struct {
	Profile *Profile
	Drawn   []int // indices of requests
	Steps   int
}

// NewBatch draws requests with a seed: distinct ones, or, where the profile has fewer than
// size, with replacement. steps is how many are priced, 0 for as many as the longest of
// them has.
func NewBatch(p *Profile, size int, seed uint64, steps int) (*Batch, error) {
	if size < 1 {
		return nil, fmt.Errorf("a batch of %d requests, expected at least 1", size)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	b := &Batch{Profile: p, Steps: steps}
	if size <= len(p.Requests) {
		b.Drawn = r.Perm(len(p.Requests))[:size]
	} else {
		for range size {
			b.Drawn = append(b.Drawn, r.IntN(len(p.Requests)))
		}
	}
	if steps == 0 {
		for _, i := range b.Drawn {
			b.Steps = max(b.Steps, len(p.Requests[i].Steps[0]))
		}
	}
	return b, nil
}

// part are the requests of the p-th of n parts.
func (b *Batch) part(p, n int) []int {
	return b.Drawn[p*len(b.Drawn)/n : (p+1)*len(b.Drawn)/n]
}

// sums are counts over requests, before scaling.
type sums struct {
	Counts
	requests float64
	scored   float64 // cached tokens × query tokens
	attended float64 // tokens attended × query tokens
	entries  float64 // entries that attention reads
}

// sum adds up one profiled layer of one step over some requests. context, if not 0,
// stands for the requests' own.
func (b *Batch) sum(requests []int, layer, step int, s *Scaling, context int64) (t sums) {
	meta := &b.Profile.Meta
	block := float64(max(1, meta.BlockTokens) * max(1, meta.SharedHeads))
	pinned := float64(meta.Sink + meta.Local)
	for _, i := range requests {
		steps := b.Profile.Requests[i].Steps[layer]
		c := steps[step%len(steps)]
		if context > 0 {
			c.SeqLen, c.Prompt = context, context
		}
		t.Demand += c.Demand
		t.Misses += c.Misses
		t.Runs += c.Runs
		t.Moved += c.Moved
		t.SSDMisses += c.SSDMisses
		t.SSDMoved += c.SSDMoved
		t.SSDRuns += c.SSDRuns
		t.Positions += c.Positions
		t.SeqLen += c.SeqLen
		t.Prompt += c.Prompt
		tokens := min(float64(c.SeqLen), float64(c.Demand)*block*s.Factor/s.Heads+pinned)
		t.scored += float64(c.SeqLen * c.Positions)
		t.attended += tokens * float64(c.Positions)
		t.entries += tokens * s.Heads
	}
	t.requests = float64(len(requests))
	return t
}
