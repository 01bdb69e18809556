package referee

import "slices"

// unit is a block of unequal size: the tokens that are kept together.
type unit struct {
	tokens []int32
	weight int // entries that it takes
}

// units returns the clusters of a context and every other token as a unit, by their first token.
func (c Config) units(tokens int) (all []unit) {
	at := map[int32]int{}
	for t := range int32(tokens) {
		group := int32(-1)
		if int(t) < len(c.Clusters) {
			group = c.Clusters[t]
		}
		if group < 0 {
			all = append(all, unit{tokens: []int32{t}, weight: 1})
			continue
		}
		if _, known := at[group]; !known {
			at[group] = len(all)
			all = append(all, unit{})
		}
		u := &all[at[group]]
		u.tokens = append(u.tokens, t)
	}
	for i := range all {
		u := &all[i]
		for u.weight < len(u.tokens) { // round up to whole pages
			u.weight += max(1, c.Page)
		}
	}
	return all
}

// unitOf returns the block that holds an entry.
func (c Config) unitOf(entry int32) int32 {
	if c.all == nil {
		return entry / int32(max(1, c.Entries))
	}
	return int32(slices.IndexFunc(c.all, func(u unit) bool { return slices.Contains(u.tokens, entry) }))
}

// weigh returns the capacity that blocks take.
func (c Config) weigh(blocks ...int32) (n int) {
	for _, b := range blocks {
		if c.all == nil {
			n++
		} else {
			n += c.all[b].weight
		}
	}
	return n
}

// tokenPinned reports whether the token itself is pinned.
func (c Config) tokenPinned(token int32, seqLen int) bool {
	return int(token) < c.Sink || int(token) >= seqLen-c.Local
}

// residentWeight returns the capacity that all residents take.
func (x *cell) residentWeight() (n int) {
	for b := range x.resident {
		n += x.weigh(b)
	}
	return n
}
