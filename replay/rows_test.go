package replay

import "testing"

// Bytes are entries times the bytes of one: what a cache moves, and what goes back, which is
// what the steps decode, whatever the policy, the capacity and the shape of blocks and steps.
func TestRowBytes(t *testing.T) {
	f := manyStreams(t)
	bytes := 100
	base := Options{Policies: specs(t, "lru", "opt"), Capacities: capacities(t, "1x", "2x"), EntryBytes: &bytes}
	const decoded = 3 * 4 * 2 * 40 // requests, layers, heads, steps
	for name, change := range map[string]func(*Options){
		"as recorded":  func(*Options) {},
		"blocks":       func(o *Options) { o.Shape.BlockTokens = 4 },
		"shared heads": func(o *Options) { o.Shape.ShareHeads = true },
		"steps":        func(o *Options) { o.Shape.StepTokens = 4 },
		"all of them":  func(o *Options) { o.Shape = Shape{BlockTokens: 4, ShareHeads: true, StepTokens: 4} },
	} {
		o := base
		change(&o)
		for _, r := range mustRun(t, f, o) {
			if *r.HostToDeviceBytes != r.MovedEntries*100 || *r.DeviceToHostBytes != decoded*100 {
				t.Errorf("%s, %s: %d and %d bytes, expected %d and %d", name, r.Policy, *r.HostToDeviceBytes, *r.DeviceToHostBytes, r.MovedEntries*100, decoded*100)
			}
			if r.MovedEntries != r.Misses*int64(r.BlockTokens)*int64(r.SharedHeads) || r.Misses == 0 {
				t.Errorf("%s, %s: %d entries of %d missed blocks", name, r.Policy, r.MovedEntries, r.Misses)
			}
		}
	}
}

// Bytes of a tier below are those that it reads from below and those that it was given.
func TestTierBytes(t *testing.T) {
	f := manyStreams(t)
	bytes := 100
	o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "1x"), EntryBytes: &bytes, Tiers: tiers(t, "dram=lru@2x"), Shape: Shape{BlockTokens: 4, ShareHeads: true}}
	rows := mustRun(t, f, o)
	if len(rows) != 2 || rows[1].Tier != 1 {
		t.Fatalf("rows %+v", rows)
	}
	const block = 4 * 2 * 100
	if r := &rows[1]; *r.HostToDeviceBytes != r.Misses*block || *r.DeviceToHostBytes != r.Births*block || r.Births == 0 || r.Misses == 0 {
		t.Errorf("%d and %d bytes of %d misses and %d blocks given", *r.HostToDeviceBytes, *r.DeviceToHostBytes, r.Misses, r.Births)
	}
}
