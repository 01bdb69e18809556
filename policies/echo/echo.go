// Package echo expects that demands follow similar demands as they did before. It compares the
// current demand with those of the last 64 steps. The blocks that followed the most similar ones get
// the most credit.
//
// Source: new here. README.md in this folder has the idea, the figures and the limits.
//
// Step semantics: every update is a step, prompt windows included. Blocks that a warm-up places are
// none. A step gives credit to blocks: 8
// for a birth, 8 for a member of D_t, and up to 7 for a near miss, a candidate of rank K to M-1. The
// best of q candidates has 8·q/(q+1), rounded down, and the q-th 8/(q+1). q is half of |D_t|, or all
// candidates if there are fewer. Without ranks there are no candidates. The edge is the first block
// above all births and members so far. Candidates at the edge or above do not count.
//
// Similarity: c(l) is the overlap of D_t with the demand l steps ago, l = 1 … 64. The similarity to
// that step is J(l) = 4·c_t(l) + 2·c_t-1(l) + c_t-2(l). Its 10th power, scaled to a sum of 1, is the
// weight of the step that followed. Each later step gets 5/8 of the weight of the step before it. A
// recency weight of 0.65^l + 0.02·0.98^l comes on top, and the first weight counts three times.
//
// Score: the sum S of a block's credits by weight, and 5/1024 of the sum of S over the block's
// aligned region of 16 blocks. The score is the logarithm of this key, corrected by calibration.
// Calibration observes how often blocks come back at the next step, by five features, and compares
// it with the expected number by key. The features are the distance from the edge, the quarter of
// the candidates, the listed blocks within 4 positions, and two more sums of credit. One has the
// 20th power and 3/8, the other 0.95^l.
//
// Rule: the first victim has the lowest score. Ties go to the least recently used, then to the
// lowest block index. The score depends on neither residency nor capacity. In a pool, each stream
// has its own history, and scores of different streams compete. The latest demand of each stream
// leaves last.
//
// All arithmetic is in integers. A weight is in 1/65536, a logarithm in 1/256 of log2 and linear
// between powers of two.
//
// Options: calibrate=off evicts by the key alone. calibrate=fine divides the distance into 16 values per
// power of two, and not into 2. calibrate=trees replaces the score by that of 32 decision trees. They
// were trained on the half of the corpus on which the constants were chosen. They see the score, the five
// features, the steps since the last two demands, the demands per step, and the number of the step. A step
// then costs four to eleven times as much. calibrate=sample scores a block only
// when it may be evicted, and observes each word of 64 blocks at one of n steps. n is |D_t| / 100,
// rounded down to 1, 2, 4 or 8. Region sums are from the word's last turn. The history has 56 steps.
// Credits are 8 for a member or a birth, 12 for a demanded birth, and 4 for a near miss. Overlaps count
// past births. All constants but those of trees were chosen by hand on half of the corpus. The research
// behind them is described in README.md.
//
// State: each block has a mask of the 64 steps before that demanded it. Sums over a mask are read from
// eight tables of 256 sums. Births and credits of candidates are lists, one a step. Cost: a step reads
// the state of each block that any of the last 64 steps gave credit, and all credits of these steps.
// An eviction reads the scores of all blocks outside the demand. Memory: 39 B per block of the context,
// 43 B with trees.
// Exact, online. If demands do not recur, it may lose to LRU in large caches.
package echo

import (
	_ "embed" // the package comment is the policy's documentation
	"math/bits"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/bucket"
)

//go:embed echo.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "echo",
	Summary: "evicts blocks that did not follow past steps similar to the current one",
	Source:  "new here, see policies/echo/README.md",
	Usage:   "echo:calibrate=C, C is on (default), off, fine, sample or trees",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Stack: true, Aligned: 1 << regionBits, Memory: "43 B", Cost: "O(blocks of 64 steps) a step"},
	New:     parse,
}

func parse(text string) (func() policies.Policy, string, error) {
	calibrate := "on"
	canonical, err := policies.ParseOptions(text, policies.Word("calibrate", &calibrate, "on", "off", "fine", "sample", "trees"))
	r := &published
	switch calibrate {
	case "sample":
		r = &sample
	case "fine":
		r = &fine
	case "trees":
		r = &withTrees
	}
	return func() policies.Policy { return &Policy{Calibrate: calibrate != "off", rule: r} }, canonical, err
}

// Policy is echo over one stream, or over the streams of a pool.
type Policy struct {
	Calibrate bool // correct the key by what came back

	rule      *rule
	histories []history // by stream
	stride    int32     // blocks of a stream
	first     int32     // added to T to number the updates from 0
	calls     int       // of Update, up to 2
	outside   []uint64  // E, one bit per block
	last      []int32   // last use, for blocks of E
	lists     [3][]int32
	keyed     []bucket.Ranked
}

// Needs returns the need for the demand. Candidates are optional.
func (p *Policy) Needs() policies.Needs { return policies.NeedDemand | policies.WantCandidates }

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	streams := sc.Updates()
	p.stride, p.first = int32(sc.Blocks/streams), int32(sc.Windows)
	for len(p.histories) < streams {
		p.histories = append(p.histories, history{})
	}
	p.histories = p.histories[:streams]
	p.calls = 0
	p.forget()
	p.outside = policies.Fill(p.outside, sc.Blocks>>6+1, 0)
	p.last = policies.Fill(p.last, sc.Blocks, 0)
	return nil
}

func (p *Policy) forget() {
	for i := range p.histories {
		p.histories[i].reset(int(p.stride), p.Calibrate, p.rule)
	}
}

// Update applies a step. Blocks that a warm-up places are no step: they depend on the capacity. The
// next call has their T.
func (p *Policy) Update(s *policies.Step) {
	p.join(s.Exit, s.T-1)
	p.join(s.Offered, s.T-1)
	for _, x := range s.Hit {
		p.outside[x>>6] &^= 1 << (x & 63)
	}
	if p.calls = min(2, p.calls+1); p.calls == 2 && s.T+p.first == 0 {
		p.forget()
	}
	members := s.Members
	if s.Demand == 0 {
		members = nil
	}
	if len(p.histories) == 1 {
		p.histories[0].step(s.Offered, members, s.Candidates)
		return
	}
	own := int(s.T+p.first) % len(p.histories)
	for i := range p.histories {
		if i == own || len(p.local(0, i, s.Offered)) > 0 {
			p.histories[i].step(p.local(0, i, s.Offered), p.local(1, i, members), p.local(2, i, s.Candidates))
		}
	}
}

func (p *Policy) join(blocks []int32, used int32) {
	for _, x := range blocks {
		p.outside[x>>6] |= 1 << (x & 63)
		p.last[x] = used
	}
}

// local returns the blocks of a list that belong to the i-th stream, by their indices in it.
func (p *Policy) local(list, i int, blocks []int32) []int32 {
	own, from := p.lists[list][:0], int32(i)*p.stride
	for _, x := range blocks {
		if x >= from && x < from+p.stride {
			own = append(own, x-from)
		}
	}
	p.lists[list] = own
	return own
}

// score returns the score of a block of E.
func (p *Policy) score(x int32) int32 {
	if len(p.histories) == 1 {
		return p.histories[0].score(x)
	}
	return p.histories[x/p.stride].score(x % p.stride)
}

// Evict appends the n blocks with the lowest scores.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	if n <= 0 {
		return dst
	}
	p.keyed = p.keyed[:0]
	for w, rest := range p.outside {
		for ; rest != 0; rest &= rest - 1 {
			x := int32(w<<6 | bits.TrailingZeros64(rest))
			p.keyed = append(p.keyed, bucket.Ranked{Key: order(p.score(x)), ID: x})
		}
	}
	at := len(dst)
	dst = lowest(p.keyed, n, p.last, p.first, dst)
	for _, x := range dst[at:] {
		p.outside[x>>6] &^= 1 << (x & 63)
	}
	return dst
}

// order maps a score to an integer with the same order.
func order(score int32) uint64 { return uint64(int64(score) + 1<<31) }

// lowest appends the n blocks with the lowest keys, by last use and then by index at equal keys.
// first is added to the last uses to make them positive. The list is overwritten.
func lowest(list []bucket.Ranked, n int, last []int32, first int32, dst []int32) []int32 {
	tied, n, dst := bucket.Lowest(list, n, dst)
	for i := range tied {
		x := tied[i].ID
		tied[i].Key = uint64(last[x]+first+1)<<32 | uint64(x)
	}
	_, _, dst = bucket.Lowest(tied, n, dst)
	return dst
}
