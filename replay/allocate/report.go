package allocate

import (
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/internal/text"
)

// Report compares a plan with uniform sizes in the same memory.
type Report struct {
	Plan *Plan `json:"-"`

	Method        string        `json:"method"`
	Family        Family        `json:"family"`
	Policy        string        `json:"policy"`
	Memory        string        `json:"memory"`
	MemoryEntries int64         `json:"memory_entries"`
	Floor         int           `json:"floor"`
	Digest        string        `json:"plan_digest"`
	AtLeast       *int64        `json:"at_least"`    // see Result: bytes, or entries if their bytes are not known
	Granularity   *int64        `json:"granularity"` // entries, for 2d-exact
	Profile       *Side         `json:"profile"`     // null if a plan was given
	Judge         *Side         `json:"judge"`       // null if no requests were judged
	Layers        []LayerReport `json:"layers"`
	Sizes         []SizeReport  `json:"sizes"`
	Warnings      []string      `json:"warnings"`

	kEntries int    // entries of 1x, 0 if not known
	sizes    [2]int // smallest and largest profiled size
}

// Side holds the results of a plan and of uniform sizes on some requests.
type Side struct {
	Requests []Request `json:"requests"`
	Steps    int64     `json:"steps"` // decode steps
	Uniform  Outcome   `json:"uniform"`
	Plan     Outcome   `json:"plan"`
	// Ratio is the plan's transfers ÷ those of uniform sizes in the same memory. It is null if
	// those are 0 or not known. Windows are whole steps, and their cost differs between requests.
	// Their uniform transfers are interpolated between the uniform windows that cost just less and
	// just more than the plan.
	Ratio *float64 `json:"ratio"`
}

// Outcome holds the counts of all requests of a side. Memory is per request.
type Outcome struct {
	MemoryEntries     int64  `json:"memory_entries"`
	Misses            int64  `json:"misses"`
	HostToDeviceBytes *int64 `json:"host_to_device_bytes"`

	moved int64 // see Point.Moved
}

// LayerReport is one layer of a plan.
type LayerReport struct {
	Layer         int32    `json:"layer_id"`
	Heads         int      `json:"heads"` // 1 if the layer shares its selection
	Smallest      int      `json:"smallest"`
	Largest       int      `json:"largest"` // smallest and largest size of its heads
	MemoryEntries int64    `json:"memory_entries"`
	Share         float64  `json:"share"` // share of the plan's memory
	Misses        int64    `json:"misses"`
	UniformMisses int64    `json:"uniform_misses"`
	Ratio         *float64 `json:"ratio"`       // transfers ÷ uniform's
	JudgeRatio    *float64 `json:"judge_ratio"` // the same on the judged requests
}

// SizeReport is one stream of a plan.
type SizeReport struct {
	Layer int32  `json:"layer_id"`
	Head  *int32 `json:"head"`
	Size  int    `json:"size"`
}

// report compares the sizes of a plan with uniform sizes on the profiled requests and on the judged
// ones. profile is nil if the plan was given.
func report(plan *Plan, profile, judge *Profile, sizes []int) (*Report, error) {
	first := profile
	if profile == nil {
		first, judge = judge, nil
	}
	uniformly, err := Spec{Method: uniform, solve: uniform.solve}.Allocate(&first.Problem, plan.MemoryEntries)
	if err != nil {
		return nil, err
	}
	even := uniformly.Sizes
	r := newReport(plan, first)
	side, err := newSide(first, even, sizes)
	if err != nil {
		return nil, err
	}
	if profile == nil {
		r.Judge = side
		return r, r.layers(first, nil, even, sizes)
	}
	r.Profile = side
	if judge != nil {
		if r.Judge, err = newSide(judge, even, sizes); err != nil {
			return nil, fmt.Errorf("judge: %w: replay the judged requests at the same sizes", err)
		}
		r.Warnings = text.Union(r.Warnings, judge.Warnings...)
	}
	return r, r.layers(profile, judge, even, sizes)
}

func newReport(plan *Plan, p *Profile) *Report {
	r := &Report{Plan: plan, Method: plan.Method, Family: plan.Family, Policy: plan.Policy, Memory: plan.Memory, MemoryEntries: plan.MemoryEntries,
		Floor: plan.Floor, Digest: plan.Digest(), Warnings: append([]string{}, p.Warnings...), kEntries: p.kEntries}
	first, last := p.Curves[0].Points[0].Size, 0
	for i := range p.Curves {
		points := p.Curves[i].Points
		first, last = min(first, points[0].Size), max(last, points[len(points)-1].Size)
	}
	r.sizes = [2]int{first, last}
	for _, s := range plan.Streams {
		line := SizeReport{Layer: s.Layer, Size: s.Size}
		if s.Head >= 0 {
			line.Head = &s.Head
		}
		r.Sizes = append(r.Sizes, line)
	}
	return r
}

func newSide(p *Profile, even, sizes []int) (*Side, error) {
	t, u, err := p.compare([2]int{0, len(p.Curves)}, even, sizes)
	if err != nil {
		return nil, err
	}
	side := &Side{Requests: p.Requests, Steps: p.Steps, Uniform: p.outcome(u), Plan: p.outcome(t)}
	if p.Family == Windows {
		u.Moved = p.uniformIn(t.Memory)
	}
	side.Ratio = text.Share(t.Moved, u.Moved)
	return side, nil
}

// uniformIn returns the transfers of uniform windows in the memory, or 0 if the smallest needs
// more.
func (p *Profile) uniformIn(memory int64) int64 {
	points := merge(p.Curves).Points
	more := slices.IndexFunc(points, func(pt Point) bool { return pt.Cost > memory })
	switch more {
	case -1:
		return points[len(points)-1].Moved
	case 0:
		return 0
	}
	a, b := points[more-1], points[more]
	return between(a.Moved, b.Moved, memory-a.Cost, b.Cost-a.Cost)
}

func (p *Profile) outcome(t Totals) Outcome {
	o := Outcome{MemoryEntries: t.Memory, Misses: t.Misses, moved: t.Moved}
	if p.EntryBytes != nil {
		o.HostToDeviceBytes = &t.Moved
	}
	return o
}

func (r *Report) layers(profile, judge *Profile, even, sizes []int) error {
	total, err := profile.Totals(sizes)
	if err != nil {
		return err
	}
	for _, run := range profile.layers() {
		a, b := run[0], run[1]
		plan, uniform, err := profile.compare(run, even, sizes)
		if err != nil {
			return err
		}
		line := LayerReport{Layer: profile.Curves[a].Layer, Heads: b - a, Smallest: slices.Min(sizes[a:b]), Largest: slices.Max(sizes[a:b]),
			MemoryEntries: plan.Memory, Misses: plan.Misses, UniformMisses: uniform.Misses, Ratio: text.Share(plan.Moved, uniform.Moved)}
		if total.Memory > 0 {
			line.Share = float64(plan.Memory) / float64(total.Memory)
		}
		if judge != nil {
			if plan, uniform, err = judge.compare(run, even, sizes); err != nil {
				return err
			}
			line.JudgeRatio = text.Share(plan.Moved, uniform.Moved)
		}
		r.Layers = append(r.Layers, line)
	}
	return nil
}

// compare returns the totals of a run of curves for the plan and for uniform sizes.
func (p *Profile) compare(run [2]int, even, sizes []int) (plan, uniform Totals, err error) {
	part := p.part(run)
	if uniform, err = part.Totals(even[run[0]:run[1]]); err != nil {
		return plan, uniform, err
	}
	plan, err = part.Totals(sizes[run[0]:run[1]])
	return plan, uniform, err
}
