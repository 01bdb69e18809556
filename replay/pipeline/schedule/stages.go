package schedule

// Pipeline parallelism divides the layers among GPUs of a host (GPipe, Huang et al. 2019). Each GPU
// has consecutive layers, a stage, with their KV. The batch is divided into as many micro-batches, one
// in each stage at a time. A stage sends the hidden states of a micro-batch to the next one.

// Stages is dense decoding in stages. Micro-batches take turns in every stage, and each begins its
// next step when it has passed all stages. Let t_ps be the time of micro-batch p in stage s, and
// send_p its time between stages. In the steady state, a step takes
//
//	max(max_p(Σ_s t_ps + stages·send_p), max_s Σ_p t_ps)
//
// The last send returns the token to the first stage. Sends take no time of the SMs. The timeline
// shows the way of the longest micro-batch, with its wait for the slowest stage at the end.
type Stages struct {
	OnGPU
	GPUs int
}

// Parts returns the number of micro-batches.
func (g *Stages) Parts() int { return g.GPUs }

// Place adds the way of the longest micro-batch through all stages.
func (g *Stages) Place(t *Timeline, s *Step) {
	longest, period := 0, 0.
	for p := range s.Parts {
		if g.passes(s, p) > g.passes(s, longest) {
			longest = p
		}
	}
	for stage := range g.GPUs {
		period = max(period, g.works(s, stage))
	}
	last := None
	for stage := range g.GPUs {
		from, to := g.layers(s, stage)
		for i := from; i < to; i++ {
			last = t.attendDensely(&s.Parts[longest][i], i, last, None)
		}
		if stage == g.GPUs-1 {
			last = t.Add(Output, len(s.Whole), 0, s.Outputs[longest], last)
		}
		last = t.Add(SendStates, to-1, longest, s.Sends[longest], last)
	}
	t.Add(WaitStage, len(s.Whole)-1, longest, max(0, period-g.passes(s, longest)), last)
}

// layers returns the first layer of a stage and the one after its last.
func (g *Stages) layers(s *Step, stage int) (from, to int) {
	n := len(s.Whole)
	return stage * n / g.GPUs, (stage + 1) * n / g.GPUs
}

// passes returns the time of a micro-batch through all stages.
func (g *Stages) passes(s *Step, p int) (seconds float64) {
	for stage := range g.GPUs {
		seconds += g.takes(s, p, stage)
	}
	return seconds + float64(g.GPUs)*s.Sends[p]
}

// works returns the time of a stage for all micro-batches.
func (g *Stages) works(s *Step, stage int) (seconds float64) {
	for p := range s.Parts {
		seconds += g.takes(s, p, stage)
	}
	return seconds
}

// takes returns the time of a micro-batch in a stage.
func (g *Stages) takes(s *Step, p, stage int) (seconds float64) {
	from, to := g.layers(s, stage)
	for i := from; i < to; i++ {
		l := &s.Parts[p][i]
		seconds += l.Project + l.Pre + l.Dense.Attend + l.Finishing()
	}
	if stage == g.GPUs-1 {
		seconds += s.Outputs[p]
	}
	return seconds
}
