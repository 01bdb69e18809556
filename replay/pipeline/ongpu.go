package pipeline

import "github.com/kvreplay/kvreplay/policies"

// OnGPU keeps all KV on the GPU, so nothing moves. Attention is sparse: it reads the Top-K
// that the selection finds. With Dense there is no selection, and attention reads the whole
// context. A model that attends densely gives other answers than one that attends to its
// Top-K, so the two are different services.
type OnGPU struct{ Dense bool }

func parseOnGPU(options string) (Schedule, error) {
	_, err := policies.ParseOptions(options)
	return OnGPU{}, err
}

func parseDense(options string) (Schedule, error) {
	_, err := policies.ParseOptions(options)
	return OnGPU{Dense: true}, err
}

// Name is gpu or dense.
func (g OnGPU) Name() string {
	if g.Dense {
		return "dense"
	}
	return "gpu"
}

// Parts is 1.
func (OnGPU) Parts() int { return 1 }

func (OnGPU) moves() (Moves, bool) { return MovesNothing, false }

// attention is the time of a layer's selection and of its attention.
func (g OnGPU) attention(l *Layer) (selecting, attending float64) {
	if g.Dense {
		return 0, l.Dense.Attend
	}
	return l.Select, l.Attend
}

// Place adds a step.
func (g OnGPU) Place(t *Timeline, s *Step) {
	last := None
	for i := range s.Whole {
		l := &s.Whole[i]
		selecting, attending := g.attention(l)
		last = t.Add(Project, i, 0, l.Project, last)
		last = t.Add(Select, i, 0, selecting, last)
		last = t.Add(Pre, i, 0, l.Pre, last)
		last = t.Add(Attend, i, 0, attending, last)
		last = t.Add(Post, i, 0, l.Post, last)
	}
	t.Add(Output, len(s.Whole), 0, s.Output, last)
}

// Closed is the sum of all operators.
func (g OnGPU) Closed(s *Step) float64 {
	sum := s.Output
	for i := range s.Whole {
		l := &s.Whole[i]
		selecting, attending := g.attention(l)
		sum += l.Project + selecting + l.Pre + attending + l.Post
	}
	return sum
}
