package synthetic

import "math"

// reach is how many steps from its leaving or entering a block may be a candidate.
const reach = 32

// offset makes the mean of 1/(offset + x) over the x from n−1 to n equal to 1/n, to 2 %.
const offset = 1 / (math.E - 1)

// candidates appends n blocks that step t does not demand, best first: of those that
// left x steps before or will enter x steps after, a share of Near/x; then any.
func (k *ranker) candidates(t, n int, list []int32) []int32 {
	if n <= 0 {
		return list
	}
	p := k.p
	k.near = k.near[:0]
	k.draw(t, n)
	limit := int32(p.tokens + t)
	for len(k.near) < n {
		bits := p.pcg.Uint64()
		x := int32(bits >> 32 * uint64(limit) >> 32)
		for k.isListed(x) {
			if x++; x == limit {
				x = 0
			}
		}
		k.add(x, 2*reach, uint8(bits))
	}
	for _, c := range k.near {
		k.unlist(c.block)
	}
	return k.merge(list)
}

func (k *ranker) add(x int32, steps int, bits uint8) {
	k.list(x)
	k.near = append(k.near, candidate{x, bucketOf(uint16(steps), forever, bits)})
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
	for grown := offset * churn; len(k.near) < n; grown *= step {
		bits := p.pcg.Uint64()
		at := grown*(1+(step-1)*float64(bits>>40)/(1<<24)) - offset*churn
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

// merge appends the candidates, nearest to the threshold first.
func (k *ranker) merge(list []int32) []int32 {
	var count [256]int32
	for _, c := range k.near {
		count[c.key]++
	}
	starts(&count)
	from := len(list)
	list = append(list, make([]int32, len(k.near))...)
	for _, c := range k.near {
		list[from+int(count[c.key])] = c.block
		count[c.key]++
	}
	return list
}
