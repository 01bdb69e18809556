package synthetic

// enterFresh begins the first run of a block. It was last demanded before the process
// began, if ever, so its gap exceeds the clock, and that tells of its heat.
func (p *process) enterFresh(t int, clock float64, newest int32) {
	x := p.fresh(newest)
	if b := &p.blocks[x]; !b.seen {
		past := min(p.laws.gaps.below(clock), quantiles-1)
		own := uint16(past + p.rand.IntN(quantiles-past))
		b.heat = p.quantile(uint32(p.random.Uint64()), own, 0, 0)
	}
	p.enter(t, x)
}

// tries is how often a block that was never seen is looked for before one that was is
// taken: contexts are finite.
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
		if b := &p.blocks[x]; b.run == free && !b.seen {
			return x
		}
	}
	x = p.nextFree(x, newest)
	if p.blocks[x].bucket != unqueued {
		p.back.remove(x)
	}
	return x
}

// behind looks for a block never seen that follows demanded ones, the last of which or
// one before it entered at this step; -1 if tries fail.
func (p *process) behind(newest int32) int32 {
	entered := p.runs[p.first[len(p.first)-1]:]
	for range tries {
		x := entered[p.random.below(int32(len(entered)))].block + 1
		for x < newest && p.blocks[x].run >= 0 {
			x++
		}
		if x < newest && p.blocks[x].run == free && !p.blocks[x].seen {
			return x
		}
	}
	return -1
}

// nextFree is the first block from x on, around the end, that may enter.
func (p *process) nextFree(x, newest int32) int32 {
	for p.blocks[x].run != free {
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
	p.enterNewest(0, newest)
	hot := int(p.dials.Hot*float64(p.topK) + 0.5)
	for i := 0; i < hot && len(p.runs) < p.topK; i++ {
		x := int32(i)
		if i >= sinks || p.blocks[x].run != free {
			x = p.fresh(newest)
		}
		p.demand(0, x)
	}
	p.beginRecent(newest)
	for len(p.runs) < p.topK {
		i := p.laws.runLengths[p.random.Uint64()%quantiles]
		x := p.fresh(newest)
		p.blocks[x].heat = p.quantile(uint32(p.random.Uint64()), quantiles-1-i, 0, 0)
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
		if i < past || b.run != free {
			continue
		}
		b.heat = uint16(p.random.Uint64() % quantiles)
		p.begun(0, newest-age, max(0, p.laws.recent.ticks[i]-age*ticks))
	}
}
