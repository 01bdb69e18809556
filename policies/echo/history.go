package echo

import (
	"math/bits"

	"github.com/kvreplay/kvreplay/policies"
)

// Constants of the rule. They were chosen by hand, see README.md.
const (
	lags       = 64 // remembered steps before the current one
	demandUnit = 8  // credit of a member, of a birth, and the bound of a candidate's
	regionBits = 4  // a region has 16 blocks
)

// fast has round(65536·(0.65^l + 0.02·0.98^l)) for each lag l, and slow round(65536·0.95^l).
var fast = [lags + 1]uint32{66847, 43883, 28948, 19231, 12908, 8789, 6104, 4351, 3203, 2450, 1953, 1623, 1401, 1250, 1145, 1070,
	1015, 973, 939, 911, 887, 865, 845, 827, 809, 792, 776, 760, 745, 730, 715, 701, 687, 673, 660, 646, 633, 621, 608, 596, 584,
	573, 561, 550, 539, 528, 517, 507, 497, 487, 477, 468, 458, 449, 440, 431, 423, 414, 406, 398, 390, 382, 375, 367, 360}

var slow = [lags + 1]uint32{65536, 62259, 59146, 56189, 53379, 50711, 48175, 45766, 43478, 41304, 39239, 37277, 35413, 33642,
	31960, 30362, 28844, 27402, 26032, 24730, 23494, 22319, 21203, 20143, 19136, 18179, 17270, 16407, 15586, 14807, 14067, 13363,
	12695, 12060, 11457, 10884, 10340, 9823, 9332, 8865, 8422, 8001, 7601, 7221, 6860, 6517, 6191, 5882, 5587, 5308, 5043, 4791,
	4551, 4323, 4107, 3902, 3707, 3521, 3345, 3178, 3019, 2868, 2725, 2589, 2459}

// history is the memory of a stream. It scores blocks. Bit u mod 64 of a mask stands for step u.
type history struct {
	calibrate bool
	t         int   // number of the current step
	edge      int32 // first block above all births and members so far

	past     []past   // by block: the steps that gave it credit, without the current one
	now      []uint8  // by block: credit of the current step, during it
	demanded []uint64 // D_t, one bit per block
	listed   []uint64 // D_t and the candidates with credit, a word of zeros before the first
	active   []uint64 // blocks to which the current step or one of the 64 before gives credit
	near     []uint8  // by block: quarter of the candidates, 1 to 4, or 0
	nearby   []int32  // blocks with a quarter
	credited []int32  // candidates with credit
	credit   []uint8  // credit of each
	scores   []int32  // by active block outside D_t
	regions  []uint32 // by region: sum of S
	seen     []uint32 // by block: the note of the step before, or 0
	overlap  [3][lags + 1]uint32
	sums     sums
	calibrator
}

// past has a mask for the births, one for the demand and one for each bit of a candidate's credit.
type past struct{ demand, births, near4, near2, near1 uint64 }

func (p *past) empty() bool { return p.demand|p.births|p.near4|p.near2|p.near1 == 0 }

// forget clears the bits of a step.
func (p *past) forget(step uint64) {
	p.demand &^= step
	p.births &^= step
	p.near4 &^= step
	p.near2 &^= step
	p.near1 &^= step
}

// reset starts a stream of blocks 0 … blocks-1.
func (h *history) reset(blocks int, calibrate bool) {
	words := blocks>>6 + 1
	h.calibrate, h.t, h.edge = calibrate, -1, 0
	h.past = policies.Fill(h.past, words<<6, past{})
	h.now, h.near = policies.Fill(h.now, words<<6, 0), policies.Fill(h.near, words<<6, 0)
	h.demanded, h.listed, h.active = policies.Fill(h.demanded, words, 0), policies.Fill(h.listed, words+2, 0), policies.Fill(h.active, words, 0)
	h.scores, h.seen = policies.Fill(h.scores, words<<6, 0), policies.Fill(h.seen, words<<6, 0)
	h.regions = policies.Fill(h.regions, words<<6>>regionBits, 0)
	h.nearby, h.overlap = h.nearby[:0], [3][lags + 1]uint32{}
	h.calibrator.reset()
}

// step applies a step: births, D_t ascending, and the candidates, best first.
func (h *history) step(births, demand, candidates []int32) {
	h.t++
	if n := len(births); n > 0 {
		h.edge = max(h.edge, births[n-1]+1)
	}
	if n := len(demand); n > 0 {
		h.edge = max(h.edge, demand[n-1]+1)
	}
	if h.calibrate {
		h.learn(h.seen, demand)
	}
	h.list(births, demand, candidates)
	h.compare(demand)
	h.rescore()
	h.remember(births, demand)
}

// list notes the credits of the current step.
func (h *history) list(births, demand, candidates []int32) {
	for _, x := range h.nearby {
		h.near[x] = 0
	}
	clear(h.demanded)
	clear(h.listed)
	for _, x := range births {
		h.now[x] += demandUnit
		h.active[x>>6] |= 1 << (x & 63)
	}
	for _, x := range demand {
		h.now[x] += demandUnit
		h.demanded[x>>6] |= 1 << (x & 63)
	}
	for w, members := range h.demanded {
		h.listed[w+1] = members
		h.active[w] |= members
	}
	h.nearby, h.credited, h.credit = h.nearby[:0], h.credited[:0], h.credit[:0]
	m := len(candidates)
	q := min(m, max(1, len(demand)/2))
	for i, x := range candidates {
		if x >= h.edge {
			continue
		}
		h.near[x] = uint8(1 + 4*i/m)
		h.nearby = append(h.nearby, x)
		if v := demandUnit * (q - i) / (q + 1); v > 0 {
			h.credited, h.credit = append(h.credited, x), append(h.credit, uint8(v))
			h.now[x] += uint8(v)
			h.listed[x>>6+1] |= 1 << (x & 63)
			h.active[x>>6] |= 1 << (x & 63)
		}
	}
}

// compare sets the sums of the weights by which past steps count now.
func (h *history) compare(demand []int32) {
	known := min(h.t, lags)
	at := &h.overlap[h.t%3]
	h.count(demand, at)
	var similar [lags + 1]uint32
	most := uint32(0)
	for l := 1; l <= known; l++ {
		similar[l] = 4*at[l] + 2*h.overlap[(h.t+2)%3][l] + h.overlap[(h.t+1)%3][l]
		most = max(most, similar[l])
	}
	w := weigh(similar[:known+1], most)
	h.sums.set(h.t, known, &w)
}

// count sets the overlap of the demand with the demand of each lag.
func (h *history) count(demand []int32, overlap *[lags + 1]uint32) {
	var columns [64]uint32
	for _, x := range demand {
		for rest := h.past[x].demand; rest != 0; rest &= rest - 1 {
			columns[bits.TrailingZeros64(rest)]++
		}
	}
	for l := 1; l <= lags; l++ {
		overlap[l] = columns[(h.t-l)&63]
	}
}

// rescore computes the scores of all active blocks outside D_t, and the sums of all regions.
func (h *history) rescore() {
	clear(h.regions)
	leaving := uint64(1) << (h.t & 63) // of the step 64 steps ago, whose bit the current step takes
	var of [64]sum
	for w := range h.active {
		for rest := h.active[w]; rest != 0; rest &= rest - 1 {
			b := bits.TrailingZeros64(rest)
			x := w<<6 | b
			p := &h.past[x]
			if p.empty() && h.now[x] == 0 {
				h.active[w] &^= 1 << b
				h.seen[x] = 0
				continue
			}
			of[b] = h.sums.of(p, h.now[x])
			h.regions[x>>regionBits] += of[b].key
			p.forget(leaving)
		}
		for rest := h.active[w]; rest != 0; rest &= rest - 1 {
			b := bits.TrailingZeros64(rest)
			x := int32(w<<6 | b)
			if h.demanded[w]>>b&1 != 0 {
				h.seen[x] = 0
				continue
			}
			f := h.features(x, &of[b])
			if !h.calibrate {
				h.scores[x] = int32(f.key)
				continue
			}
			c := h.correction(&f)
			h.scores[x], h.seen[x] = logarithm(uint64(f.key))+c, h.note(&f, c)
		}
	}
}

// features returns the key and the features of a block with the given sums.
func (h *history) features(x int32, s *sum) features {
	f := features{key: s.key + h.regions[x>>regionBits]*5>>10}
	if h.calibrate {
		f.values = [5]uint8{
			uint8(min(63, half(uint32(h.edge-x)))),
			h.near[x],
			uint8(h.listedNear(x)),
			uint8(min(40, half(s.sharp+1<<10)-20)),
			uint8(min(40, half(s.slow+1<<14)-28)),
		}
	}
	return f
}

// listedNear returns the number of listed blocks within 4 positions of x, which is not listed.
func (h *history) listedNear(x int32) int {
	from := uint32(x) + 60 // bit of x-4, behind a word of zeros
	w, b := from>>6, from&63
	around := h.listed[w] >> b
	if b > 55 {
		around |= h.listed[w+1] << (64 - b)
	}
	return bits.OnesCount64(around & 0x1ef)
}

// remember adds the current step to the masks.
func (h *history) remember(births, demand []int32) {
	bit := uint64(1) << (h.t & 63)
	for _, x := range births {
		h.past[x].births |= bit
		h.now[x] = 0
	}
	for _, x := range demand {
		h.past[x].demand |= bit
		h.now[x] = 0
	}
	for i, v := range h.credit {
		x := h.credited[i]
		p := &h.past[x]
		p.near1 |= bit * uint64(v&1)
		p.near2 |= bit * uint64(v>>1&1)
		p.near4 |= bit * uint64(v>>2)
		h.now[x] = 0
	}
}

// score returns the score of a block outside D_t.
func (h *history) score(x int32) int32 {
	if h.active[x>>6]>>(x&63)&1 != 0 {
		return h.scores[x]
	}
	f := h.features(x, &sum{})
	if !h.calibrate {
		return int32(f.key)
	}
	return logarithm(uint64(f.key)) + h.correction(&f)
}
