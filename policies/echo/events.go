package echo

// event is a credit of a step: a block and 1 to 8. Members of D_t are no events.
type event uint32

func newEvent(block int32, credit int) event { return event(block)<<4 | event(credit) }

func (e event) block() int32 { return int32(e >> 4) }

func (e event) credit() int { return int(e & 15) }

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

// otherSum is a block's sums over the events. Its offset is that of an event without its credit.
type otherSum struct{ key, sharp, slow, _ uint32 }

// add adds the events of step t, and of the known steps before it, to the sums of blocks.
func (e *events) add(to []otherSum, t, known int, w *weights) {
	var of [16]otherSum // by credit
	for l := 0; l <= known; l++ {
		for v := range uint32(unit + 1) {
			of[v] = otherSum{key: v * w.key[l], sharp: v * w.sharp[l], slow: v * slow[l]}
		}
		addEvents(to, &of, e.steps[(t-l)%(lags+1)])
	}
}

// addPlain adds the sums of their credit to the sums of the blocks of a list.
func addPlain(to []otherSum, of *[16]otherSum, list []event) {
	for _, x := range list {
		o, s := &to[x>>4], &of[x&15]
		o.key += s.key
		o.sharp += s.sharp
		o.slow += s.slow
	}
}
