package result

import "reflect"

// Difference is a field in which two rows differ, with both values as text: a list as JSON, "null"
// for no value.
type Difference struct {
	Field       string
	This, Other string
}

// Differences lists the fields in which r and o differ, in file order. Means are compared to nine
// digits. A null list equals an empty list.
func (r *Row) Differences(o *Row) []Difference {
	var all []Difference
	for _, f := range rowFields {
		if !f.equal(r, o) {
			all = append(all, Difference{f.name, f.listText(r), f.listText(o)})
		}
	}
	return all
}

func (f *field) equal(r, o *Row) bool {
	switch f.kind.Kind() {
	case reflect.Float64:
		return near(f.value(r).Float(), f.value(o).Float())
	case reflect.Slice:
		return f.listText(r) == f.listText(o)
	}
	return f.same(r, o)
}

// listText is text for every field, lists too.
func (f *field) listText(r *Row) string {
	if f.scalar() {
		return f.text(r)
	}
	if text := f.csvText(r); text != "" {
		return text
	}
	return "[]"
}
