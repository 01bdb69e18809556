package demand

import "github.com/kvreplay/kvreplay/policies"

// Followed is the View of a pool by the changes of each stream. Row i has the changes from row
// i - Streams, the row before of the same stream. The latest demand of every stream stays demanded
// until its stream's next row. Members and Change.Demand are those of the row's own stream.
//
// A cache of this view evicts no block of a latest demand. It has the misses of the Pool only if the
// policy does not evict one there either. Pool.Latest is the capacity from which a policies.Follower
// does not.
type Followed struct{ *Pool }

// Followed returns the view of p by the changes of each stream. It needs Options.Followed. ok is
// false if p was built without it.
func (p *Pool) Followed() (f Followed, ok bool) { return Followed{p}, p.changes }

// Latest returns the capacity in blocks from which a policies.Follower with these needs can follow the
// streams: a bound on the blocks in the latest demands and births of all. With NeedCandidates it counts
// whole lists instead of demands. A cache that holds as many has an older block for every victim.
//
// With NeedNext it counts no births. A block that is not in the current demand, nor in the next of
// another stream, has a farther next use.
func (p *Pool) Latest(needs policies.Needs) (most int) {
	for _, d := range p.streams {
		if needs&policies.NeedNext != 0 {
			most += d.MaxDemand
			continue
		}
		demand, births := d.MaxDemand, 0
		for i := range d.Rows {
			births = max(births, len(d.born.Row(i)))
			if needs&policies.NeedCandidates != 0 {
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

// Foreseen is the View of a pool for a policies.Follower that has NeedNext. A demanded block stays
// demanded if the next row of its stream demands it again and is counted. Row i therefore enters
// the blocks that its stream did not demand before, and exits those of row i-1 that do not stay. All
// have next uses.
type Foreseen struct{ *Pool }

// Foreseen returns the view of p by the changes that a policy with next uses follows. It needs
// Options.Followed. ok is false if p was built without it.
func (p *Pool) Foreseen() (f Foreseen, ok bool) { return Foreseen{p}, p.changes }

// Foresee computes the next uses of the changes.
func (f Foreseen) Foresee() {
	if !f.foreseen.known {
		f.foreseen.fill(f)
	}
}

// Change implements View.
func (f Foreseen) Change(i int, c *Change) {
	m, row := f.at(i)
	m.Change(row, c)
	if i < f.Windows {
		c.Enter = m.edge(row)
		if f.HasPicked {
			c.EnterPicked = m.pickedIn(row)
		}
	}
	c.Exit = f.leaving(i - 1)
	f.foreseen.add(i, c)
}

// leaving returns the blocks of row i that do not stay demanded, none if i is negative.
func (f Foreseen) leaving(i int) []int32 {
	if i < 0 {
		return nil
	}
	m, row := f.at(i)
	if again := i + f.Streams; again < f.Windows || again >= f.Rows {
		return m.edge(row)
	}
	return m.exit.Row(row + 1)
}
