package schedule

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
)

// Op is the index of an operation in a Timeline.
type Op int32

// None is no operation. Dependents do not wait for it.
const None Op = -1

// Event is an operation with its place in time.
type Event struct {
	Kind  Kind
	Layer int32
	Part  int32 // micro-batch, 0 if the batch is whole
	// cause is the event whose end let this one begin, None at time 0.
	cause      Op
	Start, End float64 // s
	Seconds    float64 // duration without contention
	after      int32   // start of its dependencies in Timeline.after
}

// Timeline places operations on resources. Each begins when its dependencies have ended and its
// resource has finished all operations that were added before it. So the order of Add is the order
// of a resource's queue, and equal input gives equal times.
type Timeline struct {
	Events []Event
	after  []Op               // dependencies of all events, one after the other
	free   [Resources]float64 // end of the resource's last operation
	last   [Resources]Op      // last operation of the resource
	end    float64
	final  Op
	sim    simulation

	entered []entrance // by part
}

// Reset empties a timeline for the next step and keeps its memory.
func (t *Timeline) Reset() {
	*t = Timeline{Events: t.Events[:0], after: t.after[:0], final: None, sim: t.sim, entered: t.entered[:0]}
	for r := range t.last {
		t.last[r] = None
	}
}

// NewTimeline returns an empty timeline.
func NewTimeline() *Timeline {
	t := new(Timeline)
	t.Reset()
	return t
}

// End returns the end of the last operation, in seconds.
func (t *Timeline) End() float64 { return t.end }

// entrance is the operation after which a part's latest layer begins.
type entrance struct {
	layer int
	after Op
}

// enter notes the operations that a layer's projections wait for. Reads ahead wait for the same
// operations.
func (t *Timeline) enter(layer, part int, after []Op) {
	for len(t.entered) <= part {
		t.entered = append(t.entered, entrance{layer: -1})
	}
	t.entered[part] = entrance{layer, t.Add(Join, layer, part, 0, after...)}
}

// begun returns the operation after which a layer of a part, or of the whole batch, begins. If
// neither has begun, it returns otherwise.
func (t *Timeline) begun(layer, part int, otherwise Op) Op {
	for _, p := range []int{part, 0} {
		if p < len(t.entered) && t.entered[p].layer == layer {
			return t.entered[p].after
		}
	}
	return otherwise
}

// Add places an operation of some seconds after others. An operation without duration does not
// occupy its resource. It only passes on its dependencies, and with one dependency Add returns that
// one.
func (t *Timeline) Add(k Kind, layer, part int, seconds float64, after ...Op) Op {
	if k == Project {
		t.enter(layer, part, after)
	}
	if seconds == 0 {
		if op, single := only(after); single {
			return op
		}
	}
	return t.append(k, layer, part, seconds, after)
}

// append places an operation of some seconds after others.
func (t *Timeline) append(k Kind, layer, part int, seconds float64, after []Op) Op {
	op := Op(len(t.Events))
	t.Events = append(t.Events, Event{Kind: k, Layer: int32(layer), Part: int32(part), Seconds: seconds, after: int32(len(t.after))})
	t.after = append(t.after, after...)
	t.place(op, after)
	return op
}

// place sets the times of an event after others.
func (t *Timeline) place(op Op, after []Op) {
	e := &t.Events[op]
	t.begin(e, after)
	e.End = e.Start + e.Seconds
	t.ended(op)
}

// only returns the single operation of a list, or None if there is none. single is false for
// several.
func only(ops []Op) (one Op, single bool) {
	one = None
	for _, op := range ops {
		switch {
		case op == None || op == one:
		case one != None:
			return None, false
		default:
			one = op
		}
	}
	return one, true
}

// begin sets the start of an event after others, and its cause.
func (t *Timeline) begin(e *Event, after []Op) {
	e.Start, e.cause = 0, None
	for _, op := range after {
		if op != None && t.Events[op].End > e.Start {
			e.Start, e.cause = t.Events[op].End, op
		}
	}
	if r := e.Kind.Resource(); e.Seconds > 0 && t.free[r] > e.Start {
		e.Start, e.cause = t.free[r], t.last[r]
	}
}

func (t *Timeline) ended(op Op) {
	e := &t.Events[op]
	if r := e.Kind.Resource(); e.Seconds > 0 {
		t.free[r], t.last[r] = e.End, op
	}
	if e.End > t.end {
		t.end, t.final = e.End, op
	}
}

// Both directions of a link slow each other. Let the link carry D bytes per second in both
// directions together, as measured. A transfer that moves at rate r by itself has the load r/D. If
// the loads of two opposite transfers sum to more than 1, both progress at the inverse of the sum
// (transfer.Link.Both). So two that begin together take
//
//	long + short·max(0, load + load' − 1)

// Contend lets the opposite transfers of a placed step slow each other. It places everything anew,
// in the same order on every resource. Loads are those of the step's transfers. If no overlapping
// transfers load the link by more than 1, nothing changes.
func (t *Timeline) Contend(s *Step) {
	if t.crowded(s) {
		t.sim.run(t, s)
	}
}

// load returns the load of the link by a transfer of the step that moves by itself.
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

// simulation places operations in the order of time. Timeline.Add gets them in program order.
type simulation struct {
	waiting [Resources][]Op // in the order of Add, without operations of no duration
	done    []bool
	active  [Resources]Op
	left    [Resources]float64 // remaining seconds of the active operation, without contention
	slowed  [Resources]bool
}

func (m *simulation) queue(t *Timeline) {
	for r := range m.waiting {
		m.waiting[r] = m.waiting[r][:0]
	}
	for i := range t.Events {
		if e := &t.Events[i]; e.Seconds > 0 {
			r := e.Kind.Resource()
			m.waiting[r] = append(m.waiting[r], Op(i))
		}
	}
}

// crowded reports whether two overlapping opposite transfers load the link by more than 1.
func (t *Timeline) crowded(s *Step) bool {
	in, out := t.next(H2D, 0), t.next(D2H, 0)
	for in < len(t.Events) && out < len(t.Events) {
		a, b := &t.Events[in], &t.Events[out]
		if a.Start < b.End && b.Start < a.End && s.load(a)+s.load(b) > 1 {
			return true
		}
		if a.End < b.End {
			in = t.next(H2D, in+1)
		} else {
			out = t.next(D2H, out+1)
		}
	}
	return false
}

// next returns the index of the first event from i that occupies a resource, or the number of events.
func (t *Timeline) next(r Resource, i int) int {
	for i < len(t.Events) && (t.Events[i].Seconds <= 0 || t.Events[i].Kind.Resource() != r) {
		i++
	}
	return i
}

func (m *simulation) run(t *Timeline, s *Step) {
	m.queue(t)
	m.done = append(m.done[:0], make([]bool, len(t.Events))...)
	t.free, t.end, t.final = [Resources]float64{}, 0, None
	for r := range Resources {
		t.last[r], m.active[r] = None, None
	}
	for now := 0.; m.start(t); {
		now = m.advance(t, s, now)
	}
	for i := range t.Events { // operations without duration that no other waits for
		m.ready(t, Op(i))
	}
}

// start begins all operations that can begin. It returns false if nothing is active.
func (m *simulation) start(t *Timeline) (active bool) {
	for r := range Resources {
		if m.active[r] == None && len(m.waiting[r]) > 0 && m.free(t, m.waiting[r][0]) {
			op := m.waiting[r][0]
			m.waiting[r] = m.waiting[r][1:]
			m.active[r], m.left[r], m.slowed[r] = op, t.Events[op].Seconds, false
			t.begin(&t.Events[op], t.needs(op))
		}
		active = active || m.active[r] != None
	}
	return active
}

func (t *Timeline) needs(op Op) []Op {
	end := len(t.after)
	if int(op)+1 < len(t.Events) {
		end = int(t.Events[op+1].after)
	}
	return t.after[t.Events[op].after:end]
}

// free reports whether all dependencies of an operation have ended.
func (m *simulation) free(t *Timeline, op Op) bool {
	return !slices.ContainsFunc(t.needs(op), func(before Op) bool { return before != None && !m.ready(t, before) })
}

// ready reports whether an operation has ended. One without duration ends with its dependencies.
func (m *simulation) ready(t *Timeline, op Op) bool {
	e := &t.Events[op]
	if m.done[op] || e.Seconds > 0 || !m.free(t, op) {
		return m.done[op]
	}
	t.begin(e, t.needs(op))
	e.End = e.Start
	m.done[op] = true
	t.ended(op)
	return true
}

// advance moves to the next end of an operation.
func (m *simulation) advance(t *Timeline, s *Step, now float64) float64 {
	pace := 1.
	if in, out := m.active[H2D], m.active[D2H]; in != None && out != None {
		pace = 1 / max(1, s.load(&t.Events[in])+s.load(&t.Events[out]))
	}
	paces := [Resources]float64{1, 1, 1, 1, 1, 1}
	paces[H2D], paces[D2H] = pace, pace
	var ends [Resources]float64
	next, first := 0., true
	for r, op := range m.active {
		if op == None {
			continue
		}
		ends[r] = now + m.left[r]/paces[r]
		if !m.slowed[r] && paces[r] == 1 {
			ends[r] = t.Events[op].Start + t.Events[op].Seconds
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

// Stretched returns the end of the step if every operation takes factor times as long, by its kind.
// It places the step in again.
func (t *Timeline) Stretched(again *Timeline, s *Step, factor func(Kind) float64) float64 {
	var factors [kinds]float64
	for k := range kinds {
		factors[k] = factor(k)
	}
	again.Reset()
	again.Events, again.after = append(again.Events, t.Events...), append(again.after, t.after...)
	for i := range again.Events {
		e := &again.Events[i]
		e.Seconds *= factors[e.Kind]
		again.place(Op(i), again.needs(Op(i)))
	}
	again.Contend(s)
	return again.End()
}

// Exposure is a step's time by cause, in seconds. Its sum is the step's time.
type Exposure [Causes]float64

// Sum returns the step's time, in seconds.
func (x *Exposure) Sum() (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

// Transfers returns the time of links and drives, in seconds.
func (x *Exposure) Transfers() float64 { return x[Fetch] + x[WriteBack] + x[Drive] + x[Weights] }

// MarshalJSON writes an object with the seconds of each cause, in the order of the causes.
func (x Exposure) MarshalJSON() ([]byte, error) {
	object := []byte{'{'}
	for c, v := range x {
		seconds, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		object = fmt.Appendf(object, "%q:%s,", Cause(c).Key(), seconds)
	}
	object[len(object)-1] = '}'
	return object, nil
}

// UnmarshalJSON reads the object that MarshalJSON writes.
func (x *Exposure) UnmarshalJSON(object []byte) error {
	seconds := map[string]float64{}
	if err := json.Unmarshal(object, &seconds); err != nil {
		return err
	}
	for c := range x {
		x[c] = seconds[Cause(c).Key()]
	}
	return nil
}

// Exposure divides the time until End by cause. While the SMs work, the cause is that of their
// operation. While they are idle, it is that of the operation on the critical path. So a transfer
// counts only as far as nothing hides it.
func (t *Timeline) Exposure() (x Exposure) {
	on := len(t.Events) - 1 // latest event on the SMs that may overlap the segment
	for op := t.final; op != None; op = t.Events[op].cause {
		e := &t.Events[op]
		if e.Kind.Resource() == SMs {
			x[e.Kind.Cause()] += e.End - e.Start
			continue
		}
		idle := e.End - e.Start
		for ; on >= 0; on-- {
			s := &t.Events[on]
			if s.Kind.Resource() != SMs || s.End == s.Start || s.Start >= e.End {
				continue
			}
			if s.End <= e.Start {
				break
			}
			shared := min(s.End, e.End) - max(s.Start, e.Start)
			x[s.Kind.Cause()] += shared
			idle -= shared
			if s.Start < e.Start {
				break // it also overlaps the previous segment
			}
		}
		x[e.Kind.Cause()] += idle
	}
	return x
}

// chromeEvent is an entry of the Trace Event Format, which Perfetto and chrome://tracing read.
// Times are microseconds, rounded to the picosecond, because processors differ in further digits.
type chromeEvent struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat,omitempty"`
	Phase string         `json:"ph"`
	Start float64        `json:"ts"`
	Dur   float64        `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Args  map[string]any `json:"args,omitempty"`
}

func microseconds(s float64) float64 { return math.Round(s*1e12) / 1e6 }

// WriteChrome writes the events as JSON in the Trace Event Format, with one row per resource.
func (t *Timeline) WriteChrome(w io.Writer, title string) error {
	events := []chromeEvent{{Name: "process_name", Phase: "M", PID: 1, Args: map[string]any{"name": title}}}
	for r := range Resources {
		events = append(events, chromeEvent{Name: "thread_name", Phase: "M", PID: 1, TID: int(r) + 1, Args: map[string]any{"name": r.String()}},
			chromeEvent{Name: "thread_sort_index", Phase: "M", PID: 1, TID: int(r) + 1, Args: map[string]any{"sort_index": int(r)}})
	}
	for i := range t.Events {
		e := &t.Events[i]
		if e.End == e.Start {
			continue
		}
		events = append(events, chromeEvent{Name: e.Kind.String(), Cat: e.Kind.Cause().String(), Phase: "X", Start: microseconds(e.Start), Dur: microseconds(e.End - e.Start),
			PID: 1, TID: int(e.Kind.Resource()) + 1, Args: map[string]any{"layer": e.Layer, "part": e.Part}})
	}
	err := json.NewEncoder(w).Encode(map[string]any{"traceEvents": events, "displayTimeUnit": "ms"})
	if err != nil {
		return fmt.Errorf("write timeline: %w", err)
	}
	return nil
}
