package board

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// TierLine is a cache below the GPU's, under one cache above. Its demand is the misses of that
// cache, so tiers are not ranked.
type TierLine struct {
	Trace string `json:"trace"`
	// Above are the caches above it. Tier is its place below the GPU's, from 1.
	Above    string `json:"above"`
	Tier     int    `json:"tier"`
	Policy   string `json:"policy"`
	Capacity string `json:"capacity"`
	// Demand and Misses are blocks. HitRate is hits ÷ demand, null without demand.
	Demand  int64    `json:"demand"`
	Misses  int64    `json:"misses"`
	HitRate *float64 `json:"hit_rate"`
	// ReadPerStep and WrittenPerStep are bytes per stream-step: read from below for the tier above,
	// and written from above. They are null without entry_bytes.
	ReadPerStep    *float64 `json:"read_bytes_per_step"`
	WrittenPerStep *float64 `json:"written_bytes_per_step"`

	// Name is the tier with its cache, "dram=lru@8x".
	Name string `json:"-"`
	// Steps are the stream-steps.
	Steps int64 `json:"-"`
}

// splitTiers separates the rows of the GPU's cache from those of the tiers below.
func splitTiers(rows []*result.Row) (top, below []*result.Row) {
	return result.Split(rows, func(r *result.Row) bool { return r.Tier == 0 })
}

// tierLines returns the lines of lower tiers, by trace and the caches above.
func tierLines(cells []*cell) []TierLine {
	var lines []TierLine
	for _, c := range cells {
		r, t := c.sample, &c.total
		l := TierLine{Trace: c.trace, Above: r.Above, Tier: r.Tier, Policy: c.policy, Capacity: c.capacity, Demand: t.demand, Misses: t.misses,
			Name: strings.Fields(r.Tiers)[r.Tier-1], Steps: t.steps}
		if l.Demand > 0 {
			l.HitRate = Number(text.Ratio(l.Demand-l.Misses, l.Demand))
		}
		if t.bytesKnown && l.Steps > 0 {
			l.ReadPerStep, l.WrittenPerStep = Number(text.Ratio(t.bytes, l.Steps)), Number(text.Ratio(t.written, l.Steps))
		}
		lines = append(lines, l)
	}
	slices.SortStableFunc(lines, func(a, b TierLine) int {
		return cmp.Or(strings.Compare(a.Trace, b.Trace), compareNatural(a.Above, b.Above), cmp.Compare(a.Tier, b.Tier))
	})
	return lines
}
