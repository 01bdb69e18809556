package referee_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/replay/referee"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

var policies = []string{"lru", "fifo", "lfu", "lookahead", "window:0", "window:1", "window:3", "none", "opt", "opt-bypass"}

// The test checks properties of every step that hold for all policies.
func TestStepsKeepTheirBooks(t *testing.T) {
	for seed := range uint64(500) {
		d := draw(seed, replaytest.Medium)
		for _, policy := range policies {
			if policy == "lookahead" && !d.hasRanks {
				continue
			}
			resident := placed(t, d, policy)
			for _, st := range d.run(t, policy) {
				if err := books(resident, st, d, policy); err != nil {
					t.Fatalf("%s, T = %d: %v\n%+v\n%v", policy, st.T, err, st, d)
				}
				resident = st.Residents
			}
		}
	}
}

func placed(t *testing.T, d drawn, policy string) []int32 {
	d.config.Policy = policy
	p, err := referee.Placed(d.stream, d.config)
	if err != nil {
		t.Fatalf("%v\n%v", err, d)
	}
	return p
}

// books checks a step against the residents before it.
func books(before []int32, st referee.StepCounts, d drawn, policy string) error {
	start := union(before, st.Born)
	demand := union(st.Hit, st.Missed)
	after := minus(minus(union(start, st.Missed), st.Victims), st.KeptOut)
	windowed := policy == "none" || strings.HasPrefix(policy, "window")
	switch {
	case st.Demand != st.Hits+st.Misses || st.Demand != len(demand):
		return fmt.Errorf("hits and misses do not make up the demand")
	case len(minus(st.Hit, start)) > 0 || len(minus(st.Missed, start)) != st.Misses:
		return fmt.Errorf("hits are not the demanded residents %v", start)
	case st.Births != len(union(nil, st.Born)) || len(minus(st.Born, before)) != st.Births:
		return fmt.Errorf("born twice")
	case !slices.Equal(after, st.Residents):
		return fmt.Errorf("%v should be resident", after)
	case len(minus(st.Victims, demand)) != st.Evictions || len(minus(st.KeptOut, demand)) > 0:
		return fmt.Errorf("victims are demanded, or what is kept out is not")
	case windowed:
		return nil
	case st.Resident != min(d.config.Capacity, len(union(start, st.Missed))):
		return fmt.Errorf("%d resident: evictions are not as few as capacity %d allows", st.Resident, d.config.Capacity)
	case st.Overflow != max(0, st.Demand-d.config.Capacity):
		return fmt.Errorf("overflow %d", st.Overflow)
	case policy != "opt-bypass" && len(st.KeptOut) != st.Overflow:
		return fmt.Errorf("keeps out what is no overflow")
	}
	return nil
}

func union(a, b []int32) []int32 {
	u := slices.Concat(a, b)
	slices.Sort(u)
	return slices.Compact(u)
}

func minus(a, b []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(a), func(x int32) bool { return slices.Contains(b, x) })
}

// If everything fits, the order does not matter. A window as long as the stream keeps the same
// blocks as such a cache.
func TestUnboundedPoliciesAgree(t *testing.T) {
	for seed := range uint64(150) {
		d := draw(seed, replaytest.Medium)
		d.config.Capacity = 1 << 20
		want := d.misses(t, "lru")
		for _, policy := range []string{"fifo", "lfu", "opt", "opt-bypass", "window:1000"} {
			if got := d.misses(t, policy); got != want {
				t.Fatalf("%s misses %d, lru %d\n%v", policy, got, want, d)
			}
		}
	}
}

// LRU has the inclusion property if nothing overflows: a larger cache holds all blocks of a smaller
// one.
func TestLRUIncludes(t *testing.T) {
	for seed := range uint64(500) {
		d := draw(seed, replaytest.Medium)
		if d.config.Warmup.Kind != referee.WarmRun {
			d.config.Warmup = referee.Warmup{}
		}
		d.config.Capacity = d.config.TopK + int(seed%5)
		small := d.run(t, "lru")
		d.config.Capacity++
		for i, large := range d.run(t, "lru") {
			if lost := minus(small[i].Residents, large.Residents); len(lost) > 0 {
				t.Fatalf("T = %d: capacity %d lacks %v of one less\n%v", large.T, d.config.Capacity, lost, d)
			}
		}
	}
}

// run replays one stream.
func run(s *trace.Stream, hasRanks bool, c referee.Config) ([]referee.StepCounts, error) {
	steps, err := referee.RunPool([][]*trace.Stream{{s}}, hasRanks, c, nil)
	if err != nil {
		return nil, err
	}
	return steps[0], nil
}

// An impossible cell is an error.
func TestRunRefuses(t *testing.T) {
	s := new(trace.Stream)
	s.Reset(trace.StreamInfo{PromptLen: 4})
	s.Append(trace.Row{Step: -1, Indices: []int32{0}})
	s.Append(trace.Row{Step: 0, Indices: []int32{0, 1}})
	good := referee.Config{Policy: "lru", TopK: 2, Candidates: 2, Capacity: 1, Local: 1, BlockTokens: 1}
	if _, err := run(s, true, good); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want   string
		ranks  bool
		change func(*referee.Config)
	}{
		{"unknown policy", true, func(c *referee.Config) { c.Policy = "mru" }},
		{"unknown policy", true, func(c *referee.Config) { c.Policy = "window:-1" }},
		{"unknown policy", true, func(c *referee.Config) { c.Policy = "window:1.5" }},
		{"top-k", true, func(c *referee.Config) { c.TopK = 0 }},
		{"candidates", true, func(c *referee.Config) { c.Candidates = 1 }},
		{"capacity", true, func(c *referee.Config) { c.Capacity = 0 }},
		{"local", true, func(c *referee.Config) { c.Local = 0 }},
		{"needs ranks", false, func(c *referee.Config) { c.Policy = "lookahead" }},
		{"without ranks", false, func(c *referee.Config) { c.TopK = 1 }},
		{"2 windows", true, func(c *referee.Config) { c.Warmup = referee.Warmup{Kind: referee.WarmRun, Windows: 2} }},
		{"2 windows", true, func(c *referee.Config) { c.Warmup = referee.Warmup{Kind: referee.WarmImportance, Windows: 2} }},
		{"needs scores", true, func(c *referee.Config) { c.Warmup = referee.Warmup{Kind: referee.WarmImportance, Windows: 1} }},
	} {
		config := good
		c.change(&config)
		if _, err := run(s, c.ranks, config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one about %q", config, err, c.want)
		}
	}
}
