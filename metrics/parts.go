package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// part says which part of a cell a row is. The zero value is the whole cell.
type part struct {
	request        string // "" for all
	layer, head    int32
	layered, heads bool // one layer, one head
}

func partOf(r *Row) part {
	var p part
	if r.RequestID != nil {
		p.request = *r.RequestID
	}
	if r.LayerID != nil {
		p.layer, p.layered = *r.LayerID, true
	}
	if r.Head != nil {
		p.head, p.heads = *r.Head, true
	}
	return p
}

// String names the part: "all", "request r1 layer 3 head 0".
func (p part) String() string {
	var words []string
	if p.request != "" {
		words = append(words, "request "+p.request)
	}
	if p.layered {
		words = append(words, "layer "+strconv.Itoa(int(p.layer)))
	}
	if p.heads {
		words = append(words, "head "+strconv.Itoa(int(p.head)))
	}
	if words == nil {
		return "all"
	}
	return strings.Join(words, " ")
}

func (p part) compare(q part) int {
	return cmp.Or(
		strings.Compare(p.request, q.request),
		compareBool(p.layered, q.layered), cmp.Compare(p.layer, q.layer),
		compareBool(p.heads, q.heads), cmp.Compare(p.head, q.head),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// compareRows orders rows by cell and part, so that no result depends on the order in
// which they were read.
func compareRows(a, b *Row) int {
	return cmp.Or(
		strings.Compare(a.Trace, b.Trace), cmp.Compare(a.Tier, b.Tier), strings.Compare(a.Above, b.Above), strings.Compare(a.Policy, b.Policy),
		compareBool(a.Capacity != nil, b.Capacity != nil), strings.Compare(orDash(a.Capacity), orDash(b.Capacity)),
		partOf(a).compare(partOf(b)),
	)
}

// unique drops rows that say the same as another, uniting their warnings. Two rows of
// one part of one cell with different counts are an error. The rows are sorted.
func unique(rows []*Row) ([]*Row, error) {
	var kept []*Row
	for _, r := range rows {
		if len(kept) == 0 || compareRows(kept[len(kept)-1], r) != 0 {
			kept = append(kept, r)
			continue
		}
		last := kept[len(kept)-1]
		if f, differ := firstDifference(last, r); differ {
			return nil, fmt.Errorf("two rows of %s (%s) with different counts: %s %s and %s",
				cellName(last), partOf(last), f.name, f.text(last), f.text(r))
		}
		if !slices.Equal(last.Warnings, r.Warnings) {
			both := *last
			both.Warnings = unite(last.Warnings, r.Warnings)
			kept[len(kept)-1] = &both
		}
	}
	return kept, nil
}

// firstDifference finds the first field but the warnings in which two rows differ.
func firstDifference(a, b *Row) (field, bool) {
	for _, f := range rowFields {
		if f.scalar() && !f.same(a, b) {
			return f, true
		}
	}
	return field{}, false
}

// cellName names a row's cell in errors: "trace a, lru at 1.5x".
func cellName(r *Row) string {
	name := fmt.Sprintf("trace %s, %s at %s", r.Trace, r.Policy, orDash(r.Capacity))
	if r.Tier > 0 {
		name += " below " + r.Above
	}
	return name
}
