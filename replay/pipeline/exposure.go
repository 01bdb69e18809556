package pipeline

// Exposure is a step's time by cause; its sum is the step's time.
type Exposure [Causes]float64

// Sum is the step's time.
func (x *Exposure) Sum() (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

// Exposure divides the time until End by cause. While the SMs work, the cause is that of
// their operation. While they are idle, it is that of the operation on the critical path:
// what the step is waiting for. So a transfer counts only as far as nothing hides it.
func (t *Timeline) Exposure() (x Exposure) {
	on := len(t.Events) - 1 // latest event on the SMs that may lie before the segment's end
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
				break // it also lies in the segment before
			}
		}
		x[e.Kind.Cause()] += idle
	}
	return x
}
