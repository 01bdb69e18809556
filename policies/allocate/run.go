package allocate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// Options say what Run divides, how, and on which requests it judges.
type Options struct {
	Policy  string // whose rows: see Collect
	Methods []Spec
	// Plan is judged instead of what methods make; Memory and Floor are then its own.
	Plan   *Plan
	Memory string // see Profile.Memory
	Floor  string // see Profile.Floor
	Cost   CostOf // of windows; empty: MeanResidents
	// Requests are profiled on (empty: all), less those that Exclude and Judge select.
	// Judge are those that plans are judged on. See Rows.Select.
	Requests, Exclude, Judge []string
}

// Validate checks the sizes that have forms of their own, whatever the rows.
func (o *Options) Validate() error {
	if _, err := parseSize(o.Memory); o.Memory != "" && err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	if s, err := parseSize(o.Floor); o.Floor != "" {
		switch {
		case err != nil:
			return fmt.Errorf("floor: %w", err)
		case s.kind == requestBytes || s.kind == ofContext:
			return fmt.Errorf("floor %q: %w", o.Floor, errFloor)
		}
	}
	return nil
}

// Run makes, or judges, plans from rows: a report for each method.
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
		return nil, fmt.Errorf("the cost %s is of windows; the rows of %s are of capacities, which cost what they are", o.Cost, c.Policy)
	}
	if o.Plan != nil {
		r, err := c.judgePlan(o)
		return []*Report{r}, err
	}
	if len(o.Methods) == 0 {
		return nil, errors.New("no method")
	}
	profiled, judged, err := c.split(o)
	if err != nil {
		return nil, err
	}
	return c.run(o, profiled, judged)
}

// split selects the requests to profile and to judge on.
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
				return nil, nil, fmt.Errorf("request %s is to be profiled on and to be judged on; a plan is judged on requests that it has not seen", r.ID)
			}
		}
	}
	profiled = slices.DeleteFunc(profiled, func(r Request) bool { return slices.Contains(excluded, r) || slices.Contains(judged, r) })
	return profiled, judged, nil
}

// run makes a report for each method.
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
	if most := profile.largest(); memory > most {
		profile.Warnings = append(profile.Warnings, fmt.Sprintf("memory %s is %d entries a request, and the largest sizes profiled take %d in all: there is nothing to divide; state less, or profile larger ones", o.Memory, memory, most))
	}
	var judge *Profile
	if len(judged) > 0 {
		if judge, err = c.Pool(judged, o.Cost); err != nil {
			return nil, fmt.Errorf("judge: %w", err)
		}
		if err := sameStreams(profile, judge); err != nil {
			return nil, err
		}
	}
	var reports []*Report
	for _, spec := range o.Methods {
		r, err := makeReport(profile, judge, spec, o.Memory, memory)
		if err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// largest is what the largest sizes of all streams take.
func (p *Profile) largest() (entries int64) {
	for i := range p.Curves {
		entries += p.Curves[i].Points[len(p.Curves[i].Points)-1].Cost
	}
	return entries
}

// above is the profile from the floor on.
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
			return nil, fmt.Errorf("%v has no size above the floor of %d; replay with --capacity sweep, or --policy window:0-16", from.Curves[i].Key, size)
		}
	}
	return from, nil
}

// sameStreams says whether the judged requests have the layers and heads of the profile.
func sameStreams(profile, judge *Profile) error {
	same := slices.EqualFunc(profile.Curves, judge.Curves, func(a, b Curve) bool { return a.Key == b.Key })
	if !same {
		return fmt.Errorf("the judged requests have %d layers and heads, those profiled on %d, and they are not the same; replay both with the same --layers", len(judge.Curves), len(profile.Curves))
	}
	return nil
}
