package pipeline

import "github.com/kvreplay/kvreplay/policies"

// OnGPU keeps all KV on the GPU: nothing moves, attention reads the demand.
type OnGPU struct{}

func parseOnGPU(options string) (Schedule, error) {
	_, err := policies.ParseOptions(options)
	return OnGPU{}, err
}

// Name is gpu.
func (OnGPU) Name() string { return "gpu" }

// Parts is 1.
func (OnGPU) Parts() int { return 1 }

func (OnGPU) moves() (Moves, bool) { return MovesNothing, false }

// Place adds a step.
func (OnGPU) Place(t *Timeline, s *Step) {
	last := None
	for i := range s.Whole {
		l := &s.Whole[i]
		last = t.Add(Project, i, 0, l.Project, last)
		last = t.Add(Select, i, 0, l.Select, last)
		last = t.Add(Pre, i, 0, l.Pre, last)
		last = t.Add(Attend, i, 0, l.Attend, last)
		last = t.Add(Post, i, 0, l.Post, last)
	}
	t.Add(Output, len(s.Whole), 0, s.Output, last)
}

// Closed is the sum of all operators.
func (OnGPU) Closed(s *Step) float64 {
	sum := s.Output
	for i := range s.Whole {
		l := &s.Whole[i]
		sum += l.Project + l.Select + l.Pre + l.Attend + l.Post
	}
	return sum
}
