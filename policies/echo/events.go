package echo

// credits are the blocks to which a step gives 1 to 8 of credit, the least credit first. Those of past
// steps leave out the members of D_t, which the tables add.
type credits struct {
	blocks []int32
	ends   [unit + 1]int32 // number of blocks with at most this credit
}

// events are the credits of the last steps, by step modulo their number.
type events struct{ steps [lags + 1]credits }

func (e *events) reset() {
	for i := range e.steps {
		e.steps[i].blocks = e.steps[i].blocks[:0]
		e.steps[i].ends = [unit + 1]int32{}
	}
}

// at returns the credits of step t.
func (e *events) at(t int) *credits { return &e.steps[t%(lags+1)] }

// otherSum is a block's sums over the events. Its offset is that of a block, times 16.
type otherSum struct{ key, sharp, slow, _ uint32 }

// add adds the demand and the credits of step t, and the credits of the known steps before it, to the
// sums of blocks.
func (e *events) add(to []otherSum, demand []int32, t, known int, w *weights) {
	members := credits{blocks: demand}
	members.ends[unit] = int32(len(demand))
	addCredits(to, &members, &otherSum{key: w.key[0], sharp: w.sharp[0], slow: slow[0]})
	for l := 0; l <= known; l++ {
		addCredits(to, e.at(t-l), &otherSum{key: w.key[l], sharp: w.sharp[l], slow: slow[l]})
	}
}

// addPlain adds the credits, times the weights, to the sums of the blocks.
func addPlain(to []otherSum, c *credits, weights *otherSum) {
	from := int32(0)
	for credit, end := range c.ends {
		v := uint32(credit)
		for _, x := range c.blocks[from:end] {
			o := &to[x]
			o.key += v * weights.key
			o.sharp += v * weights.sharp
			o.slow += v * weights.slow
		}
		from = end
	}
}
