package result

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
)

var (
	// identityFields distinguish the cells of results. Rows that agree in all of them are of one cell,
	// so that rows of a new replay replace old ones. The engine and the fields that describe a policy
	// are not among them: a changed engine or policy replaces its rows.
	identityFields = append(fieldsNamed("trace", "trace_digest", "policy", "capacity", "tier", "above"),
		settingsThat(func(role string) bool { return role != "about" && role != "version" })...)
	versionFields = append(settingsThat(func(role string) bool { return role == "version" }),
		fieldsNamed(append([]string{"policy_fingerprint", "depends_on"}, policySettings...)...)...)
)

func fieldsNamed(names ...string) []field {
	return slice.Map(names, func(name string) field { return rowFields[fieldIndex[name]] })
}

// CellID returns a text that all rows of one cell at one level of detail share, and no others have.
// Rows by request and rows pooled over requests are two levels.
func (r *Row) CellID() string {
	level := "cell"
	switch {
	case r.RequestID != nil && r.LayerID != nil:
		level = "stream"
	case r.RequestID != nil:
		level = "request"
	case r.LayerID != nil:
		level = "layer"
	}
	return level + "\x00" + r.texts(identityFields)
}

// version returns a text that rows of the same engine and policy share.
func (r *Row) version() string { return r.texts(versionFields) }

// texts joins the values of fields. A text in a row has no control character.
func (r *Row) texts(fields []field) string {
	var b strings.Builder
	for _, f := range fields {
		b.WriteString(f.text(r))
		b.WriteByte(0)
	}
	return b.String()
}

// MergeRows returns the rows of both in canonical order: by trace, cache, policy, capacity and
// part. If newer has rows of a cell, it replaces all older rows of that cell.
func MergeRows(newer, older []Row) []Row {
	type keyed struct {
		row *Row
		id  string
	}
	all := make([]keyed, 0, len(newer)+len(older))
	replaced := map[string]bool{}
	for i := range newer {
		id := newer[i].CellID()
		replaced[id] = true
		all = append(all, keyed{&newer[i], id})
	}
	for i := range older {
		if id := older[i].CellID(); !replaced[id] {
			all = append(all, keyed{&older[i], id})
		}
	}
	order := func(a, b keyed) int { return cmp.Or(CompareRows(a.row, b.row), strings.Compare(a.id, b.id)) }
	slices.SortStableFunc(all, func(a, b keyed) int { return cmp.Or(order(a, b), slices.Compare(a.row.Warnings, b.row.Warnings)) })
	rows := make([]Row, 0, len(all))
	for i := range all {
		if i == 0 || order(all[i-1], all[i]) != 0 {
			rows = append(rows, *all[i].row)
		}
	}
	return rows
}

// Pointers returns the addresses of rows. Rows are large, and callers sort, split and group them
// many times.
func Pointers(rows []Row) []*Row {
	all := make([]*Row, len(rows))
	for i := range rows {
		all[i] = &rows[i]
	}
	return all
}

// Split divides rows by a condition. Both parts keep their order.
func Split(rows []*Row, first func(*Row) bool) (yes, no []*Row) {
	return slice.Partition(rows, func(r **Row) bool { return first(*r) })
}
