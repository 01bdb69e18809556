package referee_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/replay/referee"
	"github.com/kvreplay/kvreplay/replay/referee/brute"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// drawn is a random cell without its policy.
type drawn struct {
	seed     uint64
	stream   *trace.Stream
	hasRanks bool
	config   referee.Config
}

func (d drawn) String() string {
	text := fmt.Sprintf("seed %d, ranks %v, prompt %d, %+v", d.seed, d.hasRanks, d.stream.PromptLen, d.config)
	for i, step := range d.stream.Steps {
		text += fmt.Sprintf("\n  step %d: %v", step, d.stream.List(i))
	}
	return text
}

// draw draws a cell with any warm-up and capacities below and above the demand.
func draw(seed uint64, kind func(*rand.Rand) replaytest.Options) drawn {
	r := rand.New(rand.NewPCG(seed, 7))
	o := kind(r)
	s := replaytest.Stream(r, o)
	c := referee.Config{TopK: 1 + r.IntN(o.M), Candidates: o.M, Capacity: 1 + r.IntN(o.M+2),
		Sink: o.Sink, Local: o.Local, BlockTokens: o.BlockTokens}
	if o.Ascending {
		c.TopK = o.M
	}
	c.Warmup.Kind = []referee.WarmupKind{referee.WarmRun, referee.WarmRun, referee.WarmCold,
		referee.WarmStaging, referee.WarmImportance}[r.IntN(5)]
	switch {
	case c.Warmup.Kind == referee.WarmRun:
		c.Warmup.Windows = r.IntN(o.Windows + 1)
	case c.Warmup.Kind == referee.WarmImportance && (o.Windows == 0 || !o.Scores):
		c.Warmup.Kind = referee.WarmCold
	case c.Warmup.Kind == referee.WarmImportance:
		c.Warmup.Windows = 1 + r.IntN(o.Windows)
	}
	return drawn{seed, s, !o.Ascending, c}
}

// misses runs a policy on d and returns its counted misses.
func (d drawn) misses(t *testing.T, policy string) int {
	t.Helper()
	total := 0
	for _, st := range d.run(t, policy) {
		if st.T >= 0 {
			total += st.Misses
		}
	}
	return total
}

func (d drawn) run(t *testing.T, policy string) []referee.StepCounts {
	t.Helper()
	c := d.config
	c.Policy = policy
	steps, err := run(d.stream, d.hasRanks, c)
	if err != nil {
		t.Fatalf("%s: %v\n%v", policy, err, d)
	}
	return steps
}

// The optimum equals that of an exhaustive search, with and without bypass. No other policy has
// fewer misses.
func TestOptimumIsOptimal(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(8000) {
		d := draw(seed, replaytest.Small)
		opt, bypass := d.misses(t, "opt"), d.misses(t, "opt-bypass")
		compareBrute(t, d, opt, false)
		compareBrute(t, d, bypass, true)
		if bypass > opt {
			t.Fatalf("opt-bypass misses %d, opt %d\n%v", bypass, opt, d)
		}
		mark(seen, "bypass better", bypass < opt)
		for _, policy := range []string{"lru", "fifo", "lfu", "lookahead"} {
			if policy == "lookahead" && !d.hasRanks {
				continue
			}
			misses := d.misses(t, policy)
			if misses < opt {
				t.Fatalf("%s misses %d, opt %d\n%v", policy, misses, opt, d)
			}
			mark(seen, "opt better than "+policy, opt < misses)
		}
		d.features(t, seen)
	}
	t.Log(seen)
	for feature, n := range seen {
		if n < 200 {
			t.Errorf("%q in %d cases only: the test is weak", feature, n)
		}
	}
}

// features counts the events of an opt run, so that the test cannot pass with trivial draws.
func (d drawn) features(t *testing.T, seen map[string]int) {
	var births, overflows, victims, windows int
	for _, st := range d.run(t, "opt") {
		births, overflows, victims = births+st.Births, overflows+st.Overflow, victims+len(st.Victims)
		if st.T < 0 {
			windows++
		}
	}
	mark(seen, "births", births > 0)
	mark(seen, "overflow", overflows > 0)
	mark(seen, "victims", victims > 0)
	mark(seen, "victims after windows", victims > 0 && windows > 0)
	mark(seen, "blocks of two", d.config.BlockTokens == 2 && births > 0)
	mark(seen, "without ranks", !d.hasRanks && overflows > 0)
}

func mark(seen map[string]int, feature string, holds bool) {
	if holds {
		seen[feature]++
	} else if _, known := seen[feature]; !known {
		seen[feature] = 0
	}
}

func compareBrute(t *testing.T, d drawn, got int, bypass bool) {
	t.Helper()
	want, err := brute.MinMisses(d.stream, d.hasRanks, d.config, bypass)
	if err != nil {
		t.Fatalf("%v\n%v", err, d)
	}
	if got != want {
		t.Fatalf("bypass %v: %d misses, the fewest possible are %d\n%v", bypass, got, want, d)
	}
}
