package policytest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// RunLossy checks a lossy policy (policies.Lossy) with the given options, over random
// streams with attention masses:
//
//	Entry          the line of the table, and Traits.Lossy
//	Legal          every answer is one that the engine accepts; nothing panics
//	Deterministic  two instances agree; seeds matter only where Traits.Random says so
//	Borrows        nothing that was lent is changed or kept; answers are appended
//	Forgets        an instance that has seen other streams does as a new one
//	Allocates      nothing, once an instance has seen a stream
//	Memory         no more a block of the context than Traits.Memory states
//	Online         with a stream cut short, the steps before the cut stay as they were
//	Apart          two instances whose calls are made in turn answer as they do alone
//	Divides        a Divider's budgets: one a stream, at least one block, in sum no more than
//	               the capacities; the same from any instance; nothing that it is shown is changed
//
// That it does what its paper says is for histories (LossyHistory) and, of the program's
// own, for the referee. RunLossy must not be called from a parallel test: it counts
// allocations.
func RunLossy(t *testing.T, entry policies.Entry, options string) {
	t.Helper()
	s := &suite{entry: entry, options: options, short: testing.Short()}
	for _, c := range lossyChecks {
		ok := t.Run(c.name, func(t *testing.T) {
			if err := s.after(s.lossyEntry, c); err != nil {
				t.Errorf("%s: %v", s.name(), err)
			}
		})
		if !ok && c.gate {
			return
		}
	}
}

// CheckLossy is RunLossy without a test: it returns what fails.
func CheckLossy(entry policies.Entry, options string) []Failure {
	return checkBy(lossyChecks, entry, options, nil)
}

var lossyChecks = []check{
	{"Entry", (*suite).lossyEntry, true},
	{"Legal", func(s *suite) error { return s.lossySeeds(s.lossyLegal) }, true},
	{"Deterministic", (*suite).lossyDeterministic, true},
	{"Borrows", func(s *suite) error { return s.lossySeeds(s.lossyBorrows) }, true},
	{"Forgets", func(s *suite) error { return s.lossySeeds(s.lossyForgets) }, true},
	{"Allocates", (*suite).lossyAllocates, false},
	{"Memory", (*suite).remembers, false},
	{"Online", (*suite).lossyOnline, false},
	{"Apart", (*suite).lossyApart, false},
	{"Divides", (*suite).divides, false},
}

// lossyStreams are drawn a check.
const lossyStreams = 120

// lossyNeeds are what a lossy policy can ask for.
const lossyNeeds = policies.NeedCandidates | policies.NeedAttention | policies.NeedPromptMass | policies.NeedWindows

func (s *suite) lossyEntry() error {
	if err := s.entryHolds(); err != nil {
		return err
	}
	_, lossy := s.make().(policies.Lossy)
	switch {
	case !lossy:
		return errors.New("the policy has no method Prompt(*policies.Prompt): a lossy policy is handed its prompt")
	case !s.entry.Traits.Lossy:
		return errors.New("the entry's Traits.Lossy is false: what the policy drops would be fetched again, and it would be ranked with exact ones")
	case s.needs&^lossyNeeds != 0:
		return errors.New("the policy's Needs has columns of exact policies, which stay empty for a lossy one: it can ask for NeedCandidates, NeedAttention, NeedPromptMass and NeedWindows")
	}
	return nil
}

// lossySetting is a stream and one way to replay it.
type lossySetting struct {
	seed   uint64
	stream *trace.Stream
	meta   trace.Meta
	o      replay.StreamOptions
}

func (s *suite) lossyDraw(seed uint64) *lossySetting {
	r := rand.New(rand.NewPCG(seed, 37))
	kind := replaytest.Medium
	if seed%2 == 1 {
		kind = replaytest.Small
	}
	o := kind(r)
	o.Steps, o.Windows = max(1, o.Steps), max(1, o.Windows)
	o.Ascending = o.Ascending && s.needs&policies.NeedCandidates == 0
	stream, meta := replaytest.Stream(r, o), o.Meta(1+r.IntN(o.M))
	replaytest.Masses(r, stream, max(1, o.BlockTokens))
	c := lossySettle(stream, meta, 1+r.IntN(3*meta.TopK))
	c.seed, c.o.Seed = seed, seed
	return c
}

// String is what a failure says of the setting.
func (c *lossySetting) String() string {
	return fmt.Sprintf("stream of %d rows, budget %d, K %d, prompt %d, block_tokens %d; again with -policytest.seed=%d",
		c.stream.Rows, c.o.Capacity, c.meta.TopK, c.stream.PromptLen, c.meta.BlockTokens, c.seed)
}

func (c *lossySetting) size() int { return len(c.stream.Indices) }

// lossySeeds is seeds for lossy policies.
func (s *suite) lossySeeds(check func(c *lossySetting) error) error {
	return seedsOf(s, lossyStreams, s.lossyDraw, check)
}

// dropped is what a step of a lossy policy did: what was lost, then what it dropped.
type dropped struct {
	T             int32
	lost, victims []int32
}
