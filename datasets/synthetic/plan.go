package synthetic

import "math"

// reach is how many steps from its leaving or entering a block may be a candidate.
const reach = 16

// offset makes the mean of 1/(offset + x) over the x from n−1 to n equal to 1/n, to 2 %.
const offset = 1 / (math.E - 1)

// plan says where the n candidates of a step come from and how they are ranked: a block
// from each span of those that left, one from each span of those that will enter, then any
// blocks, in one of several orders that are drawn in advance.
type plan struct {
	near, churn float64 // that it is for
	n           int
	spans       []span
	unit        uint32  // of spans, in parts of a block: a power of two
	h           []uint8 // buckets of the candidates' distances
	order       order
	ranks       [][]int32 // by order: of each candidate in that sequence
}

// span is part of those that left, the last first, or of those that will enter: from begin
// on and width wide, in units of the plan.
type span struct{ begin, width uint32 }

const (
	leastUnit = 1 << 8  // parts of a block, where
	mostSpan  = 1 << 31 // units are not exceeded
)

// far is the distance in steps of candidates that come from anywhere.
const far = 64

// set makes the plan for n candidates. At c blocks a step, the j-th block is drawn with
// density Near/(o + j/c), which makes Near/x of those x steps away; so the i-th draw lies
// at j = o·c·(exp(i/(Near·c)) − 1).
func (p *plan) set(near, churn float64, n int) {
	if p.near == near && p.churn == churn && p.n == n {
		return
	}
	p.near, p.churn, p.n, p.spans, p.h = near, churn, n, p.spans[:0], p.h[:0]
	for p.unit = leastUnit; float64(p.unit)*reach*churn > mostSpan; p.unit /= 2 {
	}
	if near > 0 {
		step, none := math.Exp(1/(near*churn)), offset*churn // step may be infinite
		for from := none; from-none < reach*churn && 2*len(p.h) < n-1; from *= step {
			width := min(mostSpan/float64(p.unit), from*(step-1))
			p.spans = append(p.spans, span{uint32(float64(p.unit) * (from - none)), uint32(float64(p.unit) * width)})
			p.h = append(p.h, bucketOf(uint16(1+min(reach, (from+width/2-none)/churn)), forever))
		}
	}
	p.h = append(p.h, p.h...)
	for len(p.h) < n {
		p.h = append(p.h, bucketOf(far, forever))
	}
	p.ranks = p.order.shuffles(noises, p.h, source(0, ofPlan, 0, 0, 0), p.ranks)
	for _, ranks := range p.ranks {
		for i := range ranks {
			ranks[i] = int32(n-1) - ranks[i] // the nearest come first
		}
	}
}
