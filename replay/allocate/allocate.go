// Package allocate divides the cache memory of a request among the layers and heads of a model. It
// implements KVDrive's 2D layer–head window scaling (section 5.2) and the laws that it is compared
// with.
//
// A profile gives each layer and head a curve: the cost (memory) and the saving (transfers) of each
// size. The task is to choose one size for each, so that the savings are largest and the costs fit
// the memory. This is the multiple-choice knapsack problem:
//
//	max Σ Benefit_{l,h}(w_{l,h})   subject to   Σ Cost_{l,h}(w_{l,h}) ≤ M
//
// Each method has its own file, and Methods lists them. The result is a Plan, a file that replay
// reads. Sizes are capacities in entries, or windows in steps (KVDrive's ×N).
//
// All arithmetic is on integers, so the same rows give the same plan on every machine.
package allocate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/trace"
)

// Family is the kind of the sizes of a plan.
type Family string

// The families.
const (
	// Capacities are entries (tokens) that a stream may keep. The policy is chosen at replay.
	Capacities Family = "capacity"
	// Windows are numbers of steps whose demand a stream keeps (policy window:N).
	Windows Family = "window"
)

func (f Family) text(size int) string {
	if f == Windows {
		return fmt.Sprintf("%s%d", windowPrefix, size)
	}
	return fmt.Sprintf("%d entries", size)
}

// Key is a layer and head of a model. In each request it is a stream.
type Key struct {
	Layer int32
	Head  int32 // trace.NoHead if the layer shares its selection
}

// String returns "layer 3" or "layer 3 head 1".
func (k Key) String() string {
	if k.Head == trace.NoHead {
		return fmt.Sprintf("layer %d", k.Layer)
	}
	return fmt.Sprintf("layer %d head %d", k.Layer, k.Head)
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Head, b.Head))
}

// Problem holds the choices: a curve for each layer and head. The first point of each curve is its
// floor, the smallest size that a method may choose. All curves begin at the same size.
type Problem struct {
	Family Family
	Unit   int     // entries of a block, of which capacities are multiples
	Curves []Curve // sorted by layer, then head
}

// Least returns the memory of the floors, in entries per request.
func (p *Problem) Least() (entries int64) {
	return slice.Sum(p.Curves, func(x Curve) int64 { return x.Points[0].Cost })
}

// check reports why the methods cannot work on p.
func (p *Problem) check() error {
	if p.Family != Capacities && p.Family != Windows {
		return fmt.Errorf("family %q, expected %s or %s", p.Family, Capacities, Windows)
	}
	if n := len(p.Curves); n == 0 || n > mostCurves || p.Unit < 1 {
		return fmt.Errorf("%d curves and %d entries per block: expected 1 to %d curves and at least 1 entry", n, p.Unit, mostCurves)
	}
	if !slices.IsSortedFunc(p.Curves, func(a, b Curve) int { return compareKeys(a.Key, b.Key) }) {
		return fmt.Errorf("the curves are not sorted by layer and head")
	}
	for i := range p.Curves {
		if i > 0 && p.Curves[i-1].Key == p.Curves[i].Key {
			return fmt.Errorf("%v appears twice", p.Curves[i].Key)
		}
		if err := p.Curves[i].check(p.Family); err != nil {
			return fmt.Errorf("%v: %w", p.Curves[i].Key, err)
		}
		if a, b := p.Curves[0].Points[0].Size, p.Curves[i].Points[0].Size; a != b {
			return fmt.Errorf("the floor of %v is %d, that of %v is %d: expected the same", p.Curves[0].Key, a, p.Curves[i].Key, b)
		}
	}
	return nil
}

// From returns the problem with sizes from floor on. It drops smaller sizes. A capacity that was
// not profiled is interpolated on the curve (Curve.At).
func (p *Problem) From(floor int) (*Problem, error) {
	from := &Problem{Family: p.Family, Unit: p.Unit}
	for i := range p.Curves {
		c := &p.Curves[i]
		first, err := c.At(p.Family, floor)
		if err != nil {
			return nil, fmt.Errorf("floor: %v: %w", c.Key, err)
		}
		larger := slice.Filter(c.Points, func(pt Point) bool { return pt.Size > floor })
		from.Curves = append(from.Curves, Curve{c.Key, append([]Point{first}, larger...)})
	}
	return from, nil
}

// Totals are the sums of a choice of sizes over layers and heads.
type Totals struct {
	Memory int64 // entries per request
	Misses int64 // blocks of all pooled requests
	Moved  int64 // of all pooled requests, see Point.Moved
}

// Totals returns the totals of one size per curve, on the requests that p was pooled from.
func (p *Problem) Totals(sizes []int) (t Totals, err error) {
	for i := range p.Curves {
		pt, err := p.Curves[i].At(p.Family, sizes[i])
		if err != nil {
			return Totals{}, fmt.Errorf("%v: %w", p.Curves[i].Key, err)
		}
		t.Memory += pt.Cost
		t.Misses += pt.Misses
		t.Moved += pt.Moved
	}
	return t, nil
}

// layers returns the runs of curves that belong to one layer, as [from, to).
func (p *Problem) layers() (runs [][2]int) {
	for i := range p.Curves {
		if i == 0 || p.Curves[i].Layer != p.Curves[i-1].Layer {
			runs = append(runs, [2]int{i, i})
		}
		runs[len(runs)-1][1]++
	}
	return runs
}

// part returns the problem of the curves [from, to).
func (p *Problem) part(run [2]int) *Problem {
	return &Problem{p.Family, p.Unit, p.Curves[run[0]:run[1]]}
}
