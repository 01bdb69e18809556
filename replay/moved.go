package replay

// moved is what a step of a cell carries over the link, in entries: one token of one head.
type moved struct {
	picked  int64 // demanded, where blocks hold several entries
	missed  int64 // of them absent
	fetched int64 // moved: whole blocks; of an Admitter the demanded entries, and whole blocks where it keeps them
	ahead   int64 // moved by the prefetcher
	staged  int64 // demanded and not kept: staging memory; of an Admitter all that it fetches entry by entry
}

// moved counts row i after the policy has said what is kept.
func (c *cell) moved(d *Delta, i int) (m moved) {
	m.staged = int64(c.weigh(c.pass[:c.leftOut])) * c.unit
	if c.staging.source != PrefetchNothing {
		m.ahead = c.staging.counts.moved * c.unit
	}
	m.fetched = int64(c.weigh(c.fetched)) * c.unit
	if !d.weighed() {
		return m
	}
	if c.admits {
		m.fetched, m.staged = 0, 0
	}
	members, picked := d.Members.Row(i), d.picked(i)
	for _, n := range picked {
		m.picked += int64(n)
	}
	at := 0
	for _, x := range c.fetched {
		for members[at] != x { // both ascend, and what is fetched is demanded
			at++
		}
		n := int64(picked[at])
		m.missed += n
		if !c.admits {
			continue
		}
		m.fetched += n
		m.staged += n
		if c.state[x] == demanded {
			m.fetched += c.unit
		}
	}
	return m
}
