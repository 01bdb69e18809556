package echo

import (
	"math/bits"
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

// Trees is the number of trees.
const Trees = len(trees)

// Tree returns the splits of the i-th tree, each a leaf, a feature and a value, and the values of its
// leaves.
func Tree(i int) (splits [leaves - 1][3]int, values [leaves]int) {
	for j, s := range trees[i].splits {
		splits[j] = [3]int{int(s.leaf), int(s.feature), int(s.above)}
	}
	for j, v := range trees[i].values {
		values[j] = int(v)
	}
	return splits, values
}

// Observed is an example for the trees: the features of a block at a step, and the number of steps
// until its next demand, or a negative number if it has none.
type Observed struct {
	Features [features]uint8
	Next     int
}

// observer is the policy echo. It observes one of every n blocks that it scores.
type observer struct {
	*Policy
	n, counted int
	all        *[]Observed
	uses       []uint32
	last       int32           // observed steps end before it
	waiting    map[int32][]int // examples by block
}

// untilNext is the number of steps that an example needs until the stream ends.
const untilNext = 12

// Observe returns a policy that adds examples from each stream.
func Observe(n int, all *[]Observed) policies.Spec {
	e := Entry
	e.New = policies.NoOptions(func() policies.Policy {
		return &observer{Policy: &Policy{Calibrate: true, rule: &published}, n: n, all: all}
	})
	spec, err := policies.NewTable(e).Parse(Entry.Name)
	if err != nil {
		panic(err)
	}
	return spec
}

func (o *observer) Reset(sc *policies.Scope) error {
	o.uses, o.waiting, o.counted = make([]uint32, sc.Blocks), map[int32][]int{}, 0
	o.last = int32(sc.Steps - sc.Windows - untilNext)
	return o.Policy.Reset(sc)
}

func (o *observer) Update(s *policies.Step) {
	o.Policy.Update(s)
	h := &o.histories[0]
	h.uses = o.uses
	for _, x := range s.Members {
		o.uses[x]++
		for _, i := range o.waiting[x] {
			(*o.all)[i].Next += h.t
		}
		delete(o.waiting, x)
	}
	for w, rest := range h.active {
		for rest &^= h.demanded[w]; rest != 0; rest &= rest - 1 {
			x := int32(w<<6 | bits.TrailingZeros64(rest))
			if o.counted++; o.counted%o.n != 0 || s.T >= o.last {
				continue
			}
			n := h.notes[h.place(x)]
			d := h.describe(x, h.score(x), n.place(), n.sharp(), n.slow())
			o.waiting[x] = append(o.waiting[x], len(*o.all))
			*o.all = append(*o.all, Observed{*d, -h.t})
		}
	}
}
