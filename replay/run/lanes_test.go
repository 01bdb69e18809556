package run

import (
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// program stands for a program that serves several streams at once, each by LRU.
type program struct {
	waits   int           // policies that wait
	most    *atomic.Int64 // the largest number of them in any program
	answers int           // until the program breaks
}

// shared is LRU in a program.
type shared struct {
	lru.Policy
	program *program
	wait    func()
	err     error
}

func (p *shared) Streams() int { return 5 }

func (p *shared) Share(with policies.Policy, wait func()) {
	p.program, p.wait = with.(*shared).program, wait
}

func (p *shared) Failed(error) error { return p.err }

func (p *shared) Evict(n int, dst []int32) []int32 {
	if n > 0 && p.wait != nil {
		p.program.waits++
		p.program.most.Store(max(p.program.most.Load(), int64(p.program.waits)))
		p.wait()
		p.program.waits--
	}
	switch p.program.answers--; {
	case p.program.answers == 0:
		p.err = errors.New("the program broke")
	case p.program.answers < 0 && p.err == nil:
		p.err = policies.ErrOtherStream
	}
	if p.err != nil {
		return dst
	}
	return p.Policy.Evict(n, dst)
}

// sharedSpec returns the policy in programs that break after a number of answers.
func sharedSpec(t *testing.T, answers int) (spec policies.Spec, most *atomic.Int64) {
	t.Helper()
	entry, most := lru.Entry, new(atomic.Int64)
	entry.Name = "shared"
	entry.New = func(string) (func() policies.Policy, string, error) {
		return func() policies.Policy { return &shared{program: &program{most: most, answers: answers}} }, "", nil
	}
	spec, err := policies.NewTable(entry).Parse("shared")
	fatal.If(t, err)
	return spec, most
}

// Streams that a worker replays in turn give the rows of streams that it replays one after the other.
func TestAbreast(t *testing.T) {
	f := manyStreams(t)
	for name, change := range map[string]func(*Options){
		"plain":   func(*Options) {},
		"tiers":   func(o *Options) { o.Tiers = tiers(t, "dram=lru@1x") },
		"pool":    func(o *Options) { o.Pool = setting.PoolLayer },
		"referee": func(o *Options) { o.Referee = true },
		"blocks":  func(o *Options) { o.Shape.BlockTokens = 4 },
		"prefetch": func(o *Options) {
			o.Prefetch = setting.Prefetch{Source: setting.PrefetchCandidates, Staging: capacities(t, "0.5x")[0]}
		},
		"predictor": func(o *Options) { o.Prefetch = prefetch(t, "echo:0.5x") },
		"profile":   func(o *Options) { o.Profile = newProfile(t) },
		"request": func(o *Options) {
			o.Warmup = setting.Warmup{Kind: setting.WarmupImportance, Windows: 4, Scope: setting.ScopeRequest}
		},
	} {
		t.Run(name, func(t *testing.T) {
			rows := func(spec policies.Spec) []result.Row {
				o := Options{Policies: []policies.Spec{spec, specs(t, "opt")[0]}, Capacities: capacities(t, "1x", "2x", "0.2ctx"), Per: PerStream, chunk: 1}
				change(&o)
				if o.Referee { // it has no policy of this name
					spec.Entry.Name = "lru"
					o.Policies[0] = spec
				}
				rows := mustRun(t, f, o)
				for i := range rows {
					r := &rows[i]
					r.Policy, r.PolicyFingerprint, r.DependsOn, r.Above = "", "", "", ""
				}
				return rows
			}
			spec, most := sharedSpec(t, 1<<40)
			got, want := rows(spec), rows(specs(t, "lru")[0])
			if !reflect.DeepEqual(got, want) {
				t.Errorf("the first rows are\n%+v\nexpected\n%+v", got[0], want[0])
			}
			alone := name == "profile" || name == "request"
			if n := most.Load(); alone != (n < 2) || n > 5 {
				t.Errorf("%d streams at once", n)
			}
		})
	}
}

// If a program breaks, the error is that of the stream in which it did.
func TestAbreastBreaks(t *testing.T) {
	f := manyStreams(t)
	for _, workers := range []int{1, 3} {
		spec, _ := sharedSpec(t, 40)
		_, err := Run(t.Context(), f, Options{Policies: []policies.Spec{spec}, Capacities: capacities(t, "1x"), Workers: workers, chunk: 1})
		if err == nil || !strings.Contains(err.Error(), "the program broke") {
			t.Errorf("%d workers: %v", workers, err)
		}
	}
}

// A policy in Go needs no lanes.
func TestAbreastOnlyForPrograms(t *testing.T) {
	p := &plan{}
	for _, e := range all.Table() {
		spec, err := all.Table().Parse(strings.TrimSuffix(e.Name+":"+e.Example, ":"))
		if err != nil || e.Name == "exec" {
			continue
		}
		p.cells = append(p.cells, cellPlan{spec: spec})
	}
	if n := p.lanes(); n != 1 {
		t.Errorf("%d lanes", n)
	}
}
