package run

import (
	"fmt"
	"os"
	"slices"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay/cache"
)

// rows returns the result rows: cells in the requested order, and the parts of a cell in stream
// order. It saves new cells in the store.
func (p *plan) rows(total [][]tally) ([]result.Row, error) {
	rows := make([]result.Row, 0, len(p.cells)*len(p.parts))
	for c := range p.cells {
		from := len(rows)
		rows = append(rows, p.kept[c]...)
		if p.kept[c] == nil {
			settings := p.settingRow(&p.cells[c])
			for j := range p.parts {
				rows = append(rows, p.row(settings, &p.cells[c], &p.parts[j], &total[c][j]))
			}
			if p.opt.Store != nil {
				if err := p.opt.Store.save(p.key(&p.cells[c]), rows[from:]); err != nil {
					return nil, err
				}
			}
		}
		for _, path := range p.outdated[c].files {
			_ = os.Remove(path) // if this fails, no run reads the file
		}
		p.kept[c] = slices.Clip(rows[from:]) // shares memory with rows
	}
	return rows, nil
}

// settingRow returns the shared part of a cell's rows: settings and traits, without counts.
func (p *plan) settingRow(c *cellPlan) result.Row {
	does, traits, labels := p.behaviours(c), c.spec.Entry.Traits, p.traceLabels()
	if traits.Offline {
		labels = labels.With(result.LabelOraclePolicy)
	}
	r := result.Row{
		Schema: result.RowSchema, Setting: p.setting,
		Policy: c.spec.Name(), Options: c.spec.Options, PolicyFingerprint: does[0].fingerprint, DependsOn: dependsOn(does[1:]),
		Offline: traits.Offline, Bypasses: c.spec.Bypasses(), Lossy: traits.Lossy, Tier: c.tier, Above: c.above,
		Labels: labels.String(), Warnings: slices.Clone(p.warnings),
	}
	if c.capacity != nil {
		r.Capacity = new(c.capacity.String())
	}
	if r.SelectorRecall != nil && p.topk != p.meta.TopK {
		r.Warnings = append(r.Warnings, fmt.Sprintf("selector_recall was measured at K = %d, not at %d", p.meta.TopK, p.topk))
	}
	r.Warnings = slices.Clip(r.Warnings)
	return r
}

func (p *plan) traceLabels() (labels result.Labels) {
	if p.meta.Synthetic() {
		labels = labels.With(result.LabelSynthetic)
	}
	first := p.selected(0).Request
	for i := range p.streams {
		if p.selected(i).Request != first {
			return labels
		}
	}
	return labels.With(result.LabelOneRequest)
}

// row returns the row of a part of a cell. r has the settings of the cell.
func (p *plan) row(r result.Row, c *cellPlan, at *part, t *tally) result.Row {
	n := &t.Counts
	r.RequestID, r.LayerID, r.Head = at.request, at.layer, at.head
	r.Streams, r.Steps, r.Demand, r.Hits, r.Misses = n.Streams, n.Steps, n.Demand, n.Demand-n.Misses, n.Misses
	r.Evictions, r.Births, r.Overflow, r.ResidentPeak = n.Evictions, n.Births, n.Overflow, n.ResidentPeak
	r.Prefetched, r.PrefetchUseful, r.PrefetchLate, r.PrefetchUseless = n.Prefetched, n.PrefetchUseful, n.PrefetchLate, n.PrefetchUseless
	if n.Steps > 0 {
		r.DemandMean = float64(n.Demand) / float64(n.Steps)
		r.ResidentMean = float64(n.ResidentSum) / float64(n.Steps)
	}
	if c.capacity != nil && t.Least == t.Most {
		r.CapacityEntries = new(t.Least)
	}
	if p.entryBytes != nil {
		in := n.Moved * int64(*p.entryBytes)
		out := n.Positions * int64(p.layout.Heads) * int64(*p.entryBytes)
		if c.tier > 0 {
			out = n.Births * p.layout.Unit(p.pins) * int64(*p.entryBytes)
		}
		r.HostToDeviceBytes, r.DeviceToHostBytes = &in, &out
	}
	p.entries(c, &r, n)
	p.losses(&r, n)
	r.Warnings = append(r.Warnings, p.sizeWarnings(c, t)...)
	if n.Demand == 0 && n.Steps > 0 && c.tier == 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("no demand: all selected blocks are pinned (sink %d, local %d, blocks of %d tokens)", p.pins.Sink, p.pins.Local, p.pins.BlockTokens))
	}
	if n.Overflow > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("overflow: the demand exceeded the capacity by %d blocks in all", n.Overflow))
	}
	return r
}

// sizeWarnings warns about capacities of the GPU's cache at which policies hardly differ. Such a
// capacity holds a whole context, or less than the demand of a step.
func (p *plan) sizeWarnings(c *cellPlan, t *tally) (warnings []string) {
	if c.capacity == nil || c.tier > 0 {
		return nil
	}
	if t.Whole > 0 {
		warnings = append(warnings, fmt.Sprintf("capacity %v is larger than the context in %d of %d streams: they need no evictions", c.capacity, t.Whole, t.Counts.Streams))
	}
	least := t.Least
	if c.spec.Entry.Traits.Lossy {
		least = t.Most // a Divider may give some streams less than the capacity
	}
	if k := int64(p.topk * p.meta.BlockTokens); least < k && c.capacity.Peak() == "" {
		warnings = append(warnings, fmt.Sprintf("capacity %v is below K: a stream keeps %d entries, and a full demand has %d", c.capacity, least, k))
	}
	return warnings
}

func (p *plan) losses(r *result.Row, n *cache.Counts) {
	if !r.Lossy {
		return
	}
	recall := result.RecallOf(n.Demand, n.Lost)
	r.Lost, r.Recall = n.Lost, &recall
	r.Hits = n.Demand - n.Lost
	if r.DeviceToHostBytes != nil {
		*r.DeviceToHostBytes = 0 // lossy policies write nothing back
	}
	a, steps := p.attention(), cache.MassUnit*float64(n.Steps)
	if (a.Masses || a.Covered) && n.Steps > 0 {
		r.CoveredMass = new(float64(n.CoveredMass) / steps)
	}
	if a.Masses && n.Steps > 0 {
		r.KeptMass = new(float64(n.KeptMass) / steps)
	}
}

// entries fills the columns that count entries. If a block is one entry, they equal the columns
// that count blocks.
func (p *plan) entries(c *cellPlan, r *result.Row, n *cache.Counts) {
	r.MovedEntries, r.StagingPeakEntries, r.PinnedPeakEntries = n.Moved, n.StagingPeak, n.PinnedPeak
	picked, missed := n.Demand, n.Misses
	switch {
	case p.meta.BlockTokens > 1:
		return // the trace lists whole blocks, so the demanded entries are unknown
	case p.layout.HasPicked() && c.tier > 0:
		return // the demand of a lower tier is whole blocks
	case p.layout.HasPicked():
		picked, missed = n.Picked, n.Missed
	}
	r.DemandEntries, r.MissedEntries = &picked, &missed
	if missed > 0 && n.Prefetched == 0 {
		r.ReadAmplification = new(float64(n.Moved) / float64(missed))
	}
}
