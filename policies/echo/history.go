package echo

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// Constants of the rule. They were chosen by hand, see README.md.
const (
	lags       = 64 // remembered steps before the current one
	unit       = 8  // credit of a member, of a birth, and the bound of a candidate's
	regionBits = 4  // a region has 16 blocks
)

// history is the memory of a stream. It scores blocks. Blocks are handled in words of 64.
type history struct {
	rule      rule
	calibrate bool
	turns     int        // a word is observed at one of this many steps
	t         int        // number of the current step
	edge      int32      // first block above all births and members so far
	uses      []uint32   // for trees, by block: steps that demanded it
	past      []uint64   // by block: bit u mod 64 is set if step u demanded it
	mild      []uint64   // of a sample, by block: bit u mod 64 is set if step u gave it half a credit
	events    events     // births and candidates of the current and the last 64 steps
	other     []otherSum // by block: sums over the events, zero between steps
	demanded  []uint64   // D_t, one bit per block
	listed    []uint8    // by block, behind margin zeros: 1 for D_t and the candidates with credit
	active    []uint64   // blocks to which the current step or one of the 64 before gives credit
	near      []uint8    // by block: quarter of the candidates, 1 to 4, or 0
	nearby    []int32    // blocks with a quarter
	assessed  []uint64   // blocks that have scores and notes
	places    []int32    // by word: place of its first assessed block
	scores    []int32    // by place
	notes     []note     // by place
	regions   []uint32   // by region: sum of S
	overlap   [3][lags + 1]uint32
	sums      sums
	group     group
	described described
	calibrator
}

// reset starts a stream of blocks 0 … blocks-1.
func (h *history) reset(blocks int, calibrate bool, r *rule) {
	words := blocks>>6 + 1
	h.rule, h.calibrate, h.t, h.edge = *r, calibrate, -1, 0
	h.past = policies.Fill(h.past, words<<6, 0)
	if r.trees {
		h.uses = policies.Fill(h.uses, words<<6, 0)
	}
	if r.sample > 0 {
		h.mild, h.other = policies.Fill(h.mild, words<<6, 0), policies.Fill(h.other, 64, otherSum{})
	} else {
		h.other = policies.Fill(h.other, words<<6, otherSum{})
	}
	h.near = policies.Fill(h.near, words<<6, 0)
	h.listed = policies.Fill(h.listed, words<<6+2*margin, 0)
	h.demanded, h.active = policies.Fill(h.demanded, words, 0), policies.Fill(h.active, words, 0)
	h.assessed, h.places = policies.Fill(h.assessed, words, 0), policies.Fill(h.places, words, 0)
	h.scores, h.notes = policies.Fill(h.scores, (words+1)<<6, 0), policies.Fill(h.notes, (words+1)<<6, 0)
	h.regions = policies.Fill(h.regions, words<<6>>regionBits, 0)
	h.nearby, h.overlap = h.nearby[:0], [3][lags + 1]uint32{}
	h.events.reset()
	h.calibrator.reset()
}

// step applies a step: births, D_t, and the candidates, best first.
func (h *history) step(births, demand, candidates []int32) {
	h.t++
	h.turns = h.rule.turns(len(demand))
	before := h.edge
	for _, x := range births { // an exclusive tier lists victims of the cache above, in any order
		h.edge = max(h.edge, x+1)
	}
	if n := len(demand); n > 0 {
		h.edge = max(h.edge, slices.Max(demand)+1)
	}
	if h.calibrate {
		h.learn(demand, before)
	}
	h.list(births, demand, candidates)
	h.compare(demand)
	h.rescore()
	if h.rule.sample == 0 { // mark has added the step to the past
		for _, x := range demand {
			h.past[x] |= 1 << (h.t & 63)
		}
	}
}

// list notes the demand and the credits of the current step.
func (h *history) list(births, demand, candidates []int32) {
	for _, x := range h.nearby {
		h.near[x] = 0
	}
	clear(h.demanded)
	clear(h.listed)
	for _, x := range demand {
		h.demanded[x>>6] |= 1 << (x & 63)
		h.listed[x+margin] = 1
	}
	if h.rule.trees {
		for _, x := range demand {
			h.uses[x]++
		}
	}
	step := h.t
	if h.rule.sample > 0 {
		step = 0 // mark keeps the credits
	}
	h.nearby = h.nearby[:0]
	m := len(candidates)
	for i, x := range candidates {
		if x < h.edge {
			h.near[x] = uint8(1 + 4*i/m)
			h.nearby = append(h.nearby, x)
		}
	}
	c := h.events.at(step)
	c.blocks = c.blocks[:0]
	q := min(m, max(1, len(demand)/2))
	i := q - 1
	for v := range c.ends {
		for ; i >= 0 && unit*(q-i)/(q+1) <= v; i-- {
			if x := candidates[i]; x < h.edge && v > 0 {
				c.blocks = append(c.blocks, x)
				h.listed[x+margin] = 1
			}
		}
		if v == h.rule.birth {
			c.blocks = append(c.blocks, births...)
		}
		c.ends[v] = int32(len(c.blocks))
	}
	for _, x := range c.blocks {
		h.active[x>>6] |= 1 << (x & 63)
	}
	for w, members := range h.demanded {
		h.active[w] |= members
	}
	if h.rule.sample > 0 {
		h.mark(demand, c)
	}
}

// mark keeps the credits of the current step for a sample, as one bit for a whole and one for half a
// unit. A birth that is demanded at once has both.
func (h *history) mark(demand []int32, c *credits) {
	bit := uint64(1) << (h.t & 63)
	for _, x := range demand {
		h.past[x] |= bit
	}
	for i, x := range c.blocks {
		if int32(i) < c.ends[unit-1] || h.past[x]&bit != 0 {
			h.mild[x] |= bit
		} else {
			h.past[x] |= bit
		}
	}
}

// compare sets the sums of the weights by which past steps count now.
func (h *history) compare(demand []int32) {
	known := min(h.t, h.rule.history)
	var columns [64]uint32
	countColumns(h.past, demand, &columns)
	at, before, earlier := &h.overlap[h.t%3], &h.overlap[(h.t+2)%3], &h.overlap[(h.t+1)%3]
	for l := 1; l <= lags; l++ {
		at[l] = columns[(h.t-l)&63]
	}
	var similar [lags + 1]uint32
	mix := &h.rule.context
	most := uint32(0)
	for l := 1; l <= known; l++ {
		similar[l] = mix[0]*at[l] + mix[1]*before[l] + mix[2]*earlier[l]
		most = max(most, similar[l])
	}
	w := h.rule.weigh(similar[:known+1], most)
	h.sums.set(h.t, known, &w, h.rule.sample > 0)
	if h.rule.sample == 0 {
		h.events.add(h.other, demand, h.t, known, &w)
	}
}

// rescore computes the scores of all active blocks outside D_t, and the sums of all regions. Short loops
// over the blocks of a word fit into the registers and are faster than one loop.
func (h *history) rescore() {
	h.calibrator.begin(h.distance(max(h.edge, 1)), h.rule.without)
	g, n := &h.group, int32(0)
	g.distance = -1
	clear(h.assessed)
	for w := h.t % h.turns; w < len(h.active); w += h.turns {
		active := h.active[w]
		h.assessed[w] = active
		if active == 0 {
			*(*[4]uint32)(h.regions[w<<2:]) = [4]uint32{}
			continue
		}
		g.places(active)
		h.places[w] = n
		n += int32(g.n)
		h.sumUp(w, g)
		if h.calibrate {
			h.assess(w, g)
			if h.rule.trees {
				h.sort(w, g, reached())
			}
		} else {
			for i, b := range g.at[:g.n] {
				x := int32(w<<6 | int(b))
				h.scores[h.places[w]+int32(i)] = int32(h.key(x, g.key[i&63]))
			}
		}
	}
}

// group has the active blocks of a word, and figures of each of them. Those behind the n-th are
// undefined.
type group struct {
	n                int
	kept             uint64        // bits of the blocks that are active and not demanded
	at               [64 + 8]uint8 // numbers in the word, all below 64
	key, sharp, slow [64]uint32    // sums
	place            [64]uint8     // aroundPlace
	correction       [64]int32     // that for the distance
	distance         int           // feature value if all corrections are those of this one, or -1
	chances          [64]uint32    // that a block comes back, or 0 if it is not kept
	regions          [8]uint32     // part of the key by region
}

// placesOf has the places of the bits of a byte, in a byte each.
var placesOf = func() (table [256]uint64) {
	for set := range table {
		n := 0
		for b := range 8 {
			if set>>b&1 != 0 {
				table[set] |= uint64(b) << n
				n += 8
			}
		}
	}
	return table
}()

// places sets the blocks of the group by a bitset of a word.
func (g *group) places(set uint64) {
	n := 0
	for from := uint64(0); set != 0; from, set = from+8*bytes, set>>8 {
		binary.LittleEndian.PutUint64(g.at[n&63:], placesOf[uint8(set)]+from)
		n += bits.OnesCount8(uint8(set))
	}
	g.n = n
}

// sumUp sets the sums of the blocks, and those of the regions. Blocks without credit leave the active
// ones.
func (h *history) sumUp(w int, g *group) {
	past, regions := (*[64]uint64)(h.past[w<<6:]), (*[4]uint32)(h.regions[w<<2:])
	other, forgotten := h.other, uint64(1)<<(h.t&63)
	if h.rule.sample > 0 {
		forgotten = bits.RotateLeft64(1<<mostTurns-1, h.t+1) // the steps to come until the next turn
		h.sumMild(w, g, forgotten)
	} else {
		other = h.other[w<<6:]
	}
	empty := sumGroup(g, past, (*[64]otherSum)(other), &h.sums, forgotten, regions)
	for ; empty != 0; empty &= empty - 1 {
		b := g.at[bits.TrailingZeros64(empty)] & 63
		h.active[w] &^= 1 << b
		past[b] = 0 // steps beyond the history
		if h.rule.sample > 0 {
			h.mild[w<<6|int(b)] = 0
		}
	}
}

// sumMild sets the sums of the half credits of a group's blocks, and clears their bits.
func (h *history) sumMild(w int, g *group, forgotten uint64) {
	other, mild := (*[64]otherSum)(h.other), (*[64]uint64)(h.mild[w<<6:])
	for _, b := range g.at[:g.n] {
		if m := mild[b&63]; m != 0 {
			s := h.sums.of(m)
			other[b&63] = otherSum{key: s.key * (unit / 2), sharp: s.sharp * (unit / 2), slow: s.slow * (unit / 2)}
			mild[b&63] = m &^ forgotten
		}
	}
}

// sumPlain sets the sums of a group's blocks and of its regions. It removes the forgotten steps from the
// past, and clears the sums over the events. The result has a bit for each block without credit.
func sumPlain(g *group, past *[64]uint64, other *[64]otherSum, s *sums, forgotten uint64, regions *[4]uint32) (empty uint64) {
	*regions = [4]uint32{}
	for i, b := range g.at[:g.n] {
		i, b = i&63, b&63
		m, o := past[b], &other[b]
		packed := s.packed(m)
		past[b] = m &^ forgotten
		key, slow := uint32(packed&(1<<slowShift-1))*unit+o.key, uint32(packed>>slowShift&(1<<(sharpShift-slowShift)-1))*unit+o.slow
		g.key[i], g.sharp[i], g.slow[i] = key, uint32(packed>>sharpShift)*unit+o.sharp, slow
		*o = otherSum{}
		regions[b>>regionBits] += key
		if slow == 0 {
			empty |= 1 << i
		}
	}
	return empty
}

// key returns the key of a block with the given sum S.
func (h *history) key(x int32, sum uint32) uint32 {
	return sum + h.regions[x>>regionBits]*h.rule.region>>10
}

// place returns the place of an assessed block.
func (h *history) place(x int32) int32 {
	return h.places[x>>6] + int32(bits.OnesCount64(h.assessed[x>>6]&(1<<(x&63)-1)))
}

// score returns the score of a block. That of a member of D_t is the highest. In a pool, the members
// of another stream's latest demand are outside the demand of the step.
func (h *history) score(x int32) int32 {
	if h.demanded[x>>6]>>(x&63)&1 != 0 {
		return math.MaxInt32
	}
	if h.assessed[x>>6]>>(x&63)&1 != 0 {
		return h.scores[h.place(x)]
	}
	if h.rule.sample > 0 {
		return h.scoreNow(x)
	}
	key := h.key(x, 0)
	if !h.calibrate {
		return int32(key)
	}
	around := around(h.listed, x)
	score := logarithm(key) + h.correction(h.distance(h.edge-x), h.near[x], around, 0, 0)
	if h.rule.trees {
		return reached().score(h.describe(x, score, aroundPlace(h.near[x], around), 0, 0))
	}
	return score
}

// scoreNow computes the score of a block of a sample. The sum of its region is from its last turn.
func (h *history) scoreNow(x int32) int32 {
	s := h.sums.of(h.past[x])
	key, sharp, slow := s.key*unit, s.sharp*unit, s.slow*unit
	if m := h.mild[x]; m != 0 {
		s := h.sums.of(m)
		key, sharp, slow = key+s.key*(unit/2), sharp+s.sharp*(unit/2), slow+s.slow*(unit/2)
	}
	around := around(h.listed, x)
	return logarithm(h.key(x, key)) + h.correction(h.distance(h.edge-x), h.near[x], around, ofSharp(sharp), ofSlow(slow))
}
