package echo_test

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/echo"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// reference is the rule of the package comment, literally. It keeps every step as maps and lists, and
// computes each sum anew from all steps that count.
type reference struct {
	policytest.Ledger
	calibrate bool
	sample    int // demanded blocks per step of a turn, by calibrate=sample
	trees     bool
	fine      bool // 16 distances per power of two

	history int             // remembered steps
	credits []map[int32]int // by step
	demands [][]int32       // by step, ascending
	past    [][]int32       // by step: blocks that similarity compares with later demands
	regions map[int32]int   // of a sample: sums of S at the last turn
	overlap []map[int]int   // by step and lag
	edge    int32
	noted   []noted
	back    map[string]int // returns and expectations, by the name of a bucket
	score   func(x int32) int64
}

// noted is a block that may come back at the next step.
type noted struct {
	block    int32
	bucket   string    // of its key
	values   [5]string // buckets of its features
	expected int
}

func (r *reference) Reset(sc policies.Scope) {
	r.Ledger.Reset(sc)
	r.history, r.past, r.regions = 64, nil, map[int32]int{}
	if r.sample > 0 {
		r.history = 56
	}
	r.credits, r.demands, r.overlap, r.edge, r.noted, r.back = nil, nil, nil, 0, nil, map[string]int{}
}

// Step applies the steps of the rule in order. The blocks that a warm-up places give no credit.
func (r *reference) Step(s *policytest.Step) {
	r.Ledger.Step(s)
	if s.List == nil {
		return
	}
	for _, x := range slices.Concat(s.Births, s.Demand) {
		r.edge = max(r.edge, x+1)
	}
	r.credits, r.demands = append(r.credits, map[int32]int{}), append(r.demands, s.Demand)
	t := len(r.credits) - 1
	r.past = append(r.past, s.Demand)
	if r.sample > 0 {
		r.past[t] = slices.Concat(s.Demand, s.Births)
	}
	credit, near, listed := r.credits[t], map[int32]int{}, map[int32]bool{}
	for _, x := range s.Births {
		credit[x] += 8
	}
	for _, x := range s.Demand {
		credit[x] += 8
		listed[x] = true
	}
	candidates := s.Candidates()
	q := min(len(candidates), max(1, len(s.Demand)/2))
	for i, x := range candidates {
		i++ // counted from 1
		if x >= r.edge {
			continue
		}
		near[x] = 1 + 4*(i-1)/len(candidates)
		if v := 8 * (q + 1 - i) / (q + 1); i <= q && v > 0 {
			credit[x] += v
			listed[x] = true
		}
	}
	turns := 1
	for _, n := range []int{2, 4, 8} {
		if r.sample > 0 && len(s.Demand)/r.sample >= n {
			turns = n
		}
	}
	inTurn := func(x int32) bool { return int(x)/64%turns == t%turns }
	if r.sample > 0 {
		for x, v := range credit { // a unit, half a unit, or both
			switch {
			case v < 8:
				credit[x] = 4
			case v > 8:
				credit[x] = 12
			}
		}
	}
	weight, sharp := r.weights(t)
	sum := func(x int32, weight func(u int) int) (n int) {
		for u := max(0, t-r.history); u <= t; u++ {
			n += weight(u) * r.credits[u][x]
		}
		return n
	}
	sums, regions := map[int32]int{}, map[int32]int{}
	for u := max(0, t-r.history); u <= t; u++ {
		for x := range r.credits[u] {
			if _, known := sums[x]; !known {
				sums[x] = sum(x, weight)
				regions[x/16] += sums[x]
			}
		}
	}
	if r.sample > 0 {
		maps.DeleteFunc(r.regions, func(g int32, _ int) bool { return inTurn(g * 16) })
		for g, sum := range regions {
			if inTurn(g * 16) {
				r.regions[g] = sum
			}
		}
		regions = r.regions
	}
	key := func(x int32) int { return sums[x] + 5*regions[x/16]/1024 }
	if !r.calibrate {
		r.score = func(x int32) int64 { return int64(key(x)) }
		return
	}
	for _, n := range r.noted {
		back := 0
		if slices.Contains(s.Demand, n.block) {
			back = 65536
		}
		r.back["returned "+n.bucket] += back
		r.back["noted "+n.bucket] += 65536
		for _, v := range n.values {
			r.back["observed "+v] += back
			r.back["expected "+v] += n.expected
		}
	}
	chance, most := map[int]int{}, 0
	for b := range 64 {
		name := bucketName("key", b)
		most = max(most, (1<<14+r.back["returned "+name])*65536/(1<<18+r.back["noted "+name]))
		chance[b] = most
	}
	width := 128 // of a distance, in 1/256 of log2
	if r.fine {
		width = 16
	}
	features := func(x int32) (values [5]string) {
		around := 0
		for y := x - 4; y <= x+4; y++ {
			if y != x && listed[y] {
				around++
			}
		}
		slow := func(u int) int { return int(math.Round(65536 * math.Pow(0.95, float64(t-u)))) }
		return [5]string{
			bucketName("edge", lg(int(r.edge-x))/width),
			bucketName("near", near[x]),
			bucketName("around", min(8, around)),
			bucketName("sharp", min(40, max(0, lg(sum(x, sharp)+1024)/128-20))),
			bucketName("slow", min(40, max(0, lg(sum(x, slow)+16384)/128-28))),
		}
	}
	correction := func(values [5]string) int {
		c := 0
		for _, v := range values {
			c += lg(1<<18+r.back["observed "+v]) - lg(1<<18+r.back["expected "+v])
		}
		return floorDiv(180*c, 256)
	}
	correct := map[int32]int{}
	r.noted = nil
	for x := range sums {
		if slices.Contains(s.Demand, x) || !inTurn(x) {
			continue
		}
		values, b := features(x), min(63, lg(key(x))/128)
		correct[x] = correction(values)
		z, e := correct[x]+4096, 0
		if z >= 0 {
			e = (256 + z%256) << min(40, z/256) >> 8
		}
		r.noted = append(r.noted, noted{x, bucketName("key", b), values, min(64000, chance[b]*e>>16)})
	}
	r.score = func(x int32) int64 {
		values := features(x)
		c, known := correct[x]
		if !known {
			c = correction(values)
		}
		score := lg(key(x)) + c
		if r.trees {
			score = r.sort(x, score, values)
		}
		return int64(score)
	}
}

// sort returns the sum of the values of a block's leaves. The rest of a value's name is its number.
func (r *reference) sort(x int32, score int, values [5]string) (sum int) {
	t := len(r.demands) - 1
	var ages []int // of all demands, latest first
	for l := range t + 1 {
		if slices.Contains(r.demands[t-l], x) {
			ages = append(ages, l)
		}
	}
	rate := lg(1+256*len(ages)/(t+1)) / 32
	ages = append(ages, 64, 64)
	number := func(value, feature string) (n int) {
		fmt.Sscanf(value, feature+"%d", &n)
		return n
	}
	block := []int{max(0, score) / 32, lg(int(r.edge-x)) / 16, number(values[1], "near"), number(values[2], "around"),
		number(values[3], "sharp"), number(values[4], "slow"), min(64, ages[0]), min(64, ages[1]), rate, t}
	for tree := range echo.Trees {
		splits, of := echo.Tree(tree)
		leaf := 0
		for i, s := range splits {
			if leaf == s[0] && min(255, block[s[1]]) > s[2] {
				leaf = i + 1
			}
		}
		sum += of[leaf]
	}
	return sum
}

// weights returns the weight of each step that counts at step t, in S and in the sharp sum.
func (r *reference) weights(t int) (weight, sharp func(u int) int) {
	n := min(t, r.history)
	r.overlap = append(r.overlap, map[int]int{})
	for l := 1; l <= n; l++ {
		for _, x := range r.demands[t] {
			if slices.Contains(r.past[t-l], x) {
				r.overlap[t][l]++
			}
		}
	}
	similar, most := map[int]int{}, 0
	for l := 1; l <= n; l++ {
		similar[l] = 4 * r.overlap[t][l]
		if t-1 >= 0 {
			similar[l] += 2 * r.overlap[t-1][l]
		}
		if t-2 >= 0 {
			similar[l] += r.overlap[t-2][l]
		}
		most = max(most, similar[l])
	}
	w10, w20, sum10, sum20 := map[int]int{}, map[int]int{}, 0, 0
	for l := 1; l <= n && most > 0; l++ {
		p := 65535 * similar[l] / most
		p2 := p * p >> 16
		p4 := p2 * p2 >> 16
		p8 := p4 * p4 >> 16
		p16 := p8 * p8 >> 16
		w10[l], w20[l] = p8*p2>>16, p16*p4>>16
		sum10, sum20 = sum10+w10[l], sum20+w20[l]
	}
	f, f20 := map[int]int{}, map[int]int{}
	for u := t - n + 1; u <= t && most > 0; u++ {
		f[u] = 65536*w10[t-u+1]/sum10 + 5*f[u-1]/8
		f20[u] = 65536*w20[t-u+1]/sum20 + 3*f20[u-1]/8
	}
	fast := func(l float64) int { return int(math.Round(65536 * (math.Pow(0.65, l) + 0.02*math.Pow(0.98, l)))) }
	return func(u int) int { return 3*f[u] + fast(float64(t-u)) }, func(u int) int { return f20[u] }
}

func (r *reference) Victims(n int, outside []int32) []int32 {
	return policytest.Least(n, outside, r.score, r.LastUse)
}

func bucketName(feature string, n int) string { return fmt.Sprint(feature, n) }

// lg returns log2 x in 1/256, linear between powers of two.
func lg(x int) int {
	x = max(x, 1)
	octave, power := 0, 1
	for 2*power <= x {
		octave, power = octave+1, 2*power
	}
	return 256*octave + 256*(x-power)/power
}

func floorDiv(a, b int) int { return int(math.Floor(float64(a) / float64(b))) }
