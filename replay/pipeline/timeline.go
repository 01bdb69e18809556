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
}

// Timeline places operations on resources: each begins when what it depends on has ended
// and its resource has done all that was added before it. So the order of Add is the
// order in which a resource's queue is filled, and equal input gives equal times.
type Timeline struct {
	Events []Event
	free   [resources]float64 // when the resource is idle again
	last   [resources]Op      // the operation that makes it so
	end    float64
	final  Op
}

// Reset empties a timeline for the next step; it keeps its memory.
func (t *Timeline) Reset() {
	*t = Timeline{Events: t.Events[:0], final: None}
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
// of its resource, it only passes its dependencies on.
func (t *Timeline) Add(k Kind, layer, part int, seconds float64, after ...Op) Op {
	e := Event{Kind: k, Layer: int32(layer), Part: int32(part), cause: None}
	for _, op := range after {
		if op != None && t.Events[op].End > e.Start {
			e.Start, e.cause = t.Events[op].End, op
		}
	}
	r := k.Resource()
	if seconds > 0 && t.free[r] > e.Start {
		e.Start, e.cause = t.free[r], t.last[r]
	}
	e.End = e.Start + seconds
	op := Op(len(t.Events))
	t.Events = append(t.Events, e)
	if seconds > 0 {
		t.free[r], t.last[r] = e.End, op
	}
	if e.End > t.end {
		t.end, t.final = e.End, op
	}
	return op
}

// Busy is how long a resource works.
func (t *Timeline) Busy(r Resource) (seconds float64) {
	for i := range t.Events {
		if e := &t.Events[i]; e.Kind.Resource() == r {
			seconds += e.End - e.Start
		}
	}
	return seconds
}
