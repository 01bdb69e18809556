package transfer

import "testing"

// hand returns the example on which the levels are worked out. Blocks have 100 kB and take 4 µs
// each over the link. They take 20 µs from a drive of 80 µs in rounds. The layer has 1000 blocks.
func hand(direct bool) (*Tiers, Demand) {
	return &Tiers{
		Link:   plain(0, 0, 25e9),
		SSD:    &SSD{Latency: 80e-6, Bandwidth: 5e9, Depth: 2},
		Layout: Layout{EntryBytes: 100_000},
		Direct: direct,
	}, Demand{DRAM: 8, SSD: 2, Pinned: 1, Layer: 1000, Ahead: 60e-6}
}

// KVDrive's four levels, with 8 blocks in DRAM, 2 on the SSD and 60 µs of read-ahead: (a) 80 +
// 20000 + 4000. (b) 32 + (80 + 40) + 8. (c) max(32, 120 − 60) + 8. (d) With one of the two pinned:
// max(36, 100 − 60) + 4. Each is faster than the previous one, as in Figure 21a.
func TestLevels(t *testing.T) {
	tiers, demand := hand(false)
	for level, us := range map[Level]float64{LayerWise: 24080, Sparse: 160, Hierarchical: 68, Balanced: 44} {
		near(t, level.String(), tiers.Fetch(level, demand).Seconds, us*1e-6)
	}
	c := tiers.Fetch(Sparse, demand)
	if c.LinkBytes != 1_000_000 || c.SSDBytes != 200_000 || c.Reads != 2 {
		t.Errorf("sparse moves %+v", c)
	}
}

// Straight into the GPU: (a) 20080. (b) 32 + 120. (c) max(32 + max(0, 8 − 60), 60). (d) max(36,
// 40). At 4 GB/s, 2 blocks take 50 µs instead of 40 for the drive's bytes. This is less than the
// 120 that the drive needs anyway.
func TestDirect(t *testing.T) {
	tiers, demand := hand(true)
	for level, us := range map[Level]float64{LayerWise: 20080, Sparse: 152, Hierarchical: 60, Balanced: 40} {
		near(t, level.String(), tiers.Fetch(level, demand).Seconds, us*1e-6)
	}
	tiers.DirectRate = 1e9 // 200 µs
	near(t, "bounded", tiers.Fetch(Sparse, demand).Seconds, 232e-6)
}

// A link slower than the drive also limits direct reads, and their bytes pass it once. At 1 GB/s,
// 100 µs per block: (a) 100 ms. (b) 800 + 200. (c) 800 + (200 − 60). (d) 900 + (100 − 60).
func TestDirectOverSlowLink(t *testing.T) {
	tiers, demand := hand(true)
	tiers.Link = plain(0, 0, 1e9)
	for level, us := range map[Level]float64{LayerWise: 100_000, Sparse: 1000, Hierarchical: 940, Balanced: 940} {
		near(t, level.String(), tiers.Fetch(level, demand).Seconds, us*1e-6)
	}
	c := tiers.Fetch(LayerWise, demand)
	if c.LinkBytes != 100_000_000 {
		t.Errorf("layer-wise moves %d B over the link", c.LinkBytes)
	}
}

// An empty demand takes no time. If more is pinned than demanded, all of the demand is pinned.
func TestEmptyDemand(t *testing.T) {
	tiers, demand := hand(false)
	for level := LayerWise; level <= Balanced; level++ {
		if c := tiers.Fetch(level, Demand{Ahead: 1e-3}); c != (TierCost{}) {
			t.Errorf("%v: %+v", level, c)
		}
	}
	demand.Pinned = 5
	near(t, "all pinned", tiers.Fetch(Balanced, demand).Seconds, 40e-6)
}
