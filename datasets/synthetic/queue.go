package synthetic

// ticks is the number of buckets of a queue to a step.
const ticks = 16

// block is what a process knows of one. A block is in one queue at most: of the
// demanded, by the end of its run, or of those to come back.
type block struct {
	next   int32 // in its bucket, -1 for the last
	bucket int32 // of its queue, or unqueued
	run    int32 // while it is demanded, else free or taken
	heat   uint16
	seen   bool // demanded before
}

const (
	free     = -1 // run of a block that may enter
	taken    = -2 // run of a block that leaves or enters at the step in hand
	unqueued = -1 // bucket of a block in no queue
)

// queue holds blocks by due time in buckets of 1/ticks step.
type queue struct {
	blocks []block
	head   []int32 // by bucket, -1 for none
	at     int     // buckets before it are empty
	size   int
}

func (q *queue) reset(blocks []block, steps int) {
	q.blocks = blocks
	q.head = resized(q.head, steps*ticks)
	for i := range q.head {
		q.head[i] = -1
	}
	q.at, q.size = 0, 0
}

// put adds a block that is in no queue, due in a bucket from q.at to the last.
func (q *queue) put(x int32, bucket int) {
	b := &q.blocks[x]
	b.next, b.bucket = q.head[bucket], int32(bucket)
	q.head[bucket] = x
	q.size++
}

// pop removes a block that is due in the first bucket that has one, before bucket
// limit, or returns -1.
func (q *queue) pop(limit int) int32 {
	for limit = min(limit, len(q.head)); q.at < limit; q.at++ {
		if x := q.head[q.at]; x >= 0 {
			b := &q.blocks[x]
			q.head[q.at], b.bucket = b.next, unqueued
			q.size--
			return x
		}
	}
	return -1
}

// remove takes a block out of the queue. It looks for it in its bucket: few are removed
// otherwise than by pop.
func (q *queue) remove(x int32) {
	b := &q.blocks[x]
	at := &q.head[b.bucket]
	for *at != x {
		at = &q.blocks[*at].next
	}
	*at, b.bucket = b.next, unqueued
	q.size--
}

// resized returns a slice of n elements that reuses memory; its content is undefined.
func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
