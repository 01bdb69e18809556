package run

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// peekers returns the names of all policies that support swaps.
func peekers(t *testing.T) (names []string) {
	for _, e := range all.Table() {
		spec, err := all.Table().Parse(strings.TrimSuffix(e.Name+":"+e.Example, ":"))
		fatal.If(t, err)
		if _, ok := spec.Make().(policies.Peeker); ok {
			names = append(names, spec.Name())
		}
	}
	return names
}

// The engine and the referee agree on swaps, with every policy that supports them and every shape.
func TestSwapAgreesWithReferee(t *testing.T) {
	b := bench{swaps: true}
	names := peekers(t)
	if text := strings.Join(names, " "); text != "fifo lfu lookahead lru" {
		t.Fatalf("%s can be swapped into: messages and documents name fifo, lfu, lookahead, lru", text)
	}
	var total cache.Counts
	for seed := uint64(0); seed < draws(600); seed++ {
		r := rand.New(rand.NewPCG(seed, 92))
		streams, p := drawShape(r)
		b.prefetch = setting.PrefetchEcho
		if p.ranks && p.m > p.topk && r.IntN(2) == 0 {
			b.prefetch = setting.PrefetchCandidates
		}
		if streams[0].Rows == streams[0].Windows {
			continue
		}
		if r.IntN(3) == 0 {
			p.opt.Outliers = setting.Outliers{Source: setting.OutliersWindows, Count: 1 + r.IntN(p.topk)}
		}
		b.staging = 1 + r.IntN(p.topk+2)
		for _, name := range names {
			if spec, _ := all.Table().Parse(name); p.whyUnfit(spec, policies.NeedsOf(spec.Make())) != "" {
				continue
			}
			counts := b.runShared(t, p, streams, name, 1+r.IntN(3*p.topk))
			if counts.PrefetchUseless < 0 {
				t.Fatalf("%+v", counts)
			}
			total.Add(&counts)
		}
		if t.Failed() {
			t.Fatalf("seed %d: %d heads, layout %+v, swaps of %d", seed, len(streams), p.layout, b.staging)
		}
	}
	if least := int64(draws(500)); total.PrefetchUseful < least || total.PrefetchLate < least || total.PrefetchUseless < least {
		t.Errorf("%+v: expected thousands of useful, late and useless swaps", total)
	}
}

// peeking checks that the first victim of each eviction is the block that Peek named.
type peeking struct {
	policies.Policy
	t     *testing.T
	peeks int
}

func (p *peeking) Evict(n int, dst []int32) []int32 {
	x, ok := p.Policy.(policies.Peeker).Peek()
	from := len(dst)
	dst = p.Policy.Evict(n, dst)
	if victims := dst[from:]; n > 0 && (!ok || victims[0] != x) {
		p.t.Fatalf("names %d (%v) as the next victim, evicts %v", x, ok, victims)
	}
	p.peeks++
	return dst
}

func TestPeekNamesTheNextVictim(t *testing.T) {
	var b bench
	for _, name := range peekers(t) {
		spec, _ := all.Table().Parse(name)
		p := &peeking{Policy: spec.Make(), t: t}
		b.runners = map[string]*cache.Cell{name: cache.NewCell(p.Policy)}
		b.runners[name].Policy = p
		for seed := uint64(0); seed < draws(300); seed++ {
			r := rand.New(rand.NewPCG(seed, 93))
			streams, plan := drawShape(r)
			if streams[0].Rows > streams[0].Windows && plan.whyUnfit(spec, policies.NeedsOf(p.Policy)) == "" {
				b.runShared(t, plan, streams, name, 1+r.IntN(2*plan.topk))
			}
		}
		if p.peeks < 300 {
			t.Errorf("%s: %d evictions", name, p.peeks)
		}
	}
}

func TestSwapErrors(t *testing.T) {
	f := manyStreams(t)
	for text, want := range map[string]string{"predicted:8,swap": "have no ranks", "candidates:8,swop": "candidates:64,swap", "candidates:,swap": "expected a SIZE"} {
		if p, err := setting.ParsePrefetch(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("prefetch %q reads as %v, %v", text, p, err)
		}
	}
	prefetch, err := setting.ParsePrefetch("candidates:8,swap")
	if err != nil || prefetch.String() != "candidates:8,swap" {
		t.Fatalf("%v, %v", prefetch, err)
	}
	for _, name := range []string{"window:2", "opt", "sieve", "none"} {
		o := Options{Policies: specs(t, name), Capacities: capacities(t, "2x"), TopK: 16, Prefetch: prefetch}
		if _, err := Run(context.Background(), f, o); err == nil || !strings.Contains(err.Error(), "--prefetch SOURCE,swap do not combine") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
