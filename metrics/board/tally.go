package board

import (
	"fmt"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// tally is counts that can be pooled: sums over streams.
type tally struct {
	streams, steps, demand, hits, misses, prefetched, moved int64
	bytes, written                                          *int64 // host to device, and back; nil without entry_bytes

	residentSum  float64 // resident_mean × steps
	residentPeak int64
	entriesSum   float64 // capacity_entries × streams
	entriesKnown bool

	lost                int64
	keptSum, coveredSum float64 // masses × steps
	massKnown           bool    // kept; coveredKnown of what is covered
	coveredKnown        bool
}

func tallyOf(r *result.Row) tally {
	t := tally{
		streams: r.Streams, steps: r.Steps, demand: r.Demand, hits: r.Hits, misses: r.Misses,
		prefetched: r.Prefetched, moved: r.MovedEntries, bytes: r.HostToDeviceBytes, written: r.DeviceToHostBytes,
		residentSum: r.ResidentMean * float64(r.Steps), residentPeak: r.ResidentPeak,
	}
	if r.CapacityEntries != nil {
		t.entriesSum, t.entriesKnown = float64(*r.CapacityEntries)*float64(r.Streams), true
	}
	t.lost = r.Lost
	if r.KeptMass != nil {
		t.keptSum, t.massKnown = *r.KeptMass*float64(r.Steps), true
	}
	if r.CoveredMass != nil {
		t.coveredSum, t.coveredKnown = *r.CoveredMass*float64(r.Steps), true
	}
	return t
}

func talliesOf(rows []*result.Row) []tally {
	tallies := make([]tally, len(rows))
	for i, r := range rows {
		tallies[i] = tallyOf(r)
	}
	return tallies
}

// sum pools counts: the only way in which this package combines them.
func sum(tallies []tally) tally {
	total := tallies[0]
	for _, t := range tallies[1:] {
		total.streams += t.streams
		total.steps += t.steps
		total.demand += t.demand
		total.hits += t.hits
		total.misses += t.misses
		total.prefetched += t.prefetched
		total.moved += t.moved
		total.bytes, total.written = addKnown(total.bytes, t.bytes), addKnown(total.written, t.written)
		total.residentSum += t.residentSum
		total.residentPeak = max(total.residentPeak, t.residentPeak)
		total.entriesSum += t.entriesSum
		total.entriesKnown = total.entriesKnown && t.entriesKnown
		total.lost += t.lost
		total.keptSum += t.keptSum
		total.coveredSum += t.coveredSum
		total.massKnown = total.massKnown && t.massKnown
		total.coveredKnown = total.coveredKnown && t.coveredKnown
	}
	return total
}

// addKnown is unknown when either is.
func addKnown(a, b *int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	s := *a + *b
	return &s
}

// differs names the first count in which two tallies of the same work differ, or "".
func (t tally) differs(u tally) string {
	if what := t.workDiffers(u); what != "" {
		return what
	}
	for _, c := range []struct {
		name string
		a, b int64
	}{
		{"misses", t.misses, u.misses}, {"lost", t.lost, u.lost}, {"prefetched", t.prefetched, u.prefetched},
		{"host_to_device_bytes", orZero(t.bytes), orZero(u.bytes)}, {"device_to_host_bytes", orZero(t.written), orZero(u.written)},
	} {
		if c.a != c.b {
			return fmt.Sprintf("%s %d and %d", c.name, c.a, c.b)
		}
	}
	return ""
}

// workDiffers compares what no policy can change: streams, steps and demand.
func (t tally) workDiffers(u tally) string {
	for _, c := range []struct {
		name string
		a, b int64
	}{{"streams", t.streams, u.streams}, {"steps", t.steps, u.steps}, {"demand", t.demand, u.demand}} {
		if c.a != c.b {
			return fmt.Sprintf("%s %d and %d", c.name, c.a, c.b)
		}
	}
	return ""
}

func orZero(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}
