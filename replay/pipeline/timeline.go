package pipeline

// Op names an operation of a Timeline.
type Op int32

// None is no operation: what depends on it does not wait.
const None Op = -1

// Event is an operation with its place in time.
type Event struct {
	Kind  Kind
	Layer int32
	Part  int32 // micro-batch, 0 where the batch is whole
	// cause is the event whose end made this one begin, None at time 0.
	cause      Op
	Start, End float64 // s
	seconds    float64 // undisturbed
	after      int32   // where what it depends on begins in Timeline.after
}

// Timeline places operations on resources: each begins when what it depends on has ended
// and its resource has done all that was added before it. So the order of Add is the
// order in which a resource's queue is filled, and equal input gives equal times.
type Timeline struct {
	Events []Event
	after  []Op               // what the events depend on, one after the other
	free   [resources]float64 // when the resource is idle again
	last   [resources]Op      // the operation that makes it so
	end    float64
	final  Op
	sim    simulation

	entered []entrance // by part
}

// Reset empties a timeline for the next step; it keeps its memory.
func (t *Timeline) Reset() {
	*t = Timeline{Events: t.Events[:0], after: t.after[:0], final: None, sim: t.sim, entered: t.entered[:0]}
	for r := range t.last {
		t.last[r] = None
	}
}

// NewTimeline is an empty one.
func NewTimeline() *Timeline {
	t := new(Timeline)
	t.Reset()
	return t
}

// End is when the last operation ends.
func (t *Timeline) End() float64 { return t.end }

// Add places an operation of some seconds after others. One of no duration takes no turn
// of its resource, it only passes its dependencies on: where it has but one, that is it.
func (t *Timeline) Add(k Kind, layer, part int, seconds float64, after ...Op) Op {
	if k == Project {
		t.enter(layer, part, after)
	}
	if seconds == 0 {
		if op, single := only(after); single {
			return op
		}
	}
	op := Op(len(t.Events))
	t.Events = append(t.Events, Event{Kind: k, Layer: int32(layer), Part: int32(part), seconds: seconds, after: int32(len(t.after))})
	t.after = append(t.after, after...)
	e := &t.Events[op]
	t.begin(e, after)
	e.End = e.Start + seconds
	t.ended(op)
	return op
}

// only is the one operation of some, None where there is none; false for several.
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

// begin sets when an event begins after others, and why.
func (t *Timeline) begin(e *Event, after []Op) {
	e.Start, e.cause = 0, None
	for _, op := range after {
		if op != None && t.Events[op].End > e.Start {
			e.Start, e.cause = t.Events[op].End, op
		}
	}
	if r := e.Kind.Resource(); e.seconds > 0 && t.free[r] > e.Start {
		e.Start, e.cause = t.free[r], t.last[r]
	}
}

// ended takes note of an event's end.
func (t *Timeline) ended(op Op) {
	e := &t.Events[op]
	if r := e.Kind.Resource(); e.seconds > 0 {
		t.free[r], t.last[r] = e.End, op
	}
	if e.End > t.end {
		t.end, t.final = e.End, op
	}
}
