package pipeline

import (
	"math"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// By hand: 4 caches of 255 blocks have 80 demanded blocks, of which 20 miss.
func TestLookups(t *testing.T) {
	machine, m := parts(t, "h100", "llama-3-8b")
	latency, threads := float64(machine.Host.Latency.Value), 4.
	load := &Load{Demand: 80, Missed: 20, Resident: 4 * 255, Caches: 4}
	for name, want := range map[string]struct{ touches, bytes, gpu float64 }{
		"":       {80, 0, 80 * 96},
		"page":   {80, 0, 80 * 96},
		"hash":   {240, 0, 8*(1020+80) + 12*80},
		"sorted": {80 * 8, 0, 80 * (8 + 2) * 32},
		"list":   {0, 4 * 255 * (30 + 20), 4*255*(30+20) + 80*64},
	} {
		r := NewRoofline(machine, m, Selection{}, 1, int(threads))
		var err error
		if r.structure, err = findStructure(name); err != nil {
			t.Fatal(err)
		}
		gpu, host := r.lookup(load)
		near(t, name+" on the GPU", gpu*r.memory, want.gpu)
		rate := threads * float64(machine.Host.ThreadBandwidth.Value)
		near(t, name+" on the host", host, want.touches*latency/threads+want.bytes/rate)
	}
	if _, err := findStructure("lists"); err == nil || !strings.Contains(err.Error(), "list") {
		t.Errorf("lists: %v, expected an error that names list", err)
	}
}

// On real misses, lookups in a page table take as long in a cache of 4 × K as in one of 1 × K.
// Lookups in lists take longer, as in KVDrive's Fig. 16.
func TestLookupGrowsWithTheCache(t *testing.T) {
	p := read(t, realProfile(t))
	large := *p
	large.Requests = make([]Request, len(p.Requests))
	for i := range p.Requests {
		for _, steps := range p.Requests[i].Steps {
			var more []Counts
			for _, c := range steps {
				c.Resident *= 4
				more = append(more, c)
			}
			large.Requests[i].Steps = append(large.Requests[i].Steps, more)
		}
	}
	for name, grows := range map[string]bool{"page": false, "hash": false, "sorted": true, "list": true} {
		o := options(t, p, "sequential:lookup=cpu")
		o.Lookup = name
		small, much := priced(t, p, o).Causes.Lookup, priced(t, &large, o).Causes.Lookup
		if !(small > 0) || (much > small*(1+1e-9)) != grows || math.IsInf(much, 0) {
			t.Errorf("%s takes %g s, and %g s in a cache of 4 times the size", name, small, much)
		}
	}
	o := options(t, p, "sequential")
	o.Lookup = "tree"
	if _, err := Price(t.Context(), p, o); err == nil || !strings.Contains(err.Error(), "unknown lookup") {
		t.Errorf("error %v, expected an unknown lookup", err)
	}
}

// A cache's blocks follow from the profile: heads, requests and scaling do not change them.
func TestBlocksOfACache(t *testing.T) {
	p := read(t, realProfile(t))
	for _, batch := range []int{1, 5} {
		o := options(t, p, "sequential")
		o.Batch = batch
		r, err := newRunner(t.Context(), p, o)
		fatal.If(t, err)
		seen := &spy{Computer: r.computer}
		r.computer = seen
		fatal.If(t, r.priceStep(3))
		want := float64(p.Requests[0].Steps[0][3].Resident) / float64(p.Heads)
		near(t, "blocks of a cache", seen.loads[0].Resident/seen.loads[0].Caches, want)
	}
}

// spy records the loads that it passes on.
type spy struct {
	Computer
	loads []Load
}

func (s *spy) Layer(layer int, l *Load) (Operators, error) {
	s.loads = append(s.loads, *l)
	return s.Computer.Layer(layer, l)
}
