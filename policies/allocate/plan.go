package allocate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/trace"
)

// PlanSchema is the version of plan files.
const PlanSchema = 1

// Plan says what each layer and head of a model may keep. PLAN.md describes its file.
type Plan struct {
	Method string // with options, as ParseMethod takes it
	Family Family
	Policy string // whose curves were profiled; "window" for windows
	Setting
	Floor int // least size of a stream

	Memory        string // as asked for
	MemoryEntries int64  // of a request
	UsedEntries   int64  // of a request, on the profile
	Cost          CostOf // of windows; empty for capacities

	Profile []Source
	Streams []Share // sorted by layer, then head
}

// Source are the requests of a trace that were profiled.
type Source struct {
	Trace    string
	Digest   string
	Requests []string
}

// Share is the size of a layer and head.
type Share struct {
	Key
	Size int // entries of a capacity, steps of a window
}

// newPlan states what a method chose on a profile.
func newPlan(p *Profile, s Spec, sizes []int, memory string, memoryEntries int64) (*Plan, error) {
	plan := &Plan{Method: s.Name(), Family: p.Family, Policy: p.Policy, Setting: p.Setting, Floor: p.Curves[0].Points[0].Size,
		Memory: memory, MemoryEntries: memoryEntries, Cost: p.Cost}
	for i, r := range p.Requests {
		if i == 0 || p.Requests[i-1].Trace != r.Trace {
			plan.Profile = append(plan.Profile, Source{Trace: r.Trace, Digest: r.Digest})
		}
		last := &plan.Profile[len(plan.Profile)-1]
		last.Requests = append(last.Requests, r.ID)
	}
	for i := range p.Curves {
		plan.Streams = append(plan.Streams, Share{p.Curves[i].Key, sizes[i]})
	}
	used, err := p.Totals(sizes)
	plan.UsedEntries = used.Memory
	return plan, err
}

// Capacity is what a layer and head may keep, in entries (tokens); false where the plan
// does not have it, or is of windows. head is trace.NoHead where the layer shares its
// selection.
func (p *Plan) Capacity(layer, head int32) (entries int, ok bool) {
	return p.size(Capacities, Key{layer, head})
}

// Window is the window of a layer and head in steps; false where the plan does not have
// it, or is of capacities.
func (p *Plan) Window(layer, head int32) (steps int, ok bool) {
	return p.size(Windows, Key{layer, head})
}

func (p *Plan) size(f Family, k Key) (int, bool) {
	i, ok := slices.BinarySearchFunc(p.Streams, k, func(s Share, k Key) int { return compareKeys(s.Key, k) })
	if !ok || p.Family != f {
		return 0, false
	}
	return p.Streams[i].Size, true
}

// Covers says whether the plan fits a replay with this setting of these layers and
// heads; the error names what does not.
func (p *Plan) Covers(setting Setting, keys []Key) error {
	if p.Setting != setting {
		return fmt.Errorf("the plan is for %s, not for %s; allocate again on rows of that", p.Setting.text(), setting.text())
	}
	for _, k := range keys {
		if _, ok := p.size(p.Family, k); !ok {
			return fmt.Errorf("the plan is for other layers: it has no %v, but %s", k, p.extent())
		}
	}
	return nil
}

// extent says which layers and heads the plan has.
func (p *Plan) extent() string {
	var layers []string
	heads := map[int32]bool{}
	for i, s := range p.Streams {
		if i == 0 || p.Streams[i-1].Layer != s.Layer {
			layers = append(layers, fmt.Sprint(s.Layer))
		}
		heads[s.Head] = true
	}
	if heads[trace.NoHead] && len(heads) == 1 {
		return fmt.Sprintf("layers %s, each with one selection", names.Some(layers))
	}
	return fmt.Sprintf("layers %s with %d heads", names.Some(layers), len(heads))
}

// Digest identifies what a replay depends on, the family and the sizes, and nothing
// else: plans that give every layer and head the same have the same digest, whatever
// method, memory or profile they came from.
func (p *Plan) Digest() string {
	var b strings.Builder
	fmt.Fprintf(&b, "kvreplay plan %d %s\n", PlanSchema, p.Family)
	for _, s := range p.Streams {
		fmt.Fprintf(&b, "%d %d %d\n", s.Layer, s.Head, s.Size)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return "sha256:" + hex.EncodeToString(sum[:])
}
