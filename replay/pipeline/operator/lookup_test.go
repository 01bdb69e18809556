package operator

import (
	"strings"
	"testing"
)

// By hand: 4 caches of 255 blocks have 80 demanded blocks, of which 20 miss.
func TestLookups(t *testing.T) {
	machine, m := parts(t, "h100", "llama-3-8b")
	latency, threads := float64(machine.Host.Latency.Value), 4.
	load := &Load{Demand: 80, Fetched: 20, Resident: 4 * 255, Caches: 4}
	for name, want := range map[string]struct{ touches, bytes, gpu float64 }{
		"":       {80, 0, 80 * 96},
		"page":   {80, 0, 80 * 96},
		"hash":   {240, 0, 8*(1020+80) + 12*80},
		"sorted": {80 * 8, 0, 80 * (8 + 2) * 32},
		"list":   {0, 4 * 255 * (30 + 20), 4*255*(30+20) + 80*64},
	} {
		r := NewRoofline(Config{Machine: machine, Model: m, Threads: int(threads)})
		var err error
		if r.Lookup, err = ParseLookup(name); err != nil {
			t.Fatal(err)
		}
		gpu, host := r.lookup(load)
		near(t, name+" on the GPU", gpu*r.memory, want.gpu)
		rate := threads * float64(machine.Host.ThreadBandwidth.Value)
		near(t, name+" on the host", host, want.touches*latency/threads+want.bytes/rate)
	}
	if _, err := ParseLookup("lists"); err == nil || !strings.Contains(err.Error(), "list") {
		t.Errorf("lists: %v, expected an error that names list", err)
	}
}
