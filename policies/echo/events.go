package echo

// event is a credit of a step: a block and 1 to 8. Members of D_t are no events.
type event uint32

func newEvent(block int32, credit int) event { return event(block)<<4 | event(credit) }

func (e event) block() int32 { return int32(e >> 4) }

// events are the credits of the last steps, by step modulo their number.
type events struct{ steps [lags + 1][]event }

func (e *events) reset() {
	for i := range e.steps {
		e.steps[i] = e.steps[i][:0]
	}
}

// begin returns the empty list of step t, which end takes back.
func (e *events) begin(t int) []event { return e.steps[t%(lags+1)][:0] }

func (e *events) end(t int, list []event) { e.steps[t%(lags+1)] = list }

// otherSum is a block's sums over the events. The key is in the lower half of the first number.
type otherSum struct {
	keySharp uint64
	slow     uint32
}

// add adds the events of step t, and of the known steps before it, to the sums of blocks.
func (e *events) add(to []otherSum, t, known int, w *weights) {
	for l := 0; l <= known; l++ {
		var of [unit + 1]otherSum // by credit
		for v := range of {
			of[v] = otherSum{uint64(v) * (uint64(w.key[l]) | uint64(w.sharp[l])<<32), uint32(v) * slow[l]}
		}
		for _, x := range e.steps[(t-l)%(lags+1)] {
			o, s := &to[x>>4], &of[min(x&15, unit)]
			o.keySharp += s.keySharp
			o.slow += s.slow
		}
	}
}
