package replay

import "github.com/kvreplay/kvreplay/policies"

// shares are what a cell counts on a pool, stream by stream. A row's demand, misses,
// births and bytes are those of its stream; what leaves the cache and what stays there is
// counted for the stream that it belongs to, whoever made room.
type shares struct {
	pool   *pool // nil: no pool, and nothing is counted here
	counts []Counts
	size   []int // resident blocks of each stream
	peak   int64 // most blocks of all streams together
}

// reset starts a pool; placed blocks are resident already.
func (s *shares) reset(d *Delta, unit int64, placed []int32) {
	if s.pool = d.pool; s.pool == nil {
		return
	}
	n := len(s.pool.members)
	s.counts, s.size, s.peak = policies.Fill(s.counts, n, Counts{Streams: 1}), policies.Fill(s.size, n, 0), 0
	if !d.lower {
		for i, m := range s.pool.members {
			s.counts[i].PinnedPeak = int64(m.delta.PinnedPeak) * unit
		}
	}
	s.add(placed, 1)
}

// add counts blocks that came, each for its stream, or -1 times those that left.
func (s *shares) add(blocks []int32, sign int) {
	for _, b := range blocks {
		s.size[s.pool.owner(b)] += sign
	}
}

// stream is that of row i.
func (s *shares) stream(i int) int {
	if s.pool == nil {
		return 0
	}
	return i % len(s.pool.members)
}

// first is the first block of row i's stream.
func (s *shares) first(i int) int32 {
	if s.pool == nil {
		return 0
	}
	return s.pool.base(s.stream(i))
}

// settle takes account of row i, at which own blocks of its stream came, or left if
// negative, offered ones of any stream came, and victims of any stream left.
func (s *shares) settle(i, own int, offered, victims []int32, size int, counted bool) {
	s.size[s.stream(i)] += own
	s.add(offered, 1)
	s.add(victims, -1)
	if !counted {
		return
	}
	for _, b := range offered {
		s.counts[s.pool.owner(b)].Births++
	}
	for _, b := range victims {
		s.counts[s.pool.owner(b)].Evictions++
	}
	s.peak = max(s.peak, int64(size))
}
