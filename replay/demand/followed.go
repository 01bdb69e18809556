package demand

// Followed is the View of a pool by the changes of each stream. Row i has the changes from row
// i - Streams, the row before of the same stream. The latest demand of every stream stays demanded
// until its stream's next row. Members and Change.Demand are those of the row's own stream.
//
// A cache of this view evicts no block of a latest demand. It has the misses of the Pool only if the
// policy does not evict one there either. Latest is the capacity from which a policies.Follower does
// not.
type Followed struct{ *Pool }

// Followed returns the view of p by the changes of each stream. It needs Options.Followed. ok is
// false if p was built without it.
func (p *Pool) Followed() (f Followed, ok bool) { return Followed{p}, p.changes }

// Latest returns a bound on the blocks in the latest demands and births of all streams. If listed, it
// counts whole lists instead of demands. A cache that holds as many has an older block for every
// victim.
func (f Followed) Latest(listed bool) (most int) {
	for _, d := range f.streams {
		demand, births := d.MaxDemand, 0
		for i := range d.Rows {
			births = max(births, len(d.born.Row(i)))
			if listed {
				demand = max(demand, len(d.Listed(i)))
			}
		}
		most += demand + births
	}
	return most
}

// Change implements View.
func (f Followed) Change(i int, c *Change) {
	m, row := f.at(i)
	m.Change(row, c)
	if c.Due = nil; i >= f.Streams-1 {
		before, row := f.at(i - f.Streams + 1)
		c.Due = before.born.Row(row)
	}
}

// Candidates returns the candidates of row i's own list.
func (f Followed) Candidates(i int) []int32 { m, row := f.at(i); return f.raise(m, m.Candidates(row)) }
