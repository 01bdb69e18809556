package replay

// Candidates are the ranks K … M-1 of row i, best first. What a lower tier is not asked
// for may have any rank.
func (d *Delta) Candidates(i int) []int32 {
	if d.pool != nil {
		return d.pool.candidates(i, d.lower)
	}
	list := d.stream.List(d.first + i)
	if d.lower {
		return list[:d.listed(list)]
	}
	return list[d.prefix(d.first+i, list):d.listed(list)]
}

// scored is row i's list up to M with its scores, nil where the trace has none.
func (d *Delta) scored(i int) ([]int32, []float32) {
	if d.pool != nil {
		m, row := d.pool.at(i)
		list, scores := m.scored(row)
		return d.pool.raised(i, list), scores
	}
	list, scores := d.stream.List(d.first+i), d.stream.ScoreList(d.first+i)
	n := d.listed(list)
	if scores == nil {
		return list[:n], nil
	}
	return list[:n], scores[:n]
}

// ranked is the list of row i up to K, pinned blocks included.
func (d *Delta) ranked(i int) []int32 {
	if d.pool != nil {
		m, row := d.pool.at(i)
		return d.pool.raised(i, m.ranked(row))
	}
	list := d.stream.List(d.first + i)
	return list[:d.prefix(d.first+i, list)]
}

// picked are the demanded entries of each of row i's members: one where blocks hold one.
func (d *Delta) picked(i int) []int32 {
	from, to := d.Members.ends[i], d.Members.ends[i+1]
	if d.weighed() {
		return d.Picked[from:to]
	}
	for int(to-from) > len(d.ones) {
		d.ones = append(d.ones, 1)
	}
	return d.ones[:to-from]
}

// prefix is how much of the stream's list at row is demanded.
func (d *Delta) prefix(row int, list []int32) int {
	if d.joined != nil {
		return int(d.joined.demand[row])
	}
	return min(d.k, len(list))
}

// listed is how much of a list policies may see.
func (d *Delta) listed(list []int32) int {
	if d.joined != nil {
		return len(list) // cut when it was joined
	}
	return min(d.m, len(list))
}

// Made is the number of positions that row i decodes.
func (d *Delta) Made(i int) int64 {
	if d.pool != nil {
		m, row := d.pool.at(i)
		return m.Made(row)
	}
	if d.joined != nil {
		return int64(d.joined.made[d.first+i])
	}
	return 1
}

// step is the trace's step of row i.
func (d *Delta) step(i int) int32 {
	if d.pool != nil {
		d, i = d.pool.at(i)
	}
	return d.stream.Steps[d.first+i]
}

// weighed reports whether blocks hold several entries that a list may name apart.
func (d *Delta) weighed() bool { return d.joined != nil && !d.lower && d.joined.weighed() }

// blocks is the number of block ids in a context of seqLen tokens; of clusters all, as
// they are joined from lists that were checked.
func (d *Delta) blocks(seqLen int) int {
	if d.clusters != nil {
		return d.Blocks
	}
	return d.pins.blocks(seqLen)
}
