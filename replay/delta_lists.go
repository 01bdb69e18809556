package replay

import "slices"

// lists are ascending lists of blocks, one a row, in one array.
type lists struct {
	items []int32
	ends  []int32 // ends[i] is where row i-1 ends; len = rows+1
}

func (l *lists) reset() { l.items, l.ends = l.items[:0], append(l.ends[:0], 0) }
func (l *lists) close() { l.ends = append(l.ends, int32(len(l.items))) }

// free returns at least n items of room behind the last row; take makes the first n
// of them the next row.
func (l *lists) free(n int) []int32 {
	if cap(l.items)-len(l.items) < n {
		l.items = slices.Grow(l.items, max(n, cap(l.items)))
	}
	return l.items[len(l.items):cap(l.items)]
}

func (l *lists) take(n int) {
	l.items = l.items[:len(l.items)+n]
	l.close()
}

// Row returns row i's list.
func (l *lists) Row(i int) []int32 { return l.items[l.ends[i]:l.ends[i+1]] }

// len is the length of row i's list.
func (l *lists) len(i int) int { return int(l.ends[i+1] - l.ends[i]) }

// append makes blocks, raised by base, the next row.
func (l *lists) append(blocks []int32, base int32) {
	for _, b := range blocks {
		l.items = append(l.items, base+b)
	}
	l.close()
}
