package result

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/optional"
	"github.com/kvreplay/kvreplay/internal/text"
)

// Part is the part of a cell that a row describes. The zero value is the whole cell.
type Part struct {
	Request        string // "" for all
	Layer, Head    int32
	Layered, Heads bool // whether it is of one layer, of one head
}

// PartOf returns the part of a row.
func PartOf(r *Row) Part {
	return Part{Request: optional.Or(r.RequestID, ""), Layer: optional.Or(r.LayerID, 0), Layered: r.LayerID != nil,
		Head: optional.Or(r.Head, 0), Heads: r.Head != nil}
}

// String names the part: "all", "request r1 layer 3 head 0".
func (p Part) String() string {
	var words []string
	if p.Request != "" {
		words = append(words, "request "+p.Request)
	}
	if p.Layered {
		words = append(words, "layer "+strconv.Itoa(int(p.Layer)))
	}
	if p.Heads {
		words = append(words, "head "+strconv.Itoa(int(p.Head)))
	}
	if words == nil {
		return "all"
	}
	return strings.Join(words, " ")
}

func (p Part) compare(q Part) int {
	if c := strings.Compare(p.Request, q.Request); c != 0 {
		return c
	}
	return cmp.Or(
		CompareBool(p.Layered, q.Layered), cmp.Compare(p.Layer, q.Layer),
		CompareBool(p.Heads, q.Heads), cmp.Compare(p.Head, q.Head),
	)
}

// CompareBool orders false before true.
func CompareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// CompareRows orders rows by cell and part, so that no result depends on the order in
// which they were read.
func CompareRows(a, b *Row) int {
	if c := CompareCells(a, b); c != 0 {
		return c
	}
	return PartOf(a).compare(PartOf(b))
}

// CompareCells orders rows by cell. Rows of one cell share their texts if they were read, and are
// equal at once.
func CompareCells(a, b *Row) int {
	if c := strings.Compare(a.Trace, b.Trace); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Tier, b.Tier); c != 0 {
		return c
	}
	if c := strings.Compare(a.Above, b.Above); c != 0 {
		return c
	}
	if c := strings.Compare(a.Policy, b.Policy); c != 0 || a.Capacity == b.Capacity {
		return c
	}
	if c := CompareBool(a.Capacity != nil, b.Capacity != nil); c != 0 {
		return c
	}
	return strings.Compare(*a.Capacity, *b.Capacity)
}

// SameCell reports whether two rows are of one cell.
func SameCell(a, b *Row) bool { return CompareCells(a, b) == 0 }

// SortRows sorts rows by cell and part. Rows of a file mostly are sorted.
func SortRows(rows []*Row) {
	if !slices.IsSortedFunc(rows, CompareRows) {
		slices.SortStableFunc(rows, CompareRows)
	}
}

// Unique drops rows that say the same as another, uniting their warnings. Two rows of
// one part of one cell with different counts are an error. The rows are sorted.
func Unique(rows []*Row) ([]*Row, error) {
	kept := make([]*Row, 0, len(rows))
	for _, r := range rows {
		if len(kept) == 0 || CompareRows(kept[len(kept)-1], r) != 0 {
			kept = append(kept, r)
			continue
		}
		last := kept[len(kept)-1]
		if f, differ := firstDifference(last, r); differ {
			return nil, fmt.Errorf("two rows of %s (%s) with different counts: %s %s and %s",
				CellName(last), PartOf(last), f.name, f.text(last), f.text(r))
		}
		if !slices.Equal(last.Warnings, r.Warnings) {
			both := *last
			both.Warnings = text.Union(last.Warnings, r.Warnings...)
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

// CellName names a row's cell in errors: "trace a, lru at 1.5x".
func CellName(r *Row) string {
	name := fmt.Sprintf("trace %s, %s at %s", r.Trace, r.Policy, OrDash(r.Capacity))
	if r.Tier > 0 {
		name += " below " + r.Above
	}
	return name
}
