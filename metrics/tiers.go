package metrics

import (
	"cmp"
	"slices"
	"strings"
)

// TierLine is a cache below the GPU's, under one cache above. Its demand is what that
// one misses, so tiers are ranked against nothing.
type TierLine struct {
	Trace string `json:"trace"`
	// Above are the caches above it, Tier is its place below the GPU's, from 1.
	Above    string `json:"above"`
	Tier     int    `json:"tier"`
	Policy   string `json:"policy"`
	Capacity string `json:"capacity"`
	// Demand and Misses are blocks, HitRate their hits ÷ demand, null without demand.
	Demand  int64    `json:"demand"`
	Misses  int64    `json:"misses"`
	HitRate *float64 `json:"hit_rate"`
	// ReadPerStep and WrittenPerStep are bytes a stream-step: read from below for the
	// tier above, and written from above; null without entry_bytes.
	ReadPerStep    *float64 `json:"read_bytes_per_step"`
	WrittenPerStep *float64 `json:"written_bytes_per_step"`

	name  string // "dram=lru@8x"
	steps int64
}

// splitTiers parts the rows of the GPU's cache from those of the tiers below.
func splitTiers(rows []*Row) (top, below []*Row) {
	return split(rows, func(r *Row) bool { return r.Tier == 0 })
}

// tierLines are the lines of lower tiers, by trace and the caches above. Rows at several
// levels of detail are counted once, as those of the GPU's cache are.
func tierLines(rows []*Row) ([]TierLine, error) {
	cells, err := newCells(rows)
	if err != nil {
		return nil, err
	}
	var lines []TierLine
	for _, c := range cells {
		r, t := c.sample, &c.total
		l := TierLine{Trace: c.trace, Above: r.Above, Tier: r.Tier, Policy: c.policy, Capacity: c.capacity, Demand: t.demand, Misses: t.misses,
			name: strings.Fields(r.Tiers)[r.Tier-1], steps: t.steps}
		if l.Demand > 0 {
			l.HitRate = number(ratio(l.Demand-l.Misses, l.Demand))
		}
		if t.bytes != nil && t.written != nil && l.steps > 0 {
			l.ReadPerStep, l.WrittenPerStep = number(ratio(*t.bytes, l.steps)), number(ratio(*t.written, l.steps))
		}
		lines = append(lines, l)
	}
	slices.SortStableFunc(lines, func(a, b TierLine) int {
		return cmp.Or(strings.Compare(a.Trace, b.Trace), compareNatural(a.Above, b.Above), cmp.Compare(a.Tier, b.Tier))
	})
	return lines, nil
}

func (b *Board) tierSection() section {
	tab := newTable("trace", "above", "tier", "demand", "misses", "hit rate", "read/step", "written/step")
	tab.rightFrom(3)
	for _, l := range b.Tiers {
		rate := notAvailable
		if l.HitRate != nil {
			rate = percentFigure(&Figure{Value: *l.HitRate})
		}
		tab.add(b.traceName(l.Trace), l.Above, l.name, countText(&l.Demand), countText(&l.Misses), rate, bytesText(l.ReadPerStep), bytesText(l.WrittenPerStep))
	}
	return section{"Tiers below the GPU's cache", tab, []string{"a tier's demand is what the one above misses; read from below, written from above; these rows are no part of the rankings"}}
}
