package allocate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// Options select the memory that Run divides, the methods, and the requests to judge on.
type Options struct {
	Policy  string // policy whose rows are used, see Collect
	Methods []Spec
	// Plan, if not nil, is judged instead of the plans of methods. Memory and Floor are then its
	// own.
	Plan   *Plan
	Memory string // see Profile.Memory
	Floor  string // see Profile.Floor
	Cost   CostOf // cost of windows, empty for MeanResidents
	// Requests are the profiled requests (empty: all), without those that Exclude and Judge select.
	// Plans are judged on Judge. See Rows.Select.
	Requests, Exclude, Judge []string
}

// Validate checks sizes whose form does not depend on the rows.
func (o *Options) Validate() error {
	for _, of := range []struct{ name, text string }{{"memory", o.Memory}, {"floor", o.Floor}} {
		if of.text == "" {
			continue
		}
		s, err := parseSize(of.text)
		switch {
		case err != nil && of.name == "floor": // the forms of memory are not offered
			return fmt.Errorf("floor %q: %w", o.Floor, errFloor)
		case err != nil:
			return fmt.Errorf("%s: %w", of.name, err)
		case of.name == "floor" && !s.window && (s.Form() == setting.InBytes || s.Form() == setting.OfContext):
			return fmt.Errorf("floor %q: %w", o.Floor, errFloor)
		}
	}
	return nil
}

// Run makes or judges plans from rows. It returns a report for each method.
func Run(rows []result.Row, o Options) ([]*Report, error) {
	reports, err := run(rows, o)
	if err != nil {
		return nil, fmt.Errorf("allocate: %w", err)
	}
	return reports, nil
}

func run(rows []result.Row, o Options) ([]*Report, error) {
	c, err := Collect(rows, o.Policy)
	if err != nil {
		return nil, err
	}
	switch {
	case o.Cost == "":
		o.Cost = MeanResidents
	case c.Family == Capacities:
		return nil, fmt.Errorf("--cost %s needs rows of windows, but the rows of %s have capacities: remove it, or use --policy window", o.Cost, c.Policy)
	}
	if o.Plan != nil {
		r, err := c.judgePlan(o)
		return []*Report{r}, err
	}
	if len(o.Methods) == 0 {
		return nil, errors.New("no method: expected at least one")
	}
	profiled, judged, err := c.split(o)
	if err != nil {
		return nil, err
	}
	return c.run(o, profiled, judged)
}

func (c *Rows) split(o Options) (profiled, judged []Request, err error) {
	excluded, err := c.Select(o.Exclude)
	if err != nil {
		return nil, nil, fmt.Errorf("exclude: %w", err)
	}
	if judged, err = c.Select(o.Judge); err != nil {
		return nil, nil, fmt.Errorf("judge: %w", err)
	}
	profiled = c.Requests()
	if len(o.Requests) > 0 {
		if profiled, err = c.Select(o.Requests); err != nil {
			return nil, nil, fmt.Errorf("requests: %w", err)
		}
		for _, r := range judged {
			if slices.Contains(profiled, r) {
				return nil, nil, fmt.Errorf("request %s is in both --requests and --judge: remove it from one, because a plan is judged on other requests", r.ID)
			}
		}
	}
	profiled = slices.DeleteFunc(profiled, func(r Request) bool { return slices.Contains(excluded, r) || slices.Contains(judged, r) })
	return profiled, judged, nil
}

func (c *Rows) run(o Options, profiled, judged []Request) ([]*Report, error) {
	whole, err := c.Pool(profiled, o.Cost)
	if err != nil {
		return nil, err
	}
	memory, err := whole.Memory(o.Memory)
	if err != nil {
		return nil, err
	}
	profile, err := whole.above(o.Floor)
	if err != nil {
		return nil, err
	}
	most := int64(0)
	for i := range profile.Curves {
		points := profile.Curves[i].Points
		most += points[len(points)-1].Cost
	}
	if memory > most {
		profile.Warnings = append(profile.Warnings, fmt.Sprintf("memory %s, %d entries per request, exceeds the largest profiled sizes, %d in total: lower it, or profile larger sizes", o.Memory, memory, most))
	}
	var judge *Profile
	if len(judged) > 0 {
		if judge, err = c.Pool(judged, o.Cost); err != nil {
			return nil, fmt.Errorf("judge: %w", err)
		}
		if !slices.EqualFunc(profile.Curves, judge.Curves, func(a, b Curve) bool { return a.Key == b.Key }) {
			return nil, fmt.Errorf("the judged requests (%d layers and heads) and the profiled ones (%d) differ in layers or heads: replay both with the same --layers", len(judge.Curves), len(profile.Curves))
		}
	}
	var reports []*Report
	for _, spec := range o.Methods {
		chosen, err := spec.Allocate(&profile.Problem, memory)
		if err != nil {
			return nil, err
		}
		plan, err := newPlan(profile, spec, chosen.Sizes, o.Memory, memory)
		if err != nil {
			return nil, err
		}
		r, err := report(plan, profile, judge, chosen.Sizes)
		if err != nil {
			return nil, err
		}
		if chosen.AtLeast > 0 {
			r.AtLeast = &chosen.AtLeast
		}
		if chosen.Granularity > 0 {
			r.Granularity = &chosen.Granularity
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// above returns the profile from the floor on.
func (p *Profile) above(floor string) (*Profile, error) {
	size, err := p.Floor(floor)
	if err != nil {
		return nil, err
	}
	from, err := p.From(size)
	if err != nil {
		return nil, err
	}
	for i := range from.Curves {
		if n := len(from.Curves[i].Points); n < 2 {
			return nil, fmt.Errorf("%v has no size above the floor of %d: replay with --capacity sweep, or --policy window:0-16", from.Curves[i].Key, size)
		}
	}
	return from, nil
}

// judgePlan judges a plan on all requests of the rows, or on those that o selects.
func (c *Rows) judgePlan(o Options) (*Report, error) {
	plan := o.Plan
	if len(o.Judge) > 0 || o.Memory != "" || o.Floor != "" {
		return nil, errors.New("--memory, --floor and --judge have no effect on an existing plan: remove them")
	}
	if plan.Family == Windows {
		o.Cost = plan.Cost
	}
	if c.Family != plan.Family {
		return nil, fmt.Errorf("the plan has %s, but the rows of %s have %s: choose other rows with --policy", plan.Family, c.Policy, c.Family)
	}
	requests, _, err := c.split(o)
	if err != nil {
		return nil, err
	}
	p, err := c.Pool(requests, o.Cost)
	if err != nil {
		return nil, err
	}
	sizes, err := plan.sizesOf(p)
	if err != nil {
		return nil, err
	}
	if p, err = p.From(plan.Floor); err != nil {
		return nil, err
	}
	made, err := report(plan, nil, p, sizes)
	if err != nil {
		return nil, err
	}
	if n := plan.knows(requests); n > 0 {
		made.Warnings = append(made.Warnings, fmt.Sprintf("the plan was made from %d of these %s: judge it on others with --exclude, or the gain is too good", n, text.Count(len(requests), "request")))
	}
	return made, nil
}

// knows counts the requests from which the plan was made.
func (p *Plan) knows(requests []Request) (n int) {
	for _, r := range requests {
		if slices.ContainsFunc(p.Profile, func(s Source) bool { return s.Digest == r.Digest && slices.Contains(s.Requests, r.ID) }) {
			n++
		}
	}
	return n
}

// sizesOf returns the plan's sizes for a profile's curves, which must be exactly the plan's.
func (p *Plan) sizesOf(profile *Profile) ([]int, error) {
	keys := slice.Map(profile.Curves, func(x Curve) Key { return x.Key })
	if err := p.Covers(profile.Units, keys); err != nil {
		return nil, err
	}
	if len(keys) != len(p.Streams) {
		return nil, fmt.Errorf("the plan has %d layers and heads, but the rows only %d: replay all of them", len(p.Streams), len(keys))
	}
	sizes := slice.Map(p.Streams, func(s Share) int { return s.Size })
	return sizes, nil
}
