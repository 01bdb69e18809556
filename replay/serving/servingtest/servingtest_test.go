package servingtest

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/replay/serving"
)

func TestFCFS(t *testing.T) { Run(t, func() serving.Scheduler { return serving.FCFS{} }) }

// Broken schedulers, each with one fault.
type (
	greedy  struct{ serving.FCFS }
	idle    struct{ serving.FCFS }
	refuses struct{ serving.FCFS }
	earlier struct{ serving.FCFS }
	beyond  struct{ serving.FCFS }
	shares  struct{ serving.FCFS }
	lifo    struct{ serving.FCFS }
	first   struct{ serving.FCFS }
	chance  struct{ serving.FCFS }
)

func (greedy) Batch(s *serving.State, plan []int) {
	for i, j := range s.Running {
		plan[i] = j.Need()
	}
}
func (idle) Batch(*serving.State, []int)             {}
func (refuses) Admit(*serving.State) int             { return -1 }
func (earlier) Preempt(_ *serving.State, at int) int { return at - 1 }
func (beyond) Admit(s *serving.State) int            { return len(s.Waiting) }
func (s shares) Batch(state *serving.State, plan []int) {
	state.Uncached = serving.Share + 1
	s.FCFS.Batch(state, plan)
}
func (lifo) Admit(s *serving.State) int { return len(s.Waiting) - 1 }

// Batch of first serves only the last request, so that the others hold memory for nothing.
func (first) Batch(s *serving.State, plan []int) {
	last := len(plan) - 1
	if last < 0 {
		return
	}
	plan[last] = min(s.Running[last].Need(), s.Budget)
}
func (first) Preempt(_ *serving.State, at int) int { return at }
func (chance) Admit(s *serving.State) int          { return rand.IntN(len(s.Waiting)) }

func TestBroken(t *testing.T) {
	for name, c := range map[string]struct {
		s    serving.Scheduler
		want string
	}{
		"gives more than the budget": {greedy{}, "expected at most"},
		"gives nothing":              {idle{}, "no token to any"},
		"admits nothing":             {refuses{}, "waiting requests"},
		"preempts a served request":  {earlier{}, "Preempt returns"},
		"admits beyond the queue":    {beyond{}, "Admit returns"},
		"leaves out of range":        {shares{}, "uncached share"},
		"serves the latest first":    {lifo{}, "starves"},
		"preempts the one it serves": {first{}, "starves"},
		"draws without a seed":       {chance{}, ""},
	} {
		err := Check(func() serving.Scheduler { return c.s })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("a scheduler that %s: %v, expected an error with %q", name, err, c.want)
		}
	}
}
