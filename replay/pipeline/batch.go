package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/kvreplay/kvreplay/replay"
)

// Batch holds the requests of a profile that decode together, aligned by decode index. A request
// that ends before the others starts again.
type Batch struct {
	Profile *Profile
	Drawn   []int // indices of requests
	Steps   int
}

// NewBatch draws distinct requests with a seed. If the profile has fewer than size, it draws with
// replacement. steps is the number of steps to price, or 0 for that of the longest request.
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

// share is a request with the number of times that it is drawn.
type share struct {
	request int
	times   int64
}

// part returns the requests of the p-th of n parts.
func (b *Batch) part(p, n int) (counted []share) {
	drawn := slices.Sorted(slices.Values(b.Drawn[p*len(b.Drawn)/n : (p+1)*len(b.Drawn)/n]))
	for i, r := range drawn {
		if i > 0 && drawn[i-1] == r {
			counted[len(counted)-1].times++
		} else {
			counted = append(counted, share{r, 1})
		}
	}
	return counted
}

// sums are counts over requests, before scaling.
type sums struct {
	Counts
	requests float64
	scored   float64 // cached tokens × query tokens
	attended float64 // tokens attended × query tokens
	entries  float64 // entries that attention reads
	demanded float64 // entries of the demand
	squares  float64 // tokens × tokens of the requests
}

// pinnedTokens returns the tokens of a head that attention reads in addition to the demand: sinks,
// local window, outliers.
func pinnedTokens(m *replay.ProfileMeta) float64 {
	return float64(m.Sink + m.Local + m.OutlierBlocks*max(1, m.BlockTokens))
}

// sum adds up one profiled layer of one step over some requests. If context or positions is not 0,
// it replaces the requests' own.
func (b *Batch) sum(requests []share, layer, step int, s *Scaling, context, positions int64) (t sums) {
	meta := &b.Profile.Meta
	block := float64(max(1, meta.BlockTokens) * max(1, meta.SharedHeads))
	pinned := pinnedTokens(meta)
	for _, r := range requests {
		steps, n := b.Profile.Requests[r.request].Steps[layer], r.times
		c := &steps[step%len(steps)]
		length, prompt := c.SeqLen, c.Prompt
		if context > 0 {
			length, prompt = context, context
		}
		queries := c.Positions
		if positions > 0 {
			queries = positions
		}
		t.add(c, n)
		t.Positions += n * queries
		t.SeqLen += n * length
		t.Prompt += n * prompt
		demanded := float64(c.Demand) * block
		if meta.Clusters != "" {
			demanded = float64(c.Listed)
		}
		tokens := min(float64(length), demanded*s.Factor/s.Heads+pinned)
		t.demanded += demanded * float64(n)
		t.scored += float64(n * length * queries)
		t.attended += tokens * float64(n*queries)
		t.entries += tokens * float64(n) * s.Heads
		t.requests += float64(n)
		t.squares += float64(n) * float64(length) * float64(length)
	}
	return t
}
