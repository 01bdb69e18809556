package synthetic

// order puts elements in the order of their keys, small ones first; elements of the same
// key keep theirs.
type order struct {
	keys []uint8
	next [512]int32 // by key: the place of the next element, or how many there are
}

// farthest exceeds no bucket of a distance: it less the bucket is a key.
const farthest = 255

// count finds the places from the keys. Elements with even and odd numbers are counted
// apart, as that is faster.
func (o *order) count() {
	next := &o.next
	*next = [512]int32{}
	for i, key := range o.keys {
		next[i&1<<8|int(key)]++
	}
	sum := int32(0)
	for key := range 256 {
		even, odd := next[key], next[key|1<<8]
		next[key], next[key|1<<8] = sum, sum+even
		sum += even + odd
	}
}

// place returns the place of element i; it is asked once for each, in their order.
func (o *order) place(i int) int32 {
	at := &o.next[i&1<<8|int(o.keys[i])]
	*at++
	return *at - 1
}

// shuffles draws noisy orders of elements whose distances h from the threshold are given, as
// buckets: the places by E·h, the farthest first. There are at most n, and at least one; less
// where they would have more than mostPlaces together.
func (o *order) shuffles(n int, h []uint8, r *random, places [][]int32) [][]int32 {
	places = resized(places, max(1, min(n, mostPlaces/max(1, len(h)))))
	o.keys = resized(o.keys, len(h))
	for v := range places {
		bits := uint64(0)
		for i, bucket := range h {
			if bits >>= 8; i&7 == 0 {
				bits = r.Uint64()
			}
			o.keys[i] = farthest - bucket - noise[uint8(bits)]
		}
		o.count()
		places[v] = resized(places[v], len(h))
		for i := range h {
			places[v][i] = o.place(i)
		}
	}
	return places
}

const mostPlaces = 1 << 20
