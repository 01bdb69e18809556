package pipeline

import (
	"fmt"

	"github.com/kvreplay/kvreplay/policies"
)

// SFC divides the batch for selection, lookup and fetch (KVDrive, section 5.3): while the
// GPU selects for one micro-batch, the CPU looks up for the one before and the link
// fetches for the one before that. Computation takes the whole batch, the CPU keeps its
// books meanwhile. A layer takes, for micro-batches with times s, u, f:
//
//	A_i = A_{i−1} + s_i;  B_i = max(A_i, B_{i−1}) + u_i;  D_i = max(B_i, D_{i−1}) + f_i
//	layer = project + D_n + max(compute, update)
type SFC struct {
	N int // micro-batches; 0: calibrated, by trying the divisors of the batch
}

func parseSFC(options string) (Schedule, error) {
	c := &SFC{}
	if options == "" || options == "parts=auto" {
		return c, nil
	}
	_, err := policies.ParseOptions(options, policies.Int("parts", &c.N, 1, 1<<20))
	return c, err
}

// Name is its text form.
func (c *SFC) Name() string {
	if c.N == 0 {
		return "sfc:parts=auto"
	}
	return fmt.Sprintf("sfc:parts=%d", c.N)
}

// Parts is the number of micro-batches.
func (c *SFC) Parts() int { return max(1, c.N) }

// Place adds a step.
func (c *SFC) Place(t *Timeline, s *Step) {
	last, parts := None, s.parts()
	fetches := make([]Op, 0, len(parts))
	for i := range s.Whole {
		l := &s.Whole[i]
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
		last = t.Add(Pre, i, 0, l.Pre, last, fetched)
		t.store(l, i, 0, last)
		last = t.Add(Attend, i, 0, l.Attend, last)
		last = t.Add(Post, i, 0, l.Post, last)
	}
	t.Add(Output, len(s.Whole), 0, s.Output, last)
}

// Closed is the recurrence above, layer after layer.
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
		sum += l.Project + d + max(l.pre()+l.Attend+l.Post, l.Update)
	}
	return sum
}
