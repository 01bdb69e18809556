package pipeline

import "github.com/kvreplay/kvreplay/policies"

// Sequential does one thing at a time (KVDrive, section 3): a layer takes
//
//	project + select + look up + fetch + compute (+ update, where the CPU looks up)
type Sequential struct {
	CPU  bool // the host looks up, as in KVDrive; otherwise a kernel, as in ESS
	text string
}

func parseSequential(options string) (Schedule, error) {
	where := "gpu"
	text, err := policies.ParseOptions(options, policies.Word("lookup", &where, "gpu", "cpu"))
	return &Sequential{CPU: where == "cpu", text: text}, err
}

// Name is its text form.
func (q *Sequential) Name() string { return named("sequential", q.text) }

// Parts is 1.
func (q *Sequential) Parts() int { return 1 }

// Place adds a step.
func (q *Sequential) Place(t *Timeline, s *Step) {
	last := None
	for i := range s.Whole {
		l := &s.Whole[i]
		last = t.Add(Project, i, 0, l.Project, last)
		last = t.Add(Select, i, 0, l.Select, last)
		if q.CPU {
			last = t.Add(LookupCPU, i, 0, l.LookupCPU, last)
		} else {
			last = t.Add(LookupGPU, i, 0, l.LookupGPU, last)
		}
		last = t.fetch(FetchBlocks, l, i, 0, 1, last)
		last = t.Add(Pre, i, 0, l.Pre, last)
		t.store(l, i, 0, last)
		last = t.Add(Attend, i, 0, l.Attend, last)
		last = t.Add(Post, i, 0, l.Post, last)
		if q.CPU {
			last = t.Add(Update, i, 0, l.Update, last)
		}
	}
	t.Add(Output, len(s.Whole), 0, s.Output, last)
}

// Closed is the sum of all stages.
func (q *Sequential) Closed(s *Step) float64 {
	sum := s.Output
	for i := range s.Whole {
		l := &s.Whole[i]
		sum += l.Project + l.Select + l.fetching(1) + l.pre() + l.Attend + l.Post
		if q.CPU {
			sum += l.LookupCPU + l.Update
		} else {
			sum += l.LookupGPU
		}
	}
	return sum
}
