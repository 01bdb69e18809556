package schedule

import (
	"fmt"

	"github.com/kvreplay/kvreplay/policies"
)

// SFC divides the batch for selection, lookup and fetch (KVDrive, section 5.3). While the GPU
// selects for one micro-batch, the CPU looks up for the previous one and the link fetches for the
// one before that. Computation takes the whole batch, and the CPU updates its tables meanwhile. For
// micro-batches with times s, u, f a layer takes:
//
//	A_i = A_{i−1} + s_i;  B_i = max(A_i, B_{i−1}) + u_i;  D_i = max(B_i, D_{i−1}) + f_i
//	layer = project + D_n + max(compute, update)
type SFC struct {
	N int // micro-batches, 0: calibrated by trying the divisors of the batch
}

func parseSFC(options string) (Schedule, error) {
	c := &SFC{}
	if options == "" || options == "parts=auto" {
		return c, nil
	}
	_, err := policies.ParseOptions(options, policies.Int("parts", &c.N, 1, 1<<20))
	return c, err
}

// Name returns the text form.
func (c *SFC) Name() string {
	if c.N == 0 {
		return "sfc:parts=auto"
	}
	return fmt.Sprintf("sfc:parts=%d", c.N)
}

// Parts returns the number of micro-batches.
func (c *SFC) Parts() int { return max(1, c.N) }

// Traits returns those of a schedule that moves misses.
func (*SFC) Traits() Traits { return Traits{Serves: SparseTopK} }

// Place adds a step.
func (c *SFC) Place(t *Timeline, s *Step) {
	parts := s.parts()
	fetches := make([]Op, 0, len(parts))
	t.layers(s, func(i int, l *Layer, last Op) Op {
		last = t.Add(Project, i, 0, l.Project, last)
		fetches = fetches[:0]
		for p := range parts {
			m := &parts[p][i]
			last = t.Add(Select, i, p, m.Select, last)
			found := t.Add(LookupCPU, i, p, m.LookupCPU, last)
			fetches = append(fetches, t.fetch(FetchBlocks, m, i, p, 1, found))
		}
		fetched := t.Add(Join, i, 0, 0, fetches...)
		t.Add(Update, i, 0, l.Update, fetched)
		return t.compute(l, i, 0, None, last, fetched)
	})
}

// AtLeast returns a lower bound of the step's time with micro-batches: the working time of the
// busiest resource.
func (c *SFC) AtLeast(s *Step) float64 {
	var sms, link, host, drive float64
	for i := range s.Whole {
		l := &s.Whole[i]
		sms += l.Project + l.Pre + l.Attend + l.Post
		host += l.Update
	}
	for _, part := range s.parts() {
		for i := range part {
			l := &part[i]
			sms += l.Select
			link += l.Fetch.Seconds + l.Hop.Seconds
			host += l.LookupCPU
			drive += l.Read
		}
	}
	return max(sms, link, host, drive)
}
