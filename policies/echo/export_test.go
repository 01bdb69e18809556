package echo

import (
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// Variant changes one part of the rule.
type Variant struct {
	Name   string
	change func(p *Policy)
	rule   func(r *rule)
}

// Ablations are the variants of the rule in README.md, by name and in order.
var Ablations = []Variant{
	{"echo", nil, nil},
	{"without calibration", func(p *Policy) { p.Calibrate = false }, nil},
	{"without echoes", nil, func(r *rule) { r.echo = 0 }},
	{"without both", func(p *Policy) { p.Calibrate = false }, func(r *rule) { r.echo = 0 }},
	{"without recency", nil, func(r *rule) { r.recent = 0 }},
	{"overlap of D_t alone", nil, func(r *rule) { r.context = [3]uint32{1, 0, 0} }},
	{"first following step alone", nil, func(r *rule) { r.follows = 0 }},
	{"without region", nil, func(r *rule) { r.region = 0 }},
	{"without credit for births", nil, func(r *rule) { r.birth = 0 }},
	{"history of 8 steps", nil, func(r *rule) { r.history = 8 }},
	{"history of 16 steps", nil, func(r *rule) { r.history = 16 }},
	{"history of 32 steps", nil, func(r *rule) { r.history = 32 }},
	{"power 6", nil, func(r *rule) { r.power = 6 }},
	{"power 16", nil, func(r *rule) { r.power = 16 }},
	{"weight of echoes 2", nil, func(r *rule) { r.echo = 2 }},
	{"weight of echoes 5", nil, func(r *rule) { r.echo = 5 }},
	{"following weight 4/8", nil, func(r *rule) { r.follows = 4 }},
	{"following weight 6/8", nil, func(r *rule) { r.follows = 6 }},
	{"sample, each step", nil, func(r *rule) { *r = sampleOf(1 << 20) }},
	{"sample, each 4th step", nil, func(r *rule) { *r = sampleOf(50) }},
	{"sample, each 8th step", nil, func(r *rule) { *r = sampleOf(1) }},
	{"no correction by distance", nil, func(r *rule) { r.without = 0 }},
	{"no correction by quarter", nil, func(r *rule) { r.without = 1 }},
	{"no correction by neighbours", nil, func(r *rule) { r.without = 2 }},
	{"no correction by sharp sum", nil, func(r *rule) { r.without = 3 }},
	{"no correction by slow sum", nil, func(r *rule) { r.without = 4 }},
}

// EntryOf returns the variant of the given name as an entry of a table.
func EntryOf(name string) policies.Entry {
	e := Entry
	i := slices.IndexFunc(Ablations, func(a Variant) bool { return a.Name == name })
	e.New = policies.NoOptions(func() policies.Policy {
		r := published
		p := &Policy{Calibrate: true, rule: &r}
		if c := Ablations[i].change; c != nil {
			c(p)
		}
		if c := Ablations[i].rule; c != nil {
			c(&r)
		}
		return p
	})
	return e
}

// Ablation returns the i-th of Ablations as a policy of a table.
func Ablation(i int) policies.Spec {
	spec, err := policies.NewTable(EntryOf(Ablations[i].Name)).Parse(Entry.Name)
	if err != nil {
		panic(err)
	}
	return spec
}
