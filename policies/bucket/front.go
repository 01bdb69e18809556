package bucket

import "slices"

// Front holds back the ids of a list that belong below everything in the queue. They are popped
// next. If one pop takes all of them, they need not be queued.
type Front struct {
	ids, buckets []int32 // held back
	rest         []int32 // scratch: ids that are not held back
}

// Reset forgets the ids held back.
func (f *Front) Reset() { f.ids = f.ids[:0] }

// Push does the same as q.PushAll, but holds back the ids of buckets below q's lowest until Pop. It
// changes buckets.
func (f *Front) Push(q *Queue, buckets, ids []int32) {
	f.queue(q)
	if q.size == 0 {
		q.PushAll(buckets, ids)
		return
	}
	n := len(ids)
	f.ids, f.buckets, f.rest = slices.Grow(f.ids, n)[:n], slices.Grow(f.buckets[:0], n)[:n], slices.Grow(f.rest[:0], n)[:n]
	low := split(q.Lowest(), buckets[:n], ids, f.ids, f.buckets, f.rest)
	f.ids, f.buckets = f.ids[:low], f.buckets[:low]
	q.PushAll(buckets[:n-low], f.rest[:n-low])
}

// split counts the ids of buckets below floor and copies them to lowIDs and their buckets to
// lowBuckets. It copies the other ids to rest and moves their buckets to the front.
//
//go:noinline
func split(floor int32, buckets, ids, lowIDs, lowBuckets, rest []int32) (low int) {
	ids, lowIDs, lowBuckets, rest = ids[:len(buckets)], lowIDs[:len(buckets)], lowBuckets[:len(buckets)], rest[:len(buckets)]
	others := 0
	for i, b := range buckets {
		x := ids[i]
		lowIDs[low], lowBuckets[low] = x, b
		rest[others], buckets[others] = x, b
		below := int(uint32(b-floor) >> 31)
		low += below
		others += 1 - below
	}
	return low
}

// Pop appends the ids held back to dst if they are fewer than n and q is not empty. Otherwise it
// pushes them to q. Ids pushed to q since then must belong above them, or n must not count them.
func (f *Front) Pop(q *Queue, n int, dst []int32) []int32 {
	if len(f.ids) >= n || q.size == 0 {
		f.queue(q)
		return dst
	}
	dst = append(dst, f.ids...)
	f.ids = f.ids[:0]
	return dst
}

// queue pushes the ids held back.
func (f *Front) queue(q *Queue) {
	q.PushAll(f.buckets[:len(f.ids)], f.ids)
	f.ids = f.ids[:0]
}
