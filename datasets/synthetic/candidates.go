package synthetic

import "math"

// far is the distance in steps of candidates that come from anywhere.
const far = 64

// reach is how many steps from its leaving or entering a block may be a candidate.
const reach = 16

// offset makes the mean of 1/(offset + x) over the x from n−1 to n equal to 1/n, to 2 %.
const offset = 1 / (math.E - 1)

// candidates fills list with blocks that step t does not demand, best first: of those
// that left x steps before or will enter x steps after, a share of Near/x; then any.
func (k *ranker) candidates(t int, list []int32) {
	p, n := k.p, len(list)
	k.near, k.keys = k.near[:0], k.keys[:0]
	k.listed = append(k.listed[:0], k.lasting...)
	k.draw(t, n)
	limit := int32(p.tokens + t)
	for len(k.near) < n {
		bits := p.random.Uint64()
		x := int32(bits >> 32 * uint64(limit) >> 32)
		for k.isListed(x) {
			if x++; x == limit {
				x = 0
			}
		}
		k.add(x, far, uint8(bits))
	}
	k.merge(list)
}

func (k *ranker) add(x int32, steps int, bits uint8) {
	k.list(x)
	k.near = append(k.near, x)
	k.keys = append(k.keys, bucketOf(uint16(steps), forever, bits))
}

// draw walks back through those that left and forward through those that will enter.
// At c blocks a step, the j-th of them is drawn with density Near/(o + j/c), which makes
// Near/x of those x steps away; so the i-th draw lies at j = o·c·(exp(i/(Near·c)) − 1).
func (k *ranker) draw(t, n int) {
	p := k.p
	churn := max(1, churnOf(&p.dials, float64(p.topK)))
	if p.dials.Near <= 0 {
		return
	}
	step := math.Exp(1 / (p.dials.Near * churn))
	past := p.left[:p.gone[t+1]]
	next := p.runs[p.first[t+1]:]
	limit := int32(p.tokens + t) // no token of the future
	spread, none := (step-1)/(1<<24), offset*churn
	for grown := none; len(k.near) < n; grown *= step {
		bits := p.random.Uint64()
		at := grown*(1+spread*float64(bits>>40)) - none
		if at >= reach*churn {
			return
		}
		j := int(at)
		if j < len(past) {
			if d := past[len(past)-1-j]; !k.isListed(d.block) {
				k.add(d.block, t-int(d.step)+1, uint8(bits))
			}
		}
		if j < len(next) && len(k.near) < n {
			if r := next[j]; r.block < limit && !k.isListed(r.block) {
				k.add(r.block, int(r.enter)-t, uint8(bits>>8))
			}
		}
		if j >= len(past) && j >= len(next) {
			return
		}
	}
}

// merge fills list with the candidates, nearest to the threshold first.
func (k *ranker) merge(list []int32) {
	k.places.of(k.keys)
	places, keys := &k.places, k.keys[:len(k.near)]
	for i, x := range k.near {
		at := &places[i&1][keys[i]]
		list[*at] = x
		*at++
	}
}
