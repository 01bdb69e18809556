package allocate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// Method is a way to divide memory.
type Method struct {
	Name    string
	Summary string // the rule in one line
	Usage   string // name and options in the form of ParseMethod
	solve   solver // for a method without options
	// parse reads the options of a method with options.
	parse func(options string) (solve solver, canonical string, err error)
}

// solver chooses a size for each curve. It is called with memory ≥ p.Least() and must not exceed
// it.
type solver func(p *Problem, memory int64) *Result

// Result is the choice of a method.
type Result struct {
	Sizes []int // one for each curve
	// AtLeast bounds every method: each choice of profiled sizes that fits the memory moves at
	// least this much (see Point.Moved). It is 0 if the method does not know a bound.
	AtLeast int64
	// Granularity is the unit in which 2d-exact counted memory, in entries. It is 0 for other
	// methods.
	Granularity int64
}

// Methods returns all methods, uniform first.
func Methods() []Method {
	return []Method{uniform, perLayer, perHead, greedy2D, exact2D, pyramidKV, adaKV}
}

// MethodNames are the names of all methods, in the order of Methods.
func MethodNames() []string {
	return slice.Map(Methods(), func(m Method) string { return m.Name })
}

// Spec is a method with its options.
type Spec struct {
	Method  Method
	Options string // canonical text, empty for none
	solve   solver
}

// Name returns the method with its options, in the form of ParseMethod.
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
	m := Methods()[slices.Index(MethodNames(), name)]
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

// Allocate divides memory, in entries per request, among the curves of p. Memory below the floors
// is an error.
func (s Spec) Allocate(p *Problem, memory int64) (*Result, error) {
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("curves: %w", err)
	}
	if least := p.Least(); memory < least {
		return nil, fmt.Errorf("%d entries of memory are too few: %d streams of at least %s take %d: raise --memory or lower --floor",
			memory, len(p.Curves), p.Family.text(p.Curves[0].Points[0].Size), least)
	}
	r := s.solve(p, memory)
	t, err := p.Totals(r.Sizes)
	if err != nil || t.Memory > memory {
		panic(fmt.Sprintf("allocate: %s chose sizes of %d entries for %d: %v", s.Name(), t.Memory, memory, err))
	}
	return r, nil
}

// Reallocation divides the memory of a request's plan again during decoding. It does so every N
// decode steps, by observations of these steps. Its text form parses back. The zero value keeps the
// plan.
//
// The observations are LRU stack distances (Mattson et al. 1970). A system gets them from the ids
// of evicted blocks (ghost entries): the misses of an LRU cache of any size, for each stream. They
// do not depend on the replayed policy, so all policies of a run, including OPT, have equal budgets
// at equal steps. A shrinking budget evicts its excess at the end of its first step. If the budget
// grows again, these blocks come back as misses.
type Reallocation struct {
	Every  int // decode steps, 0 keeps the plan
	Method Spec
}

// ParseReallocation reads "64" or "64:METHOD" with a method of package allocate. The default is
// 2d-greedy. An empty text means no reallocation.
func ParseReallocation(text string) (r Reallocation, err error) {
	if text == "" {
		return r, nil
	}
	steps, method, named := strings.Cut(text, ":")
	if !named {
		method = "2d-greedy"
	}
	if r.Every, err = strconv.Atoi(steps); err != nil || r.Every < 1 || r.Every > 1<<30 {
		return Reallocation{}, fmt.Errorf("reallocation %q: expected decode steps, at least 1, with or without a method: 64 or 64:2d-exact", text)
	}
	if r.Method, err = ParseMethod(method); err != nil {
		return Reallocation{}, fmt.Errorf("reallocation %q: %w", text, err)
	}
	return r, nil
}

// String returns the text form.
func (r Reallocation) String() string {
	if r.Every == 0 {
		return ""
	}
	return fmt.Sprintf("%d:%s", r.Every, r.Method.Name())
}
