// Package bucket is the queue behind most eviction orders. It holds ids in numbered buckets, first
// in first out within a bucket. It pops the lowest or the highest bucket first. Push, remove and
// pop cost O(1) amortised per id. The search for the next bucket in use comes on top and looks at
// 64 buckets at a time. A heap would cost ten times as much per event.
//
// A bucket's ids are stored in chunks, and each chunk names the next. Removing an id is one store:
// its place stays behind, empty. Chunks that were read are used again. If most places are empty, the
// buckets are closed up. Ids are pushed and removed by the list, as a step names them. No loop has a
// branch that depends on the id.
package bucket

import (
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// Queue holds ids 0 … n-1, each in at most one of its buckets.
type Queue struct {
	place []int32  // current or last place of each id in ids
	ids   []int32  // chunks, the first one empty. A place that was given up holds none
	ends  []ends   // ends of each bucket
	used  []uint64 // one bit per bucket: set if it has ids or only empty places
	free  int32    // a chunk to use again, which names the next, or 0
	low   int      // no bucket in a word below is in use
	high  int      // no bucket in a word above is in use
	size  int
	taken int     // number of places in chunks that buckets use
	limit int     // number of taken places beyond which the buckets are closed up
	by    []int32 // scratch of PushBy
	moved []int32 // scratch of closeUp
}

// ends are the places of a bucket's first id and behind its last one. The last place of a chunk holds
// the next chunk's first place. A bucket that is not in use has the link of the first chunk.
type ends struct{ first, behind int32 }

const (
	none  = -1
	chunk = 32        // places
	link  = chunk - 1 // the last place of a chunk
	slack = 4096      // places that a queue may have before it is closed up
)

// Reset empties the queue for ids 0 … ids-1 and the given number of buckets.
func (q *Queue) Reset(ids, buckets int) {
	q.place = policies.Fill(q.place, ids, 0)
	q.ids = policies.Fill(q.ids, chunk, none)
	q.ends = policies.Fill(q.ends, buckets, ends{link, link})
	q.used = policies.Fill(q.used, buckets>>6+1, 0)
	q.free, q.low, q.high, q.size, q.taken, q.limit = 0, 0, 0, 0, 0, slack
}

// Len returns the number of ids held.
func (q *Queue) Len() int { return q.size }

// Has reports whether id x is held.
func (q *Queue) Has(x int32) bool { return q.ids[q.place[x]] == x }

// Push appends ids, none of which may be held, to bucket b.
func (q *Queue) Push(b int32, ids ...int32) {
	q.closeUp()
	q.push(int(b), ids)
	q.size += len(ids)
}

// push stores ids in bucket b.
func (q *Queue) push(b int, ids []int32) {
	b = min(b, len(q.ends)-1)
	for len(ids) > 0 {
		at := q.ends[b].behind
		if at&link == link {
			at = q.extend(b, at)
		}
		n := min(len(ids), int(link-at&link))
		copy(q.ids[at:], ids[:n])
		for i, x := range ids[:n] {
			q.place[x] = at + int32(i)
		}
		q.ends[b].behind = at + int32(n)
		ids = ids[n:]
	}
}

// PushBy appends each id x, none of which may be held, to bucket of[x].
func (q *Queue) PushBy(of, ids []int32) {
	q.by = slices.Grow(q.by[:0], len(ids))[:len(ids)]
	for i, x := range ids {
		q.by[i] = of[x]
	}
	q.PushAll(q.by, ids)
}

// PushAll appends each id, none of which may be held, to the bucket at the same index of buckets. A
// number past the last bucket means the last.
func (q *Queue) PushAll(buckets, ids []int32) {
	q.closeUp()
	buckets = buckets[:len(ids)]
	ends, place, places := q.ends, q.place, q.ids
	for i, x := range ids {
		b := min(int(buckets[i]), len(ends)-1)
		at := ends[b].behind
		if at&link == link {
			at = q.extend(b, at)
			places = q.ids
		}
		ends[b].behind = at + 1
		places[at], place[x] = x, at
	}
	q.size += len(ids)
}

// extend puts a chunk behind the place at which bucket b ends, and returns its first.
func (q *Queue) extend(b int, at int32) int32 {
	q.taken += chunk
	next := q.free
	if next == 0 {
		next = int32(len(q.ids))
		q.ids = slices.Grow(q.ids, chunk)[:next+chunk]
	} else {
		q.free = q.ids[next+link]
	}
	q.ids[at] = next
	if at == link {
		q.ends[b].first = next
		w := b >> 6
		q.used[w] |= 1 << (b & 63)
		q.low, q.high = min(q.low, w), max(q.high, w)
	}
	return next
}

// closeUp moves the ids of each bucket to new chunks, if the places have passed the limit. The limit
// then allows for four times the places. Every place is moved O(1) times.
func (q *Queue) closeUp() {
	if q.taken <= q.limit {
		return
	}
	room := q.size + 1 + chunk // take then reads each bucket to its end
	q.moved = slices.Grow(q.moved[:0], room)[:room]
	for w := q.low; w <= q.high; w++ {
		for rest := q.used[w]; rest != 0; rest &= rest - 1 {
			b := w<<6 | bits.TrailingZeros64(rest)
			n := q.take(b, q.moved)
			q.push(b, q.moved[:n])
		}
	}
	q.limit = 4*q.taken + slack
}

// Remove takes ids, which must be held, out of their buckets.
func (q *Queue) Remove(ids ...int32) {
	place, places := q.place, q.ids
	for _, x := range ids {
		places[place[x]] = none
	}
	q.size -= len(ids)
}

// PopLowest removes n ids, or all if there are fewer, and appends them to dst. It always takes the
// first id of the lowest bucket in use.
func (q *Queue) PopLowest(n int, dst []int32) []int32 {
	return q.pop(n, dst, func() int { return int(q.Lowest()) })
}

// PeekLowest returns the id that PopLowest would remove first, without removing it. It returns
// false if the queue is empty.
func (q *Queue) PeekLowest() (int32, bool) {
	for q.size > 0 {
		b := q.Lowest()
		for at := q.ends[b].first; at != link; q.ends[b].first = at {
			if x := q.ids[at]; x != none {
				return x, true
			}
			if at++; at&link == link || at == q.ends[b].behind {
				at = q.next(b, at)
			}
		}
	}
	return none, false
}

// PopHighest removes n ids, or all if there are fewer, and appends them to dst. It always takes the
// first id of the highest bucket in use.
func (q *Queue) PopHighest(n int, dst []int32) []int32 {
	return q.pop(n, dst, func() int {
		for q.used[q.high] == 0 {
			q.high--
		}
		return q.high<<6 | (63 - bits.LeadingZeros64(q.used[q.high]))
	})
}

// Order is an order of ids within buckets.
type Order interface {
	// Mixed reports whether ids of bucket b may differ in the order.
	Mixed(b int32) bool
	// Sort puts ids of one bucket in order. The sort is stable.
	Sort(ids []int32)
}

// PopLowestBy does the same as PopLowest for ids that also have an order within their buckets. It
// appends the n lowest. It sorts a bucket only if some of the bucket's ids stay.
func (q *Queue) PopLowestBy(order Order, n int, dst []int32) []int32 {
	n = min(n, q.size)
	if n <= 0 {
		return dst
	}
	from := len(dst)
	dst = slices.Grow(dst, q.size+1)
	out := dst[from : from+q.size+1] // a spare place lets take write before it checks
	for k := 0; ; {
		b, most := q.Lowest(), n
		if order.Mixed(b) {
			most = q.size
		}
		end := k + q.take(int(b), out[k:most+1])
		if end >= n {
			q.size -= end
			if end > n {
				order.Sort(out[k:end])
				q.Push(b, out[n:end]...)
			}
			return dst[:from+n]
		}
		k = end
	}
}

// Lowest returns the lowest bucket in use. The queue must not be empty. The ids of the bucket may all
// have been removed.
func (q *Queue) Lowest() int32 {
	for q.used[q.low] == 0 {
		q.low++
	}
	return int32(q.low<<6 | bits.TrailingZeros64(q.used[q.low]))
}

// PopBuckets removes whole buckets, the lowest in use first and none above top, and appends their
// ids to dst. It stops when it has n ids or more, or all. It also returns the last bucket and the
// index in out at which the ids of that bucket begin. The queue must not be empty, and its lowest
// bucket must not be above top.
func (q *Queue) PopBuckets(n int, top int32, dst []int32) (out []int32, last int32, begin int) {
	end := len(dst)
	dst = slices.Grow(dst, q.size+1)
	out, n = dst[:end+q.size+1], end+min(n, q.size)
	q.size += end
	for b := q.Lowest(); b <= top; b = q.Lowest() {
		last, begin = b, end
		if end += q.take(int(b), out[end:]); end >= n {
			break
		}
	}
	q.size -= end
	return out[:end], last, begin
}

// pop removes n ids, or all, from the buckets that next names.
func (q *Queue) pop(n int, dst []int32, next func() int) []int32 {
	n = min(n, q.size)
	if n <= 0 {
		return dst
	}
	from := len(dst)
	dst = slices.Grow(dst, n+1)
	out := dst[from : from+n+1] // a spare place lets take write before it checks
	for k := 0; k < n; {
		k += q.take(next(), out[k:])
	}
	q.size -= n
	return dst[:from+n]
}

// take moves the first ids of bucket b to out, whose last place it leaves free, and returns their
// number. A bucket with no more ids is out of use.
func (q *Queue) take(b int, out []int32) (n int) {
	e := &q.ends[b]
	at, most := e.first, len(out)-1
	for at != link {
		stop := at | link
		if stop == e.behind|link {
			stop = e.behind
		}
		end := min(stop, at+int32(most-n)) // empty places behind n ids can wait
		n += squeeze(q.ids[at:end], out[n:])
		if at, e.first = end, end; at == stop {
			at = q.next(int32(b), at)
		} else if n == most {
			break
		}
	}
	return n
}

// squeeze copies ids to out without empty places and returns their number. As a separate function
// it has enough registers.
//
//go:noinline
func squeeze(ids, out []int32) (n int) {
	for i, x := range ids {
		out[n], ids[i] = x, none
		n += 1 + int(x>>31)
	}
	return n
}

// next frees the chunk of bucket b that was read up to a place. It returns the first place of the
// following chunk. If there is none, the bucket is out of use.
func (q *Queue) next(b, at int32) int32 {
	q.taken -= chunk
	e, behind := &q.ends[b], q.ids[at|link]
	q.ids[at|link], q.free = q.free, at&^link
	if e.behind|link == at|link {
		q.used[b>>6] &^= 1 << (b & 63)
		*e, behind = ends{link, link}, link
	}
	return behind
}
