package schedule

import (
	"math/rand/v2"
	"testing"
)

// stagedStep returns a step of some layers in n micro-batches of random sizes, up to the given share
// apart.
func stagedStep(r *rand.Rand, n, count int, apart float64) *Step {
	s := &Step{Whole: make([]Layer, count)}
	shape := make([]float64, count)
	for i := range shape {
		shape[i] = 0.5 + r.Float64()
	}
	send := r.Float64()
	for range n {
		size := 1 + apart*r.Float64()
		var part []Layer
		for i := range count {
			part = append(part, Layer{Project: shape[i] * size, Dense: Dense{Attend: size}})
		}
		s.Parts = append(s.Parts, part)
		s.Outputs, s.Sends = append(s.Outputs, size), append(s.Sends, send*size)
	}
	return s
}

// rounds runs the pipeline stage by stage, as its GPUs do, and returns the mean time of a late step.
func rounds(g *Stages, s *Step) float64 {
	const early, late = 40, 200
	free := make([]float64, g.GPUs)        // end of each stage's last work
	ready := make([]float64, len(s.Parts)) // when a micro-batch has its token
	begun := 0.
	for round := range late {
		if round == early {
			begun = free[g.GPUs-1]
		}
		for p := range s.Parts {
			for stage := range g.GPUs {
				free[stage] = max(free[stage], ready[p]) + g.takes(s, p, stage)
				ready[p] = free[stage] + s.Sends[p]
			}
		}
	}
	return (free[g.GPUs-1] - begun) / (late - early)
}

// A step takes the time of a pipeline that is run stage by stage, and the timeline has the same.
func TestStagedAgainstRounds(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 62))
	for range 200 {
		g := &Stages{OnGPU{Dense: true}, 2 + r.IntN(4)}
		equal := stagedStep(r, g.GPUs, g.GPUs+r.IntN(9), 0)
		near(t, "equal micro-batches", g.Closed(equal), rounds(g, equal))
		near(t, "timeline", place(t, g, equal).End(), g.Closed(equal))
		apart := stagedStep(r, g.GPUs, g.GPUs+r.IntN(9), 0.3)
		near(t, "timeline", place(t, g, apart).End(), g.Closed(apart))
		if slow, form := rounds(g, apart), g.Closed(apart); slow < form-1e-9 || slow > 1.1*form {
			t.Errorf("micro-batches of different sizes: %g in rounds, by the formula %g", slow, form)
		}
	}
}

// By hand: 4 layers of 1 in 2 stages of 2, an output of 1, sends of 0.25. A micro-batch passes in 5.5. The
// last stage works for 6, so the micro-batch waits for 0.5.
func TestStagedByHand(t *testing.T) {
	s := &Step{Whole: make([]Layer, 4), Outputs: []float64{1, 1}, Sends: []float64{0.25, 0.25}}
	for range 2 {
		s.Parts = append(s.Parts, layers(Layer{Post: 1}, 4).Whole)
	}
	tl := place(t, &Stages{OnGPU{Dense: true}, 2}, s)
	near(t, "step", tl.End(), 6)
	x := tl.Exposure()
	near(t, "sends and wait", x[Staging], 1)
}
