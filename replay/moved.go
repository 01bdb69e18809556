package replay

// moved is what a step of a cell carries over the link, in entries: one token of one head.
type moved struct {
	picked  int64 // demanded, where blocks hold several entries
	missed  int64 // of them absent
	fetched int64 // moved: whole blocks, but for what an Admitter keeps out
	staged  int64 // demanded and not kept: staging memory
}

// moved counts row i after the policy has said what is kept.
func (c *cell) moved(d *Delta, i int) (m moved) {
	if c.bypasser != nil || c.step.Demand > c.capacity {
		m.staged = int64(len(c.pass)) * c.unit
	}
	m.fetched = int64(len(c.miss)) * c.unit
	if !d.weighed() {
		return m
	}
	members, picked := d.Members.Row(i), d.picked(i)
	at := 0
	for j, x := range members {
		m.picked += int64(picked[j])
		if at == len(c.miss) || c.miss[at] != x {
			continue
		}
		at++
		m.missed += int64(picked[j])
		if c.admits && c.state[x] != demanded {
			spared := c.unit - int64(picked[j])
			m.fetched -= spared
			m.staged -= spared
		}
	}
	return m
}
