package allocate

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
)

// Method is a way to divide memory.
type Method struct {
	Name    string
	Summary string // the rule in one line
	Source  string
	Usage   string // as ParseMethod takes it, with its options
	solve   solver // of a method without options
	// parse reads the options of a method that has some.
	parse func(options string) (solve solver, canonical string, err error)
}

// solver chooses a size for each curve. It is called with memory ≥ p.Least() and must
// not exceed it.
type solver func(p *Problem, memory int64) *Result

// Result is what a method chose.
type Result struct {
	Sizes []int // one for each curve
	// AtLeast bounds every method: no choice among the profiled sizes that fits the
	// memory moves less (see Point.Moved). 0 where the method does not know.
	AtLeast int64
	// Granularity is the unit in which 2d-exact counted memory, in entries; 0 elsewhere.
	Granularity int64
}

// Methods are all methods, the plain division first.
func Methods() []Method {
	return []Method{uniform, perLayer, perHead, greedy2D, exact2D, pyramidKV, adaKV}
}

// MethodNames are the names of all methods, in the order of Methods.
func MethodNames() (list []string) {
	for _, m := range Methods() {
		list = append(list, m.Name)
	}
	return list
}

// Spec is a method with its options.
type Spec struct {
	Method  Method
	Options string // canonical text, empty for none
	solve   solver
}

// Name is the method with its options, as ParseMethod takes it.
func (s Spec) Name() string {
	if s.Options == "" {
		return s.Method.Name
	}
	return s.Method.Name + ":" + s.Options
}

// ParseMethod reads NAME or NAME:OPTIONS, as in "2d-greedy" and "adakv:alpha=0.5".
func ParseMethod(text string) (Spec, error) {
	name, options, _ := strings.Cut(text, ":")
	name, err := names.Find("method", name, names.Of(MethodNames()...))
	if err != nil {
		return Spec{}, err
	}
	for _, m := range Methods() {
		if m.Name != name {
			continue
		}
		solve, canonical := m.solve, ""
		switch {
		case m.parse != nil:
			solve, canonical, err = m.parse(options)
		case options != "":
			err = fmt.Errorf("unexpected options %q", options)
		}
		if err != nil {
			return Spec{}, fmt.Errorf("method %s: %w; usage: %s", text, err, m.Usage)
		}
		return Spec{m, canonical, solve}, nil
	}
	panic("allocate: no method is named " + name)
}

// Allocate divides memory, in entries of a request, over the curves of p. Memory below
// the floors is an error.
func (s Spec) Allocate(p *Problem, memory int64) (*Result, error) {
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("curves: %w", err)
	}
	if least := p.Least(); memory < least {
		return nil, fmt.Errorf("%d entries of memory are below the floor: %d streams of at least %s take %d; give more memory, or lower the floor",
			memory, len(p.Curves), p.Family.text(p.Curves[0].Points[0].Size), least)
	}
	r := s.solve(p, memory)
	t, err := p.Totals(r.Sizes)
	if err != nil || t.Memory > memory {
		panic(fmt.Sprintf("allocate: %s chose sizes of %d entries for %d: %v", s.Name(), t.Memory, memory, err))
	}
	return r, nil
}

// Reallocation divides the memory that a plan gives a request anew while it is decoded:
// every so many decode steps, by what was observed in these steps. Its text form parses
// back. The zero value keeps the plan.
//
// Observed are LRU stack distances (Mattson et al. 1970), which a system learns from the
// ids of what it evicted (ghost entries): for each stream the misses that an LRU cache of
// any size would have had. They do not depend on the policy that is replayed, so all
// policies of a run, OPT too, have the same budgets at the same steps. What a budget that
// shrinks gives up leaves at the end of its first step, and comes back as a miss where a
// budget grows again.
type Reallocation struct {
	Every  int // decode steps; 0: the plan stays
	Method Spec
}

// ParseReallocation reads "64" or "64:METHOD", a method of package allocate; 2d-greedy
// without. Empty is none.
func ParseReallocation(text string) (r Reallocation, err error) {
	if text == "" {
		return r, nil
	}
	steps, method, named := strings.Cut(text, ":")
	if !named {
		method = "2d-greedy"
	}
	if r.Every, err = strconv.Atoi(steps); err != nil || r.Every < 1 || r.Every > 1<<30 {
		return Reallocation{}, fmt.Errorf("reallocation %q: expected every N decode steps, N ≥ 1, and perhaps a method: 64 or 64:2d-exact", text)
	}
	if r.Method, err = ParseMethod(method); err != nil {
		return Reallocation{}, fmt.Errorf("reallocation %q: %w", text, err)
	}
	return r, nil
}

// String is the text form.
func (r Reallocation) String() string {
	if r.Every == 0 {
		return ""
	}
	return fmt.Sprintf("%d:%s", r.Every, r.Method.Name())
}
