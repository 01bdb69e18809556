package synthetic

// enterFresh begins the first run of n blocks. They were last demanded before the process
// began, if ever, so their gaps exceed the clock, and that tells of their heat.
func (p *process) enterFresh(t int, clock float64, newest int32, n int) {
	past := int32(min(p.laws.gaps.below(clock), quantiles-1))
	for range n {
		x := p.fresh(newest)
		if b := &p.blocks[x]; !b.seen {
			own := past + p.random.below(quantiles-past)
			b.heat = uint16(quantile(uint32(p.random.Uint64()), p.heat, own, 0, 0))
		}
		p.enter(t, x)
	}
}

// tries is how often a block that was never seen is looked for before one that was is
// taken: contexts are finite. Of as many of those, the one comes that is due first.
const tries = 8

// fresh picks a block below newest that is not demanded, and takes it out of its queue:
// one behind a demanded block with the chance Neighbours, if there is one, else any.
func (p *process) fresh(newest int32) int32 {
	if bits := p.random.Uint64(); float64(bits>>40)/(1<<24) < p.dials.Neighbours {
		if x := p.behind(newest); x >= 0 {
			return x
		}
	}
	x := int32(-1)
	for range tries {
		x = p.random.below(newest)
		if b := &p.blocks[x]; b.state == free && !b.seen {
			return x
		}
	}
	return p.early(x, newest)
}

// early picks a block that is away, one that would come back soon, and takes it out of its
// queue.
func (p *process) early(x, newest int32) int32 {
	x = p.nextAway(x, newest)
	if b := &p.blocks[x]; p.isWaiting(b.state) {
		p.back.remove(x, int(waiting-b.state))
	}
	return x
}

// isWaiting reports whether a block in that state is in the queue of those to come back.
func (p *process) isWaiting(state int32) bool {
	return state <= waiting && int(waiting-state) < len(p.back.end)
}

// behind looks for a block never seen that follows demanded ones, the last of which or
// one before it entered at this step; -1 if tries fail.
func (p *process) behind(newest int32) int32 {
	entered := p.runs[p.first[len(p.first)-1]:]
	if len(entered) == 0 {
		return -1
	}
	for range tries {
		x := entered[p.random.below(int32(len(entered)))].block() + 1
		for x < newest && p.blocks[x].state == demanded {
			x++
		}
		if x < newest && p.blocks[x].state == free && !p.blocks[x].seen {
			return x
		}
	}
	return -1
}

// nextAway is the first block from x on, around the end, that is not demanded and not
// about to come back at this step.
func (p *process) nextAway(x, newest int32) int32 {
	for s := p.blocks[x].state; s == demanded || s <= waiting && int(waiting-s) < p.back.at; s = p.blocks[x].state {
		if x++; x == newest {
			x = 0
		}
	}
	return x
}

// begin draws the demand of step 0: hot blocks, the last tokens, others in the middle
// of their run.
func (p *process) begin() {
	newest := int32(p.tokens - 1)
	if p.born() > 0 {
		p.enterNewest(0, newest)
	}
	hot := min(p.topK-1, int(p.dials.Hot*float64(p.topK)+0.5)) // one may leave at least
	for i := 0; i < hot && len(p.runs) < p.topK; i++ {
		x := int32(i)
		if i >= sinks || p.blocks[x].state != free {
			x = p.fresh(newest)
		}
		p.demand(0, x)
	}
	p.beginRecent(newest)
	for len(p.runs) < p.topK {
		i := p.laws.runLengths[p.random.Uint64()%quantiles]
		x := p.fresh(newest)
		p.blocks[x].heat = uint16(quantile(uint32(p.random.Uint64()), p.heat, quantiles-1-int32(i), 0, 0))
		p.begun(0, x, int32(p.laws.runs.at(i)*p.rand.Float64()*ticks))
	}
}

// beginRecent demands the tokens before the newest as if each had been generated: the
// part of its run that is left.
func (p *process) beginRecent(newest int32) {
	for age := int32(1); age <= newest && len(p.runs) < p.topK; age++ {
		past := p.laws.recent.below(float64(age))
		if past == quantiles {
			return
		}
		i := p.rand.IntN(quantiles)
		b := &p.blocks[newest-age]
		if i < past || b.state != free || p.born() == 0 {
			continue
		}
		b.heat = uint16(p.random.Uint64() % quantiles)
		p.begun(0, newest-age, max(0, p.laws.recent.ticks[i]-age*ticks))
	}
}
