package pipeline

// Both directions of a link disturb each other. Where a link was measured to carry D bytes
// a second both ways, a transfer that moves at rate r alone loads it by r/D; while the
// loads of two opposite transfers sum to more than 1, both progress at the inverse of the
// sum (transfer.Link.Both). So two that begin together take
//
//	long + short·max(0, load + load' − 1)

// Contend lets the opposite transfers of a placed step slow each other: everything is
// placed anew, in the same order on every resource. Loads are those of the step's
// transfers. Where none that overlap load the link by more than 1, nothing changes.
func (t *Timeline) Contend(s *Step) {
	m := &t.sim
	m.queue(t)
	if m.crowded(t, s) {
		m.run(t, s)
	}
}

// load is what a transfer of the step loads the link by while it moves alone.
func (s *Step) load(e *Event) float64 {
	l := &s.Whole[e.Layer]
	if int(e.Part) < len(s.Parts) {
		l = &s.Parts[e.Part][e.Layer]
	}
	switch e.Kind {
	case Store:
		return l.Loads.Store
	case FetchBlocks, FetchAhead:
		return l.Loads.Fetch
	case FetchRead:
		return l.Loads.Hop
	}
	return l.Loads.Layer
}

// simulation places operations in the order of time, where Timeline.Add has their order
// in the program.
type simulation struct {
	waiting [resources][]Op // in the order of Add; those of no duration are not there
	done    []bool
	active  [resources]Op
	left    [resources]float64 // undisturbed seconds of the active operation
	slowed  [resources]bool
}

// queue lists the operations by resource.
func (m *simulation) queue(t *Timeline) {
	for r := range m.waiting {
		m.waiting[r] = m.waiting[r][:0]
	}
	for i := range t.Events {
		if e := &t.Events[i]; e.seconds > 0 {
			r := e.Kind.Resource()
			m.waiting[r] = append(m.waiting[r], Op(i))
		}
	}
}

// crowded says whether two opposite transfers that overlap load the link by more than 1.
func (m *simulation) crowded(t *Timeline, s *Step) bool {
	in, out := m.waiting[H2D], m.waiting[D2H]
	for len(in) > 0 && len(out) > 0 {
		a, b := &t.Events[in[0]], &t.Events[out[0]]
		if a.Start < b.End && b.Start < a.End && s.load(a)+s.load(b) > 1 {
			return true
		}
		if a.End < b.End {
			in = in[1:]
		} else {
			out = out[1:]
		}
	}
	return false
}

// run places everything anew.
func (m *simulation) run(t *Timeline, s *Step) {
	m.done = append(m.done[:0], make([]bool, len(t.Events))...)
	t.free, t.end, t.final = [resources]float64{}, 0, None
	for r := range resources {
		t.last[r], m.active[r] = None, None
	}
	for now := 0.; m.start(t); {
		now = m.advance(t, s, now)
	}
	for i := range t.Events { // of no duration, and waited for by none
		m.ready(t, Op(i))
	}
}

// start begins what can begin; false where nothing is active.
func (m *simulation) start(t *Timeline) (active bool) {
	for r := range resources {
		if m.active[r] == None && len(m.waiting[r]) > 0 && m.free(t, m.waiting[r][0]) {
			op := m.waiting[r][0]
			m.waiting[r] = m.waiting[r][1:]
			m.active[r], m.left[r], m.slowed[r] = op, t.Events[op].seconds, false
			t.begin(&t.Events[op], t.needs(op))
		}
		active = active || m.active[r] != None
	}
	return active
}

// needs are the operations that one depends on.
func (t *Timeline) needs(op Op) []Op {
	end := len(t.after)
	if int(op)+1 < len(t.Events) {
		end = int(t.Events[op+1].after)
	}
	return t.after[t.Events[op].after:end]
}

// free says whether all that an operation depends on has ended.
func (m *simulation) free(t *Timeline, op Op) bool {
	for _, before := range t.needs(op) {
		if before != None && !m.ready(t, before) {
			return false
		}
	}
	return true
}

// ready says whether an operation has ended. One of no duration ends when what it depends
// on has.
func (m *simulation) ready(t *Timeline, op Op) bool {
	e := &t.Events[op]
	if m.done[op] || e.seconds > 0 || !m.free(t, op) {
		return m.done[op]
	}
	t.begin(e, t.needs(op))
	e.End = e.Start
	m.done[op] = true
	t.ended(op)
	return true
}

// advance goes on to the next end of an operation.
func (m *simulation) advance(t *Timeline, s *Step, now float64) float64 {
	pace := 1.
	if in, out := m.active[H2D], m.active[D2H]; in != None && out != None {
		pace = 1 / max(1, s.load(&t.Events[in])+s.load(&t.Events[out]))
	}
	paces := [resources]float64{1, 1, 1, 1, 1}
	paces[H2D], paces[D2H] = pace, pace
	var ends [resources]float64
	next, first := 0., true
	for r, op := range m.active {
		if op == None {
			continue
		}
		ends[r] = now + m.left[r]/paces[r]
		if !m.slowed[r] && paces[r] == 1 {
			ends[r] = t.Events[op].Start + t.Events[op].seconds
		}
		if first || ends[r] < next {
			next, first = ends[r], false
		}
	}
	for r, op := range m.active {
		switch {
		case op == None:
		case ends[r] == next:
			t.Events[op].End = next
			m.done[op], m.active[r] = true, None
			t.ended(op)
		default:
			m.left[r] -= (next - now) * paces[r]
			m.slowed[r] = m.slowed[r] || paces[r] < 1
		}
	}
	return next
}
