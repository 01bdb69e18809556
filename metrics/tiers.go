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

	name          string
	steps         int64
	read, written *int64
}

// splitTiers parts the rows of lower tiers, pooled over their parts, from those of the
// GPU's cache.
func splitTiers(rows []Row) (top []Row, lines []TierLine) {
	at := map[TierLine]int{}
	for i := range rows {
		r := &rows[i]
		if r.Tier == 0 {
			top = append(top, *r)
			continue
		}
		key := TierLine{Trace: r.Trace, Above: r.Above, Tier: r.Tier, Policy: r.Policy, name: strings.Fields(r.Tiers)[r.Tier-1]}
		n, known := at[key]
		if !known {
			n = len(lines)
			at[key] = n
			lines = append(lines, key)
		}
		l := &lines[n]
		l.Capacity = *r.Capacity
		l.Demand, l.Misses, l.steps = l.Demand+r.Demand, l.Misses+r.Misses, l.steps+r.Steps
		l.read, l.written = plus(l.read, r.HostToDeviceBytes), plus(l.written, r.DeviceToHostBytes)
	}
	for i := range lines {
		l := &lines[i]
		if l.Demand > 0 {
			l.HitRate = number(ratio(l.Demand-l.Misses, l.Demand))
		}
		if l.read != nil && l.steps > 0 {
			l.ReadPerStep, l.WrittenPerStep = number(ratio(*l.read, l.steps)), number(ratio(*l.written, l.steps))
		}
	}
	slices.SortStableFunc(lines, func(a, b TierLine) int {
		return cmp.Or(strings.Compare(a.Trace, b.Trace), compareNatural(a.Above, b.Above), cmp.Compare(a.Tier, b.Tier))
	})
	return top, lines
}

func plus(a, b *int64) *int64 {
	if a == nil || b == nil {
		return b
	}
	s := *a + *b
	return &s
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
