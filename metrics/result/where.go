package result

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// A Where selects rows by their fields. The zero value selects all.
type Where struct{ conditions []condition }

// condition requires that a row's field has the value or, negated, that it does not.
type condition struct {
	field  field
	value  string // in the form of field.text
	negate bool
}

// ParseWhere reads conditions "key=value" and "key!=value". key is any field of a row except the
// warnings. value is its text, "null" for none. The name of a policy matches in any case, and
// without options it matches the policy with any options. A trace matches with or without the
// extension of its file. One label matches all sets that contain
// it. Several values of one key are alternatives. Different keys, and every !=, must all hold.
func ParseWhere(texts []string) (Where, error) {
	var w Where
	for _, text := range texts {
		c, err := parseCondition(text)
		if err != nil {
			return Where{}, fmt.Errorf("condition %q: %w", text, err)
		}
		w.conditions = append(w.conditions, c)
	}
	return w, nil
}

func parseCondition(text string) (condition, error) {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return condition{}, fmt.Errorf("want key=value or key!=value")
	}
	key, negate := strings.CutSuffix(key, "!")
	f, err := fieldNamed(key)
	if err != nil {
		return condition{}, err
	}
	if !f.scalar() {
		return condition{}, fmt.Errorf("field %s is a list", f.name)
	}
	var probe Row
	if err := f.parse(&probe, value); err != nil {
		return condition{}, err
	}
	probe.spellCapacity()
	return condition{f, f.text(&probe), negate}, nil
}

// Filter returns the rows that the conditions select. If there are rows but none is selected, the
// error lists the existing values.
func (w Where) Filter(rows []Row) ([]Row, error) {
	if w.conditions == nil {
		return rows, nil
	}
	var kept []Row
	for i := range rows {
		if w.Selects(&rows[i]) {
			kept = append(kept, rows[i])
		}
	}
	if len(kept) == 0 && len(rows) > 0 {
		return nil, fmt.Errorf("no row of %d is selected; the rows have %s", len(rows), w.values(rows))
	}
	return kept, nil
}

// Selects reports whether the conditions select a row.
func (w Where) Selects(r *Row) bool {
	for _, c := range w.conditions {
		text := c.field.text(r)
		alternative := func(d condition) bool { return !d.negate && d.field.at == c.field.at && d.holds(text) }
		if c.negate && c.holds(text) || !c.negate && !slices.ContainsFunc(w.conditions, alternative) {
			return false
		}
	}
	return true
}

// holds reports whether a field has the value, by the rules of ParseWhere.
func (c condition) holds(text string) bool {
	switch {
	case text == c.value:
		return true
	case c.field.name == "policy":
		name, options, _ := strings.Cut(text, ":")
		wanted, wantedOptions, exact := strings.Cut(c.value, ":")
		return names.Match(wanted, []string{name}) != nil && (!exact || options == wantedOptions)
	case c.field.name == "trace":
		return strings.TrimSuffix(text, filepath.Ext(text)) == c.value
	case c.field.name == "labels":
		return slices.Contains(ParseLabels(text), c.value)
	}
	return false
}

// Including returns w changed so that it can select rows of a policy: with the policy among
// the values of a "policy=" condition, and without "policy!=" conditions that exclude it.
func (w Where) Including(policy string) Where {
	f := rowFields[fieldIndex["policy"]]
	changed := Where{slices.DeleteFunc(slices.Clone(w.conditions), func(c condition) bool {
		return c.negate && c.field.at == f.at && c.holds(policy)
	})}
	if slices.ContainsFunc(changed.conditions, func(c condition) bool { return !c.negate && c.field.at == f.at }) {
		changed.conditions = append(changed.conditions, condition{field: f, value: policy})
	}
	return changed
}

// Conditions returns the conditions in the form that ParseWhere reads.
func (w Where) Conditions() []string {
	return slice.Map(w.conditions, func(c condition) string {
		return c.field.name + map[bool]string{true: "!=", false: "="}[c.negate] + c.value
	})
}

// values lists the values of the conditions' fields in the rows.
func (w Where) values(rows []Row) string {
	var lists []string
	for _, c := range w.conditions {
		known := distinct(c.field, Pointers(rows))
		if c.field.name == "labels" { // each by itself, because a condition names one
			var each Labels
			for _, v := range known {
				each = each.With(ParseLabels(v)...)
			}
			known = each
		}
		near := ""
		if !c.negate && !slices.Contains(known, c.value) {
			near = names.DidYouMean(names.Near(c.value, slices.DeleteFunc(slices.Clone(known), func(v string) bool { return v == "" })))
		}
		if i := slices.Index(known, ""); i >= 0 {
			known[i] = "'' (empty)"
		}
		lists = append(lists, c.field.name+": "+names.Some(known)+near)
	}
	slices.Sort(lists)
	return strings.Join(slices.Compact(lists), "; ")
}

func distinct(f field, rows []*Row) []string {
	values := slice.Map(rows, f.text)
	slices.Sort(values)
	return slices.Compact(values)
}
