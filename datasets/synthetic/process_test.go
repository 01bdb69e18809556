package synthetic

import (
	"math"
	"testing"
)

// drawn is a process with the given dials, K = 256 of 8,192 tokens.
func drawn(l Locality, steps int, seed uint64) *process {
	p := new(process)
	p.draw(extent{topK: 256, tokens: 8192, steps: steps}, &l, source(uint64(seed), 0, 0, 0, 0))
	return p
}

// extremes are dials at their ends, one or all at a time.
func extremes() map[string]Locality {
	base := Default().Locality
	with := func(change func(*Locality)) Locality {
		l := base
		change(&l)
		return l
	}
	return map[string]Locality{
		"default":     base,
		"no overlap":  with(func(l *Locality) { l.Overlap, l.Recent = 0, 0 }),
		"all overlap": with(func(l *Locality) { l.Overlap = 1 - 1.0/256 }),
		"one by one":  with(func(l *Locality) { l.Heat, l.Company, l.Burst, l.Neighbours = 0, 0, 0, 0 }),
		"heat":        with(func(l *Locality) { l.Heat = 1 }),
		"company":     with(func(l *Locality) { l.Heat, l.Company = 0, 1 }),
		"bursts":      with(func(l *Locality) { l.Burst = 2 }),
		"hot":         with(func(l *Locality) { l.Hot = 0.6 }),
		"all hot":     with(func(l *Locality) { l.Hot, l.Recent, l.Overlap = 1-1.0/256, 0, 1-1.0/256 }),
		"recent":      with(func(l *Locality) { l.Recent = 0.7 }),
		"drift":       with(func(l *Locality) { l.Drift = 1 }),
		"none near":   with(func(l *Locality) { l.Near = 0 }),
		"hardly near": with(func(l *Locality) { l.Near = 1e-6 }),
		"all near":    with(func(l *Locality) { l.Near = 1 }),
		"hot skipped": with(func(l *Locality) { l.Skipped, l.Recent, l.Hot, l.Overlap = 0.99, 0, 0.999, 0.999 }),
		"skipped":     with(func(l *Locality) { l.Skipped, l.Neighbours = 0.7, 1 }),
		"none born":   with(func(l *Locality) { l.Skipped, l.Recent, l.Overlap = 1, 0, 0.999 }),
		"neighbours":  with(func(l *Locality) { l.Neighbours = 1 }),
		"far":         with(func(l *Locality) { l.GapMedian, l.GapShape = 1e6, 0.1 }),
		"soon":        with(func(l *Locality) { l.GapMedian, l.GapShape = 0.01, 10 }),
		"light tails": with(func(l *Locality) { l.RunShape = 10 }),
		"heavy tails": with(func(l *Locality) { l.RunShape = 0.3 }),
	}
}

// Any dials fulfil these rules. K distinct blocks are demanded at every step, the newest token
// among them and none from the future. Runs and departures agree.
func TestProcess(t *testing.T) {
	for name, l := range extremes() {
		if err := l.validate(256); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, tokens := range []int{8192, 300} { // many blocks to choose from, or hardly any
			p := new(process)
			p.draw(extent{topK: 256, tokens: tokens, steps: 80}, &l, source(uint64(1), 0, 0, 0, 2))
			demanded := map[int32]bool{}
			for s := range p.steps {
				for _, x := range p.left[p.gone[s]:p.gone[s+1]] {
					if !demanded[x] {
						t.Fatalf("%s: step %d: block %d leaves, not demanded", name, s, x)
					}
					delete(demanded, x)
				}
				for _, r := range p.runs[p.first[s]:p.first[s+1]] {
					if demanded[r.block()] || int(r.block()) >= p.tokens+s || int(r.exit()) <= s {
						t.Fatalf("%s: step %d: %+v begins, demanded: %v", name, s, r, demanded[r.block()])
					}
					demanded[r.block()] = true
				}
				for _, r := range p.runs[:p.first[s+1]] {
					if int(r.exit()) > s && !demanded[r.block()] {
						t.Fatalf("%s: step %d: %+v has gone", name, s, r)
					}
				}
				if len(demanded) != 256 || l.Skipped == 0 && !demanded[int32(p.tokens+s-1)] {
					t.Fatalf("%s: step %d: %d blocks demanded, the newest %v", name, s, len(demanded), demanded[int32(p.tokens+s-1)])
				}
			}
		}
	}
}

// The clock of very uneven steps runs past the end of its queue. Then no block comes back, and
// nothing fails.
func TestClockRunsOut(t *testing.T) {
	l := Default().Locality
	l.Burst = 2
	for seed := range uint64(40) {
		demanded := 0
		for _, r := range drawn(l, 12, seed).runs {
			if r.exit() == forever {
				demanded++
			}
		}
		if demanded != 256 {
			t.Fatalf("seed %d: %d blocks demanded", seed, demanded)
		}
	}
}

// The share that leaves at a step is 1 − overlap.
func TestOverlap(t *testing.T) {
	for _, overlap := range []float64{0.3, 0.6, 0.8, 0.95} {
		l := Default().Locality
		l.Overlap = overlap
		left := 0
		for seed := range uint64(4) {
			left += len(drawn(l, 256, seed).left)
		}
		if got := 1 - float64(left)/(4*255*256); math.Abs(got-overlap) > 0.02 {
			t.Errorf("overlap %.3f, expected %.3f", got, overlap)
		}
	}
}

// The overlap holds at any K and at any age of a stream. It holds even if one token per step takes
// most of the room, and if dials would have all blocks come back at once.
func TestOverlapLasts(t *testing.T) {
	type dials = func(*Locality)
	for name, c := range map[string]struct {
		topK   int
		change dials
	}{
		"K = 16":      {16, func(l *Locality) { l.Overlap = 0.9 }},
		"K = 32":      {32, func(l *Locality) { l.Overlap = 0.9 }},
		"K = 64":      {64, func(l *Locality) { l.Overlap = 0.9 }},
		"K = 256":     {256, func(l *Locality) { l.Overlap = 0.9 }},
		"K = 2048":    {2048, func(l *Locality) { l.Overlap = 0.9 }},
		"much":        {256, func(l *Locality) { l.Overlap = 0.99 }},
		"none":        {128, func(l *Locality) { l.Overlap, l.Recent, l.Burst = 0, 0, 0 }},
		"half":        {64, func(l *Locality) { l.Overlap = 0.5 }},
		"bursts":      {256, func(l *Locality) { l.Burst = 1 }},
		"periods":     {256, func(l *Locality) { l.GapMedian, l.GapShape = 2, 10 }},
		"one heat":    {256, func(l *Locality) { l.Heat = 1 }},
		"no return":   {256, func(l *Locality) { l.Drift = 1 }},
		"light tails": {256, func(l *Locality) { l.RunShape = 10 }},
	} {
		const steps, segments = 4000, 4
		l := Default().Locality
		c.change(&l)
		p := new(process)
		p.draw(extent{topK: c.topK, tokens: 16384, steps: steps}, &l, source(1, 0, 0, 0, 0))
		for i := range segments {
			from, to := max(1, steps/segments*i), steps/segments*(i+1)
			if got := 1 - float64(p.gone[to]-p.gone[from])/float64((to-from)*c.topK); math.Abs(got-l.Overlap) > 0.02 {
				t.Errorf("%s: overlap %.3f from step %d to %d, expected %.3f", name, got, from, to, l.Overlap)
			}
		}
	}
}

// Without heat, gaps follow their law: the Kaplan–Meier estimate equals the log-logistic survival,
// for any bursts.
func TestGaps(t *testing.T) {
	l := Default().Locality
	l.Overlap, l.Heat, l.Company, l.Drift = 0.7, 0, 0, 0.2
	var gaps survival
	for seed := range uint64(4) {
		p := drawn(l, 200, seed)
		last := map[int32]int{}
		for s := range p.steps {
			for _, r := range p.runs[p.first[s]:p.first[s+1]] {
				if from, ok := last[r.block()]; ok {
					gaps.add(s-from, false)
					delete(last, r.block())
				}
			}
			for _, x := range p.left[p.gone[s]:p.gone[s+1]] {
				last[x] = s
			}
		}
		for _, from := range last {
			gaps.add(p.steps-from, true)
		}
	}
	curve := gaps.curve()
	for _, x := range []int{1, 2, 4, 8, 16, 32, 64, 128} {
		want := l.Drift + (1-l.Drift)/(1+math.Pow(float64(x)/l.GapMedian, l.GapShape))
		if got := curve[x-1]; math.Abs(got-want) > 0.02 {
			t.Errorf("%.3f of the gaps exceed %d steps, expected %.3f", got, x, want)
		}
	}
}
