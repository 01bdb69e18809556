package synthetic

// random is SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014): a third of the time of the standard library's generators,
// which drawing a stream mostly waits for. It is a rand.Source.
type random uint64

// Uint64 returns the next number.
func (r *random) Uint64() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number from 0 to n−1.
func (r *random) below(n int32) int32 { return int32(r.Uint64() >> 32 * uint64(n) >> 32) }

// What random sources are for: streams, the spread over layers and heads, orders of candidates.
const (
	ofStream = iota
	ofLayer
	ofHead
	ofPlan
)

// source returns the generator of a purpose, independent of all others.
func source(seed uint64, purpose, a, b, c uint64) *random {
	r := random(seed)
	for _, v := range []uint64{purpose, a, b, c} {
		r = random(r.Uint64() ^ v)
	}
	return &r
}
