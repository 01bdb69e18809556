package allocate

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// Profile holds curves pooled over requests. Counts are summed, so long requests weigh more. Memory
// is per request.
type Profile struct {
	Problem
	Units
	Policy     string
	EntryBytes *int   // nil if the rows do not state it, and Point.Moved is then in entries
	Cost       CostOf // cost of windows, empty for capacities
	Requests   []Request
	Steps      int64 // decode steps, summed over requests
	Warnings   []string

	kEntries   int              // entries of 1x, 0 if the rows do not determine it
	fits       int              // smallest size from which on no step overflowed
	capacities map[string]int64 // entries per request by the capacity's text, averaged over the requests
}

// Pool makes the curves of some requests. Every request must have every layer and head. A curve has
// the sizes that all requests have for it, at least two.
func (c *Rows) Pool(requests []Request, cost CostOf) (*Profile, error) {
	switch {
	case len(requests) == 0:
		return nil, errors.New("no request is left to profile: change --requests, --exclude or --judge")
	case cost != MeanResidents && cost != PeakResidents:
		return nil, fmt.Errorf("cost %q: expected %s or %s", cost, MeanResidents, PeakResidents)
	}
	p := &Profile{Problem: Problem{Family: c.Family, Unit: c.sample.BlockTokens}, Policy: c.Policy,
		Units:      Units{c.sample.TopK, c.sample.BlockTokens, c.sample.StepTokens, c.sample.SharedHeads},
		EntryBytes: c.sample.EntryBytes, Requests: requests}
	if c.Family == Windows {
		p.Cost = cost
	}
	keys, err := c.keys(requests)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		curve := Curve{Key: key, Points: slice.Map(c.sizes(requests, key), func(size int) Point { return c.point(requests, key, size, cost) })}
		if n := len(curve.Points); n < 2 {
			return nil, fmt.Errorf("%v has %d sizes in all requests, a curve needs 2: replay with --capacity sweep, or --policy window:0-16", key, n)
		}
		p.Curves = append(p.Curves, curve)
	}
	c.rest(p)
	return p, nil
}

// keys returns the layers and heads, which must be equal in all requests.
func (c *Rows) keys(requests []Request) (keys []Key, err error) {
	keys = slices.SortedFunc(maps.Keys(c.parts[requests[0]]), compareKeys)
	for _, r := range requests[1:] {
		for _, key := range keys {
			if c.parts[r][key] == nil {
				return nil, fmt.Errorf("request %s of %s lacks rows of %v, which request %s of %s has: replay both with the same --layers", r.ID, r.Trace, key, requests[0].ID, requests[0].Trace)
			}
		}
		for _, key := range slices.SortedFunc(maps.Keys(c.parts[r]), compareKeys) {
			if _, ok := slices.BinarySearchFunc(keys, key, compareKeys); !ok {
				return nil, fmt.Errorf("request %s of %s has rows of %v, which request %s of %s lacks: replay both with the same --layers", r.ID, r.Trace, key, requests[0].ID, requests[0].Trace)
			}
		}
	}
	return keys, nil
}

// sizes returns the sizes that all requests have for a layer and head.
func (c *Rows) sizes(requests []Request, key Key) []int {
	return slice.Filter(slices.Sorted(maps.Keys(c.parts[requests[0]][key])), func(size int) bool {
		return !slices.ContainsFunc(requests[1:], func(r Request) bool {
			_, ok := c.parts[r][key][size]
			return !ok
		})
	})
}

func (c *Rows) point(requests []Request, key Key, size int, cost CostOf) Point {
	pt := Point{Size: size, Cost: int64(size)}
	var resident, steps, peak int64
	for _, request := range requests {
		r := c.parts[request][key][size]
		pt.Misses += r.Misses
		if r.HostToDeviceBytes != nil {
			pt.Moved += *r.HostToDeviceBytes
		} else {
			pt.Moved += r.MovedEntries
		}
		resident += int64(math.Round(r.ResidentMean * float64(r.Steps))) // a mean times its count is an integer again
		steps, peak = steps+r.Steps, max(peak, r.ResidentPeak)
	}
	switch unit := int64(c.sample.BlockTokens); {
	case c.Family == Capacities:
	case cost == PeakResidents:
		pt.Cost = peak * unit
	case steps > 0:
		pt.Cost = (resident*unit + steps - 1) / steps
	default:
		pt.Cost = 0
	}
	return pt
}

func (c *Rows) rest(p *Profile) {
	c.capacityTexts(p)
	p.kEntries = c.entriesOfK()
	for _, r := range p.Requests {
		for i := range p.Curves {
			p.fits = max(p.fits, c.fitsFrom(r, &p.Curves[i]))
		}
		row := c.parts[r][p.Curves[0].Key][p.Curves[0].Points[0].Size]
		p.Steps += row.Steps
		for _, w := range row.Warnings {
			if !strings.HasPrefix(w, "overflow:") { // a warning about the smallest size only
				p.Warnings = append(p.Warnings, w)
			}
		}
	}
	slices.Sort(p.Warnings)
	p.Warnings = slices.Compact(p.Warnings)
}

// fitsFrom returns the smallest size of a curve from which on no step of the request overflowed. If
// all sizes overflow, it returns the largest.
func (c *Rows) fitsFrom(r Request, curve *Curve) int {
	fits := curve.Points[0].Size
	for i, pt := range curve.Points {
		if c.parts[r][curve.Key][pt.Size].Overflow > 0 {
			fits = curve.Points[min(i+1, len(curve.Points)-1)].Size
		}
	}
	return fits
}

// capacityTexts fills in the capacities that all requests have for all curves.
func (c *Rows) capacityTexts(p *Profile) {
	p.capacities = map[string]int64{}
	for text, of := range c.capacities {
		sum, have := int64(0), true
		for _, r := range p.Requests {
			for _, curve := range p.Curves {
				entries, ok := of[r][curve.Key]
				sum, have = sum+entries, have && ok
			}
		}
		if have {
			p.capacities[text] = sum / int64(len(p.Requests))
		}
	}
}

// entriesOfK returns the entries of 1x. K is in the unit of the trace's lists, which rows do not
// state, and blocks may be larger. So it is the only unit that fits all capacities in K of the
// rows. It is 0 if no unit or several units fit.
func (c *Rows) entriesOfK() int {
	found, block := 0, c.sample.BlockTokens
	for unit := 1; unit <= block; unit++ {
		if block%unit == 0 && c.consistent(c.sample.TopK*unit) {
			if found > 0 {
				return 0
			}
			found = c.sample.TopK * unit
		}
	}
	return found
}

// consistent reports whether all rows of a capacity in K have the entries that follow from 1x = k
// entries.
func (c *Rows) consistent(k int) bool {
	for text, of := range c.capacities {
		size, err := parseSize(text)
		if err != nil || size.Form() != setting.TimesK {
			continue
		}
		blocks, _ := size.Blocks(setting.Sizing{TopK: k, BlockTokens: c.sample.BlockTokens})
		want := int64(blocks * c.sample.BlockTokens)
		for _, keys := range of {
			for _, have := range keys {
				if have != want {
					return false
				}
			}
		}
	}
	return true
}

// From is Problem.From for a profile.
func (p *Profile) From(floor int) (*Profile, error) {
	from := *p
	problem, err := p.Problem.From(floor)
	if err != nil {
		return nil, err
	}
	from.Problem = *problem
	return &from, nil
}
