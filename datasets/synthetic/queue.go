package synthetic

// ticks is the number of buckets of a queue to a step.
const ticks = 16

// queue holds what is due by buckets of 1/ticks step. A bucket is a chain of chunks, so
// that what it holds can be read without waiting for a link from one to the next.
type queue struct {
	end   []int32 // by bucket: behind its last element in pool, 0 for none
	pool  []int32 // chunks: the end of the chunk before, then elements
	spare []int32 // chunks to use again
	at    int     // buckets before it are past
}

// chunk is the size of a chunk, a power of two.
const chunk = 16

func (q *queue) reset(steps int) {
	q.end = resized(q.end, steps*ticks)
	clear(q.end)
	q.pool, q.spare, q.at = append(q.pool[:0], make([]int32, chunk)...), q.spare[:0], 0
}

// put is putAll of one element.
func (q *queue) put(x, bucket int32) { q.putAll([]int32{x}, []int32{bucket}) }

// putAll adds elements, each to the bucket given, from q.at on. There is no bucket behind
// the last: what is due there never is.
func (q *queue) putAll(elements, buckets []int32) {
	end, pool, elements := q.end, q.pool, elements[:len(buckets)]
	for i, bucket := range buckets {
		if uint(bucket) >= uint(len(end)) {
			continue
		}
		at := end[bucket]
		if at%chunk == 0 {
			at = q.extend(at)
			pool = q.pool
		}
		pool[at] = elements[i]
		end[bucket] = at + 1
	}
}

// extend begins a chunk behind the end of another and returns its first place.
func (q *queue) extend(end int32) int32 {
	var base int32
	if n := len(q.spare); n > 0 {
		base, q.spare = q.spare[n-1], q.spare[:n-1]
	} else {
		base = int32(len(q.pool))
		q.pool = append(q.pool, make([]int32, chunk)...)
	}
	q.pool[base] = end
	return base + 1
}

// takeBefore takes out all elements of the buckets before limit and appends them to list.
func (q *queue) takeBefore(limit int, list []int32) []int32 {
	for limit = min(limit, len(q.end)); q.at < limit; q.at++ {
		for q.end[q.at] > 0 {
			list = q.takeSome(chunk, list)
		}
	}
	return list
}

// takeFirst takes out the n elements that are due first, of which there are so many, and
// appends them to list.
func (q *queue) takeFirst(n int, list []int32) []int32 {
	for n += len(list); len(list) < n; {
		if q.end[q.at] > 0 {
			list = q.takeSome(n-len(list), list)
		} else {
			q.at++
		}
	}
	return list
}

// takeSome takes up to n elements out of the last chunk of the bucket at hand.
func (q *queue) takeSome(n int, list []int32) []int32 {
	end := q.end[q.at]
	base := (end - 1) &^ (chunk - 1)
	from := max(base+1, end-int32(n))
	list = append(list, q.pool[from:end]...)
	if q.end[q.at] = from; from == base+1 {
		q.drop(base, q.at)
	}
	return list
}

// drop frees the last chunk of a bucket, which begins at base and is empty.
func (q *queue) drop(base int32, bucket int) {
	q.end[bucket] = q.pool[base]
	q.spare = append(q.spare, base)
}

// remove takes x out of its bucket. It looks for it there: few are removed before they
// are due.
func (q *queue) remove(x int32, bucket int) {
	end := q.end[bucket]
	last := q.pool[end-1]
	for at := end - 1; ; at-- {
		if at%chunk == 0 {
			at = q.pool[at] - 1
		}
		if q.pool[at] == x {
			q.pool[at] = last
			break
		}
	}
	if q.end[bucket] = end - 1; (end-1)%chunk == 1 {
		q.drop(end-2, bucket)
	}
}

// resized returns a slice of n elements that reuses memory; its content is undefined.
func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
