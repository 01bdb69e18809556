package echo

// fast has round(65536·(0.65^l + 0.02·0.98^l)) for each lag l, and slow round(65536·0.95^l).
var fast = [lags + 1]uint32{66847, 43883, 28948, 19231, 12908, 8789, 6104, 4351, 3203, 2450, 1953, 1623, 1401, 1250, 1145, 1070,
	1015, 973, 939, 911, 887, 865, 845, 827, 809, 792, 776, 760, 745, 730, 715, 701, 687, 673, 660, 646, 633, 621, 608, 596, 584,
	573, 561, 550, 539, 528, 517, 507, 497, 487, 477, 468, 458, 449, 440, 431, 423, 414, 406, 398, 390, 382, 375, 367, 360}

var slow = [lags + 1]uint32{65536, 62259, 59146, 56189, 53379, 50711, 48175, 45766, 43478, 41304, 39239, 37277, 35413, 33642,
	31960, 30362, 28844, 27402, 26032, 24730, 23494, 22319, 21203, 20143, 19136, 18179, 17270, 16407, 15586, 14807, 14067, 13363,
	12695, 12060, 11457, 10884, 10340, 9823, 9332, 8865, 8422, 8001, 7601, 7221, 6860, 6517, 6191, 5882, 5587, 5308, 5043, 4791,
	4551, 4323, 4107, 3902, 3707, 3521, 3345, 3178, 3019, 2868, 2725, 2589, 2459}

// mostTurns is the most steps until a word is observed again.
const mostTurns = 8

// weights are the weights of the steps by their lag. key is the weight in S, sharp the weight of the
// echoes in the sharp sum. That of the slow sum is slow.
type weights struct{ key, sharp [lags + 1]uint32 }

// rule has the constants that the ablation of README.md changes. Only published is in use.
type rule struct {
	history  int       // remembered steps, at most lags
	context  [3]uint32 // weights of the overlaps of a step, of the step before and of the one before that
	power    int       // of the similarity: 6, 10 or 16
	follows  uint32    // part of a weight that goes on to the next step, in 1/8
	echo     uint32    // weight of the echoes in S
	recent   uint32    // weight of recency in S
	region   uint32    // part of a region's sum in the key, in 1/1024
	birth    int       // credit of a birth
	distance int       // one value of the distance has 2^distance logarithms, in 1/256 of log2
	without  int       // feature that does not correct the key, or -1
	trees    bool      // replace the score, see trees.go
	sample   int       // demanded blocks per step of a turn, see turns. 0 observes all blocks at each step
}

var published = rule{history: lags, context: [3]uint32{4, 2, 1}, power: 10, follows: 5, echo: 3, recent: 1, region: 5, birth: unit, distance: 7, without: -1}

// withTrees is the rule of calibrate=trees.
var withTrees = func() rule { r := published; r.trees = true; return r }()

// fine is the rule of calibrate=fine.
var fine = func() rule { r := published; r.distance = 4; return r }()

// sample is the rule of calibrate=sample.
var sample = sampleOf(100)

// sampleOf returns the rule in which a turn has one step per n demanded blocks.
func sampleOf(n int) rule {
	r := published
	r.sample, r.history = n, lags-mostTurns
	return r
}

// turns returns the number of steps of a turn: 1, 2, 4 or 8. A word of 64 blocks is observed at one of
// them. As these are powers of two, it never waits for more than 8 steps, even if the number changes.
func (c *rule) turns(demand int) int {
	n := 1
	for c.sample > 0 && n < mostTurns && 2*n*c.sample <= demand {
		n *= 2
	}
	return n
}

// weigh returns the weights of the steps by the similarity of the current step to the steps at each
// lag from 1 on. most is the largest similarity.
func (c *rule) weigh(similar []uint32, most uint32) (w weights) {
	known := len(similar) - 1
	var echo, sharp [lags + 2]uint64
	var sum, sharpSum uint64
	for l := 1; l <= known && most > 0; l++ {
		r := uint64(similar[l]) * 65535 / uint64(most)
		r2 := r * r >> 16
		r4 := r2 * r2 >> 16
		r8 := r4 * r4 >> 16
		r16 := r8 * r8 >> 16
		echo[l], sharp[l] = r8*r2>>16, r16*r4>>16
		switch c.power {
		case 6:
			echo[l] = r4 * r2 >> 16
		case 16:
			echo[l] = r16
		}
		sum, sharpSum = sum+echo[l], sharpSum+sharp[l]
	}
	follows, followsSharp := uint32(0), uint32(0)
	w.key[known] = c.recent * fast[known]
	for l := known - 1; l >= 0; l-- {
		follows = share(echo[l+1], sum) + follows*c.follows>>3
		followsSharp = share(sharp[l+1], sharpSum) + followsSharp*3>>3
		w.key[l], w.sharp[l] = c.echo*follows+c.recent*fast[l], followsSharp
	}
	return w
}

// share returns part / sum in 1/65536, or 0 without a sum.
func share(part, sum uint64) uint32 {
	if sum == 0 {
		return 0
	}
	return uint32(part << 16 / sum)
}

// sums are tables from which the sum of the weights of any set of past steps is read, eight steps at
// a time. A number has three sums, each in at least 21 bits. The weights of 65 steps add up to less
// than 2^20, 2^17 and 2^21.
type sums [8][256]uint64

const (
	slowShift  = 21
	sharpShift = 43
)

// set fills the tables for step t, with known steps before it. joined tells that the sets have the
// current step, which takes the place of lag 64.
func (s *sums) set(t, known int, w *weights, joined bool) {
	var at [64]uint64 // by bit
	pack := func(l int) uint64 {
		return uint64(w.key[l]) | uint64(slow[l])<<slowShift | uint64(w.sharp[l])<<sharpShift
	}
	for l := 1; l <= known; l++ {
		at[(t-l)&63] = pack(l)
	}
	if joined {
		at[t&63] = pack(0)
	}
	fillTables(s, &at)
}

// fillPlain sets each sum of the tables: that of the weights of a set of eight bits. The sums of the
// empty sets stay 0.
func fillPlain(tables *sums, at *[64]uint64) {
	for i := range tables {
		table := &tables[i]
		for b, weight := range at[i<<3 : i<<3+8] {
			without := table[:1<<b]
			with := table[1<<b:][:len(without)]
			for set, sum := range without {
				with[set] = sum + weight
			}
		}
	}
}

// packed returns the number of a set of steps.
func (s *sums) packed(m uint64) uint64 {
	return s[0][uint8(m)] + s[1][uint8(m>>8)] + s[2][uint8(m>>16)] + s[3][uint8(m>>24)] +
		s[4][uint8(m>>32)] + s[5][uint8(m>>40)] + s[6][uint8(m>>48)] + s[7][uint8(m>>56)]
}

// of returns the sums over a set of steps.
func (s *sums) of(m uint64) otherSum {
	packed := s.packed(m)
	return otherSum{
		key:   uint32(packed & (1<<slowShift - 1)),
		slow:  uint32(packed >> slowShift & (1<<(sharpShift-slowShift) - 1)),
		sharp: uint32(packed >> sharpShift),
	}
}
