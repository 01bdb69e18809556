package pipeline

import "testing"

// Counts that are scaled from K = 256 to 2048 would keep 8 × (512 + 1) entries of a request,
// and no cache keeps more than its context has.
func TestCacheIsWithinContext(t *testing.T) {
	p := read(t, realProfile(t, "dram=lru@4x"))
	o := options(t, p, "sequential")
	var err error
	if o.Scaling, err = NewScaling(p, o.Model, "nearest", 2048); err != nil {
		t.Fatal(err)
	}
	o.Batch = 3
	const entry, layers = 768., 30.
	for context, want := range map[int64]float64{2048: 2048, 4096: 4096, 4098: 4097, 65536: 4097} { // the 1 is the token being generated
		o.Context = context
		m, err := Need(t.Context(), p, o)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "reserve", m.Reserve, o.Reserve*float64(o.Machine.GPU.Memory.Value))
		near(t, "sum", m.GPU, m.Weights+m.Index+m.Cache+m.Staging+m.Reserve)
		each := 3 * entry * layers
		if below := m.Host / each / float64(o.Machine.GPUs); m.Cache != want*each || below > float64(context) {
			t.Errorf("context %d: caches of %g and %g entries, expected %g and at most the context", context, m.Cache/each, below, want)
		}
	}
}
