package render

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kvreplay/kvreplay/internal/optional"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// mostHeat is the number of pairs of layer and head of all heat maps of a page together, because
// pages are small.
const mostHeat = 20_000

// pageHeat is the misses and the demand of a policy on a trace at a capacity by layer and head, in
// blocks over all requests. A list has the heads of the first layer, then those of the next. A head
// of -1 stands for all heads of a layer. Demand is 0 if a layer lacks a head.
type pageHeat struct {
	Trace    int     `json:"t"`
	Capacity int     `json:"c"`
	Policy   int     `json:"p"`
	Layers   []int32 `json:"layers"`
	Heads    []int32 `json:"heads"`
	Misses   []int64 `json:"m"`
	Demand   []int64 `json:"d"`
}

// addHeat adds the heat maps of rows by layer or by stream, those of policies in focus first. If
// there are more than mostHeat pairs, it leaves the other maps out and counts them.
func (d *pageData) addHeat(rows []result.Row, index pageIndex) error {
	type key struct{ policy, trace, capacity int }
	cells := map[key][]*result.Row{}
	for i := range rows {
		r := &rows[i]
		if r.LayerID == nil || r.Capacity == nil || r.Tier != 0 || r.Lossy {
			continue
		}
		policy, ok := index.policies[r.Policy]
		capacity, ok2 := index.capacities[*r.Capacity]
		if !ok || !ok2 {
			continue
		}
		k := key{policy, index.traces[r.Trace], capacity}
		cells[k] = append(cells[k], r)
	}
	keys := slices.Collect(maps.Keys(cells))
	slice.Sort(keys, func(a, b key) int {
		if fa, fb := d.Policies[a.policy].Focus, d.Policies[b.policy].Focus; fa != fb {
			return map[bool]int{true: -1, false: 1}[fa]
		}
		return slices.Compare([]int{a.policy, a.trace, a.capacity}, []int{b.policy, b.trace, b.capacity})
	})
	pairs := 0
	for _, k := range keys {
		finest, err := finestRows(cells[k])
		if err != nil {
			return err
		}
		h := newPageHeat(finest)
		if pairs += len(h.Misses); pairs > mostHeat {
			d.HeatLeft++
			continue
		}
		h.Trace, h.Capacity, h.Policy = k.trace, k.capacity, k.policy
		d.Heat = append(d.Heat, h)
	}
	return nil
}

// finestRows returns the rows of layers of a cell, each repeated row once. It keeps the rows by head of a
// layer with both, and the rows by request of a layer with both. Then it refuses different misses and
// different demand. It sorts the rows.
func finestRows(rows []*result.Row) ([]*result.Row, error) {
	result.SortRows(rows)
	rows, err := result.Unique(rows)
	if err != nil {
		return nil, err
	}
	part := func(r *result.Row) string { p := result.PartOf(r); p.Head, p.Heads = 0, false; return p.String() }
	rows, err = finestOf(rows, part, func(r *result.Row) bool { return r.Head != nil }, "by head and by layer")
	if err != nil {
		return nil, err
	}
	layer := func(r *result.Row) string { return fmt.Sprintf("layer %d", *r.LayerID) }
	return finestOf(rows, layer, func(r *result.Row) bool { return r.RequestID != nil }, "by request and pooled")
}

// finestOf returns the fine rows of each group of rows that has some, and all rows of the other groups.
func finestOf(rows []*result.Row, group func(*result.Row) string, isFine func(*result.Row) bool, levels string) (finest []*result.Row, err error) {
	for _, g := range result.GroupBy(rows, group) {
		fine, coarse := result.Split(g.Rows, isFine)
		if fine == nil || coarse == nil {
			finest = append(finest, g.Rows...)
			continue
		}
		if a, b := sumOf(fine), sumOf(coarse); a != b {
			return nil, fmt.Errorf("rows %s differ in misses or demand (%s, %s): choose rows of one replay", levels, result.CellName(fine[0]), g.Key)
		}
		finest = append(finest, fine...)
	}
	return finest, nil
}

// sumOf returns the misses and the demand of rows.
func sumOf(rows []*result.Row) (sum [2]int64) {
	for _, r := range rows {
		sum[0], sum[1] = sum[0]+r.Misses, sum[1]+r.Demand
	}
	return sum
}

// newPageHeat sums rows by layer and head.
func newPageHeat(rows []*result.Row) (h pageHeat) {
	head := func(r *result.Row) int32 { return optional.Or(r.Head, -1) }
	for _, r := range rows {
		h.Layers, h.Heads = append(h.Layers, *r.LayerID), append(h.Heads, head(r))
	}
	slices.Sort(h.Layers)
	slices.Sort(h.Heads)
	h.Layers, h.Heads = slices.Compact(h.Layers), slices.Compact(h.Heads)
	h.Misses, h.Demand = make([]int64, len(h.Layers)*len(h.Heads)), make([]int64, len(h.Layers)*len(h.Heads))
	for _, r := range rows {
		layer, _ := slices.BinarySearch(h.Layers, *r.LayerID)
		column, _ := slices.BinarySearch(h.Heads, head(r))
		i := layer*len(h.Heads) + column
		h.Misses[i], h.Demand[i] = h.Misses[i]+r.Misses, h.Demand[i]+r.Demand
	}
	return h
}
