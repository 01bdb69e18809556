package card

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/trace"
)

// corpus is all traces, measured.
type corpus struct {
	sources []*source // by name
	sets    []*set
	recalls []recall
}

// set is the streams of a part that can be compared: of one demand in tokens, of the
// exact selector where the part has it.
type set struct {
	name    string
	part    string
	k, m    int // blocks
	block   int // tokens
	streams []*stream
}

func newCorpus(sources []*source) *corpus {
	c := &corpus{sources: sources}
	exactIn := map[string]bool{}
	for _, s := range sources {
		exactIn[s.part] = exactIn[s.part] || s.meta.Selector == exact
	}
	for _, s := range sources {
		if !exactIn[s.part] || s.meta.Selector == exact {
			c.assign(s)
		}
	}
	parts := map[string]int{}
	for _, x := range c.sets {
		parts[x.part]++
	}
	for _, x := range c.sets {
		if x.name = x.part; parts[x.part] > 1 {
			x.name = fmt.Sprintf("%s, K %d × %d", x.part, x.k, x.block)
		}
	}
	slices.SortFunc(c.sets, func(a, b *set) int { return strings.Compare(a.name, b.name) })
	return c
}

// assign puts a trace's streams into the set that they can be compared in.
func (c *corpus) assign(s *source) {
	m := s.meta
	i := slices.IndexFunc(c.sets, func(x *set) bool {
		return x.part == s.part && x.k == m.TopK && x.m == m.Candidates && x.block == m.BlockTokens
	})
	if i < 0 {
		i = len(c.sets)
		c.sets = append(c.sets, &set{part: s.part, k: m.TopK, m: m.Candidates, block: m.BlockTokens})
	}
	for j := range s.streams {
		c.sets[i].streams = append(c.sets[i].streams, &s.streams[j])
	}
}

// group is a pool of streams with the value that they share.
type group[K any] struct {
	key   K
	facts facts
}

// groups pools streams by a key, in the order of compare.
func groups[K comparable](streams []*stream, of func(*stream) K, compare func(a, b K) int) []group[K] {
	var pools []group[K]
	at := map[K]int{}
	for _, s := range streams {
		k := of(s)
		i, ok := at[k]
		if !ok {
			i, at[k] = len(pools), len(pools)
			pools = append(pools, group[K]{key: k})
		}
		pools[i].facts.add(&s.facts)
	}
	slices.SortFunc(pools, func(a, b group[K]) int { return compare(a.key, b.key) })
	return pools
}

func (x *set) all() *facts {
	var f facts
	for _, s := range x.streams {
		f.add(&s.facts)
	}
	return &f
}

func (x *set) tasks() []group[string] {
	return groups(x.streams, func(s *stream) string { return s.task }, strings.Compare)
}

func (x *set) files() []group[string] {
	return groups(x.streams, func(s *stream) string { return strings.TrimSuffix(s.source.name, ".parquet") }, strings.Compare)
}

func (x *set) layers() []group[int32] {
	return groups(x.streams, func(s *stream) int32 { return s.info.Layer }, cmp.Compare[int32])
}

func (x *set) heads() []group[int32] {
	return groups(x.streams, func(s *stream) int32 { return s.info.Head }, cmp.Compare[int32])
}

// place is a layer and head.
type place struct{ layer, head int32 }

func (x *set) places() []group[place] {
	return groups(x.streams, func(s *stream) place { return place{s.info.Layer, s.info.Head} }, func(a, b place) int {
		if a.layer != b.layer {
			return cmp.Compare(a.layer, b.layer)
		}
		return cmp.Compare(a.head, b.head)
	})
}

// perHead reports whether heads have selections of their own.
func (x *set) perHead() bool {
	return slices.ContainsFunc(x.streams, func(s *stream) bool { return s.info.Head != trace.NoHead })
}

// deepest is the set with the most layers, the first of several: the one that layers and
// heads are shown of.
func (c *corpus) deepest() *set {
	best, most := c.sets[0], 0
	for _, x := range c.sets {
		if n := len(x.places()); n > most {
			best, most = x, n
		}
	}
	return best
}
