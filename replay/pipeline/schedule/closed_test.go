package schedule

// Closed is a schedule with a closed form of its step time. A test compares it with the timeline.
type Closed interface {
	Schedule
	// Closed returns the step's time in seconds if only the stages of the formula take time.
	// Write-back hides, except for the SMs that its kernel takes. Copy engines fetch.
	Closed(s *Step) float64
}

// sum returns a closed form that adds up the layers of the whole batch.
func (s *Step) sum(layer func(*Layer) float64) float64 {
	sum := s.Output
	for i := range s.Whole {
		sum += layer(&s.Whole[i])
	}
	return sum
}

// Closed returns the sum of all stages.
func (q *Sequential) Closed(s *Step) float64 {
	return s.sum(func(l *Layer) float64 {
		sum := l.Project + l.Select + l.fetching(1) + l.computing()
		if q.CPU {
			return sum + l.LookupCPU + l.Update
		}
		return sum + l.LookupGPU
	})
}

// Closed returns the sum of all operators.
func (g OnGPU) Closed(s *Step) float64 {
	return s.Embed + s.Gather + s.sum(func(l *Layer) float64 {
		if g.Dense {
			return l.Project + l.Pre + l.Dense.Attend + l.Finishing() + 2*l.Reduce
		}
		return l.Project + l.Select + l.Pre + l.Attend + l.Finishing() + 2*l.Reduce
	})
}

// Closed returns the sum of all operators.
func (Kept) Closed(s *Step) float64 { return OnGPU{}.Closed(s) }

// Closed returns the sum of the steady state. The first layer's projections, selection and fetch
// come before it. The last layer's computation comes after it, and its projections run while its
// fetch ends. The formula holds if the prediction is right.
func (p *Prefetch) Closed(s *Step) float64 {
	sum, waits := s.Output, 0. // waits is the rest of a fetch when a layer begins
	for i := range s.Whole {
		l := &s.Whole[i]
		early, rest := l.pre(), l.Attend+l.Finishing()
		if i > 0 {
			early += l.Project
		} else {
			sum += l.Project + l.Select + l.LookupGPU
			waits = l.fetching(1)
		}
		if i+1 == len(s.Whole) {
			sum += max(waits, early) + rest
			continue
		}
		next := &s.Whole[i+1]
		sum += waits + next.Select + next.LookupGPU + early + rest
		waits = max(0, next.fetching(1)-early-rest)
	}
	return sum
}

// Closed returns the computation plus the exposed part of the fetch. Whole attention hides none of it.
func (d DA) Closed(s *Step) float64 {
	return s.sum(func(l *Layer) float64 {
		if d.Whole {
			return l.hidden() + max(l.gathering(1), l.fetching(1)-l.pre())
		}
		return l.hidden() + ExposedDA(l)
	})
}

// Closed returns the computation plus the overhead and the exposed part of the fetch.
func (d *DBA) Closed(s *Step) float64 {
	return s.sum(func(l *Layer) float64 { return l.hidden() + d.Exposed(l) })
}

// Exposed returns the seconds of a layer's fetch that DBA does not hide, and its overhead:
//
//	delta + max(0, F − W_pre − W_attn·(1 − missed) − phi·W_select)
//
// W_select includes the lookup, which ESS does not state separately. The gather kernel counts as in
// ExposedDA.
func (d *DBA) Exposed(l *Layer) float64 {
	return d.Delta + max(l.gathering(1), l.fetching(1)-l.pre()-l.Attend*(1-l.Missed)-d.Phi*(l.Select+l.LookupGPU))
}

// Closed adds the smaller exposure of every layer.
func (w *Layerwise) Closed(s *Step) float64 {
	return s.sum(func(l *Layer) float64 { return l.hidden() + min(ExposedDA(l), w.exposedApart(l)) })
}

// hidden returns the time of a layer whose fetch is hidden.
func (l *Layer) hidden() float64 { return l.Project + l.Select + l.LookupGPU + l.computing() }

// computing returns the time of all operators after the selection.
func (l *Layer) computing() float64 { return l.pre() + l.Attend + l.Finishing() }

// Closed returns the recurrence above, layer after layer.
func (c *SFC) Closed(s *Step) float64 {
	sum, parts := s.Output, s.parts()
	for i := range s.Whole {
		var a, b, d float64
		for p := range parts {
			m := &parts[p][i]
			a += m.Select
			b = max(a, b) + m.LookupCPU
			d = max(b, d) + m.fetching(1)
		}
		l := &s.Whole[i]
		sum += l.Project + d + max(l.computing(), l.Update)
	}
	return sum
}

// Closed returns the sum of the stages above for a whole batch. With a cache on the GPU, its
// attention runs next to the CPU's. The form then holds if fetches are short. Weights add the load of
// the first layer. The outputs of the CPU also wait for those of the next layer.
func (h *Host) Closed(s *Step) (seconds float64) {
	if h.Weights {
		seconds = s.Whole[0].Dense.Weights
	}
	for i := range s.Whole {
		l := &s.Whole[i]
		before, gpu, host := l.Project+l.Pre, l.Scatter*l.Store, l.Host.Send+l.Host.Attend
		switch h.Attends {
		case AttendsDemand:
			before += l.Select
		case AttendsMissed:
			before += l.Select + l.LookupGPU
			gpu += l.Attend * (1 - l.Missed)
		}
		if h.Weights && i+1 < len(s.Whole) {
			host = max(host, s.Whole[i+1].Dense.Weights-before)
		}
		seconds += before + max(gpu, host+l.Host.Return) + l.Finishing()
	}
	return seconds + s.Output
}

// Closed returns, row by row, the sum of the layers' forms, each by itself. Column by column it
// returns the link's time plus the time of the last layer of the last batch after its transfers.
// The latter holds if the link never waits for computation.
func (k *KVPR) Closed(s *Step) float64 {
	sum, parts, split := s.Output, s.parts(), k.split(s)
	for i := range s.Whole {
		for p := range parts {
			l := &parts[p][i]
			n := k.recomputed(&l.Dense, split)
			if !k.Column || i == len(s.Whole)-1 && p == len(parts)-1 {
				sum += k.alone(l, n, p == 0)
			} else {
				sum += k.link(l, n, p == 0)
			}
		}
	}
	return sum
}

// link returns the time of the transfers of a part that recomputes n positions. The first part also
// moves the layer's weights.
func (k *KVPR) link(l *Layer, n int, first bool) float64 {
	sum := float64(n)*l.Dense.Activations + l.Dense.rest(n)
	if first && k.Weights {
		sum += l.Dense.Weights
	}
	return sum
}

// alone returns the time of a part that recomputes n positions, on idle resources.
func (k *KVPR) alone(l *Layer, n int, first bool) float64 {
	d := &l.Dense
	x, rest, recomputed := float64(n)*d.Activations, d.rest(n), float64(n)*d.Recompute
	dequantize, project := float64(d.Positions-n)*d.Dequantize, l.Project+d.Quantize+l.pre()
	loaded := k.link(l, n, first)
	if !first || k.Load == WeightsFirst {
		return loaded - rest + max(recomputed+project, rest) + dequantize + d.Attend + l.Finishing()
	}
	attention := x + rest + d.Weights*d.AttentionShare // attention also waits for its weights
	recompute := attention
	if k.Load == WeightsFine {
		recompute = x + rest + d.Weights*d.KeyValueShare
	}
	recomputed += max(x+rest+dequantize, recompute)
	return max(max(recomputed, attention)+project+d.Attend, loaded) + l.Finishing()
}

// Closed returns the formula above.
func (g *Stages) Closed(s *Step) (seconds float64) {
	for p := range s.Parts {
		seconds = max(seconds, g.passes(s, p))
	}
	for stage := range g.GPUs {
		seconds = max(seconds, g.works(s, stage))
	}
	return seconds
}
