package demand

import "github.com/kvreplay/kvreplay/policies"

// Followed is the View of a pool by the changes of each stream. A block that its stream's next row
// demands again stays demanded until then. Row i enters the blocks that its stream did not demand
// before. It exits those of row i-1 that its stream does not demand next. Members and Change.Demand are
// those of the row's own stream.
//
// A cache of this view evicts no block that stays demanded. It has the misses of the Pool only if the
// policy does not evict one there either. Pool.Latest is the capacity from which a policies.Follower
// does not.
type Followed struct {
	*Pool
	next bool // changes have next uses
}

// Followed returns the view of p by the changes of each stream, for a policy with these needs. It needs
// Options.Followed. ok is false if p was built without it.
func (p *Pool) Followed(needs policies.Needs) (f Followed, ok bool) {
	return Followed{p, needs&policies.NeedNext != 0}, p.changes
}

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

// Foresee computes the next uses of the changes, if the policy needs them.
func (f Followed) Foresee() {
	if f.next && !f.followed.known {
		f.followed.fill(f)
	}
}

// Change implements View. If changes have next uses, no block stays demanded for a window, because such a
// use counts as none. The blocks of a last row then exit too.
func (f Followed) Change(i int, c *Change) {
	m, row := f.at(i)
	m.Change(row, c)
	if f.next && i < f.Windows {
		c.Enter = m.edge(row)
		if f.HasPicked {
			c.EnterPicked = m.pickedIn(row)
		}
	}
	if c.Exit = f.leaving(i - 1); f.next {
		f.followed.add(i, c)
	}
}

// leaving returns the blocks of row i that do not stay demanded, none if i is negative.
func (f Followed) leaving(i int) []int32 {
	if i < 0 {
		return nil
	}
	m, row := f.at(i)
	switch again := i + f.Streams; {
	case f.next && (again < f.Windows || again >= f.Rows):
		return m.edge(row)
	case again >= f.Rows:
		return nil
	}
	return m.exit.Row(row + 1)
}

// Tracked is the View of a pool by the changes of each stream, at any capacity. Row i enters the
// blocks that its stream did not demand before, and exits those that its stream demands no more. Members
// and Change.Demand are those of the row's own stream.
//
// Unlike that of Followed, its cache may evict a block that stays demanded. The block is then a miss of
// the next row of its stream, although it does not enter the demand there. It needs Options.Followed.
type Tracked struct{ *Pool }

// Change implements View.
func (t Tracked) Change(i int, c *Change) {
	m, row := t.at(i)
	m.Change(row, c)
}

// Candidates returns the candidates of row i's own list.
func (f Followed) Candidates(i int) []int32 { m, row := f.at(i); return f.raise(m, m.Candidates(row)) }
