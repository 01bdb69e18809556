package allocate

import (
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// curveOf returns a curve of capacities from pairs of size and moved amount.
func curveOf(layer, head int32, pairs ...int64) Curve {
	c := Curve{Key: Key{layer, head}}
	for i := 0; i < len(pairs); i += 2 {
		c.Points = append(c.Points, Point{Size: int(pairs[i]), Cost: pairs[i], Misses: pairs[i+1], Moved: pairs[i+1]})
	}
	return c
}

// capacities returns a problem of layers with one selection each.
func capacities(curves ...Curve) *Problem { return &Problem{Capacities, 1, curves} }

const shared = trace.NoHead

// shape is the size of a random problem.
type shape struct {
	layers, heads, sizes int
	family               Family
}

// random draws a problem. Costs of capacities are equal for all curves, and those of windows
// differ. Curves fall, are flat, or sometimes rise, and are not concave.
func random(r *rand.Rand, s shape) *Problem {
	p := &Problem{Family: s.family, Unit: 1 + r.IntN(3)}
	step := p.Unit * (1 + r.IntN(4))
	for layer := range s.layers {
		for head := range s.heads {
			c := Curve{Key: Key{int32(layer), int32(head)}}
			moved := int64(50 + r.IntN(1000))
			cost := int64(r.IntN(4))
			for i := range s.sizes {
				pt := Point{Size: i, Cost: cost, Misses: moved / 2, Moved: moved}
				if s.family == Capacities {
					pt.Size = (i + 2) * step
					pt.Cost = int64(pt.Size)
				}
				c.Points = append(c.Points, pt)
				cost += int64(r.IntN(9))
				if r.IntN(4) > 0 {
					moved = max(0, moved-int64(r.IntN(200)))
				} else if r.IntN(4) == 0 {
					moved += int64(r.IntN(20))
				}
			}
			p.Curves = append(p.Curves, c)
		}
	}
	return p
}

// randomMemory is at least that of the floors, and sometimes more than all curves can use.
func randomMemory(r *rand.Rand, p *Problem) int64 {
	most := int64(1)
	for _, c := range p.Curves {
		most += c.Points[len(c.Points)-1].Cost
	}
	least := p.Least()
	return least + r.Int64N(2+(most-least)*5/4)
}

// exhaustive tries every choice of profiled sizes, as the referee.
func exhaustive(p *Problem, memory int64) (moved int64) {
	moved = -1
	var try func(i int, left, sum int64)
	try = func(i int, left, sum int64) {
		if i == len(p.Curves) {
			if moved < 0 || sum < moved {
				moved = sum
			}
			return
		}
		for _, pt := range p.Curves[i].Points {
			if pt.Cost <= left {
				try(i+1, left-pt.Cost, sum+pt.Moved)
			}
		}
	}
	try(0, memory, 0)
	return moved
}

func movedBy(t *testing.T, p *Problem, sizes []int) int64 {
	t.Helper()
	totals, err := p.Totals(sizes)
	fatal.If(t, err)
	return totals.Moved
}

// 2d-exact finds the best choice of exhaustive search. 2d-greedy's choice is no better, and worse
// by less than one step of an envelope. The bounds hold.
func TestExactEqualsExhaustive(t *testing.T) {
	cases := 6000
	if testing.Short() {
		cases = 1000
	}
	worse := 0
	for seed := range uint64(cases) {
		r := rand.New(rand.NewPCG(seed, 7))
		p := random(r, shape{1 + r.IntN(2), 1 + r.IntN(3), 1 + r.IntN(6), []Family{Capacities, Windows}[r.IntN(2)]})
		memory := randomMemory(r, p)
		best := exhaustive(p, memory)
		exact, greedy := solveExact(p, memory), solveGreedy(p, memory)
		if got := movedBy(t, p, exact.Sizes); got != best || exact.AtLeast != best {
			t.Fatalf("seed %d: 2d-exact moves %d (bound %d), the best choice %d: %v in %d of %+v", seed, got, exact.AtLeast, best, exact.Sizes, memory, p)
		}
		got, largest := movedBy(t, p, greedy.Sizes), int64(0)
		for _, s := range newClimb(p, memory).steps() {
			largest = max(largest, s.gain)
		}
		if got < best || got-best > largest || greedy.AtLeast > best || got-greedy.AtLeast > largest {
			t.Fatalf("seed %d: 2d-greedy moves %d (bound %d), the best choice %d, the largest step saves %d: %v in %d of %+v", seed, got, greedy.AtLeast, best, largest, greedy.Sizes, memory, p)
		}
		if got > best {
			worse++
		}
	}
	if worse == 0 {
		t.Error("2d-greedy was never worse than the best: the cases are too easy")
	}
	t.Logf("2d-greedy was worse than the best in %d of %d cases", worse, cases)
}

// In a coarser unit, the choice still fits and is no worse than 2d-greedy's. Sometimes it is
// better, and the bound is still below the best.
func TestCoarseExact(t *testing.T) {
	better := 0
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 8))
		p := random(r, shape{2, 2, 5, Windows})
		memory := randomMemory(r, p)
		states := 1 + r.Int64N(8)
		got := solveExactIn(p, memory, states)
		totals, err := p.Totals(got.Sizes)
		fatal.If(t, err)
		greedy, best := movedBy(t, p, solveGreedy(p, memory).Sizes), exhaustive(p, memory)
		if totals.Memory > memory || totals.Moved > greedy || totals.Moved < best || got.AtLeast > best || got.Granularity == 0 || got.AtLeast != best && got.AtLeast != solveGreedy(p, memory).AtLeast {
			t.Fatalf("seed %d: %d entries of %d, moves %d (bound %d), greedy %d, best %d", seed, totals.Memory, memory, totals.Moved, got.AtLeast, greedy, best)
		}
		if _, fine := newClimb(p, memory).granularity(states); !fine && totals.Moved < greedy {
			better++
		}
	}
	if better == 0 {
		t.Error("2d-exact was never better than 2d-greedy: the cases are too easy")
	}
}

// The multiples depend on the available memory, not on the memory that the curves could use. With 6
// entries above the floors, 8 multiples are enough for costs up to 1000.
func TestExactInLittleMemory(t *testing.T) {
	p := capacities(curveOf(0, shared, 10, 100, 13, 60, 1010, 0), curveOf(1, shared, 10, 100, 12, 90, 14, 50, 16, 1, 1010, 0))
	got := solveExactIn(p, 26, 8)
	if got.Granularity != 1 || !equalInts(got.Sizes, []int{10, 16}) || got.AtLeast != 101 {
		t.Errorf("%+v, want 10 and 16 entries, which move 101, told apart by the entry", got)
	}
}

// The unit is the common divisor of all costs above the floors if the entries to spend then make
// few enough multiples. Otherwise it is the smallest number of entries that makes few enough.
func TestGranularity(t *testing.T) {
	windows := &Problem{Windows, 1, []Curve{
		{Key{0, shared}, []Point{{0, 1, 9, 9}, {1, 7, 5, 5}, {2, 13, 0, 0}}},
		{Key{1, shared}, []Point{{0, 5, 9, 9}, {1, 17, 0, 0}}}}} // 6, 12 and 12 above the floors
	for _, c := range []struct {
		memory, states, unit int64
		fine                 bool
	}{{99, 4, 6, true}, {30, 4, 6, true}, {99, 3, 8, false}, {22, 3, 6, true}, {22, 2, 6, true}, {29, 2, 12, false}, {17, 5, 6, true}, {17, 1, 6, true}, {22, 1, 16, false}, {19, 1, 13, false}} {
		unit, fine := newClimb(windows, c.memory).granularity(c.states)
		if unit != c.unit || fine != c.fine {
			t.Errorf("%d entries in %d multiples: of %d (%v), want %d (%v)", c.memory, c.states, unit, fine, c.unit, c.fine)
		}
	}
	if unit, fine := newClimb(capacities(curveOf(0, shared, 10, 5)), 20).granularity(1); unit != 1 || !fine {
		t.Errorf("nothing to choose: of %d (%v)", unit, fine)
	}
}

// Every method keeps to the memory, the floors, whole blocks and the curves' ends. It is
// deterministic. It divides memory among copies of a problem as in the single problem.
func TestMethodsKeepTheRules(t *testing.T) {
	for _, m := range Methods() {
		spec, err := ParseMethod(m.Name)
		fatal.If(t, err)
		for seed := range uint64(400) {
			r := rand.New(rand.NewPCG(seed, 9))
			p := random(r, shape{1 + r.IntN(4), 1 + r.IntN(4), 2 + r.IntN(6), []Family{Capacities, Windows}[r.IntN(2)]})
			memory := randomMemory(r, p)
			got, err := spec.Allocate(p, memory)
			if err != nil {
				t.Fatalf("%s, seed %d: %v", m.Name, seed, err)
			}
			totals, err := p.Totals(got.Sizes)
			if err != nil || totals.Memory > memory {
				t.Fatalf("%s, seed %d: %v, %d entries of %d", m.Name, seed, err, totals.Memory, memory)
			}
			for i, size := range got.Sizes {
				points := p.Curves[i].Points
				if size < points[0].Size || size > points[len(points)-1].Size || p.Family == Capacities && size%p.Unit != 0 {
					t.Fatalf("%s, seed %d: %v gets %d of %+v", m.Name, seed, p.Curves[i].Key, size, points)
				}
			}
			again, err := spec.Allocate(p, memory)
			if err != nil || !equalInts(got.Sizes, again.Sizes) {
				t.Fatalf("%s, seed %d: %v, then %v, %v", m.Name, seed, got.Sizes, again.Sizes, err)
			}
		}
	}
}

func equalInts(a, b []int) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// Finer units of the moved amount and coarser units of memory do not change the choice.
func TestUnitsDoNotMatter(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 10))
		p := random(r, shape{3, 2, 6, Capacities})
		memory := randomMemory(r, p)
		finer := &Problem{Family: p.Family, Unit: 2 * p.Unit}
		for _, c := range p.Curves {
			f := Curve{Key: c.Key}
			for _, pt := range c.Points {
				f.Points = append(f.Points, Point{2 * pt.Size, 2 * pt.Cost, pt.Misses, 3 * pt.Moved})
			}
			finer.Curves = append(finer.Curves, f)
		}
		for _, m := range Methods() {
			spec, err := ParseMethod(m.Name)
			fatal.If(t, err)
			a, errA := spec.Allocate(p, memory)
			b, errB := spec.Allocate(finer, 2*memory)
			if errA != nil || errB != nil {
				t.Fatal(errA, errB)
			}
			for i := range a.Sizes {
				// Laws round shares to whole blocks, so twice the share differs by at most a block.
				if d := b.Sizes[i] - 2*a.Sizes[i]; d != 0 && (m.Name != "adakv" && m.Name != "pyramidkv" || d < -2*p.Unit || d > 2*p.Unit) {
					t.Fatalf("%s, seed %d: %v, in other units %v", m.Name, seed, a.Sizes, b.Sizes)
				}
			}
		}
	}
}

// With the best choice, more memory never moves more. Neither does a larger choice of sizes.
func TestMoreNeverHurtsExact(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 11))
		p := random(r, shape{3, 2, 6, Windows})
		memory := randomMemory(r, p)
		a := movedBy(t, p, solveExact(p, memory).Sizes)
		if b := movedBy(t, p, solveExact(p, memory+r.Int64N(20)).Sizes); b > a {
			t.Fatalf("seed %d: more memory moves %d, less %d", seed, b, a)
		}
		fewer := &Problem{Family: p.Family, Unit: p.Unit}
		for _, c := range p.Curves {
			fewer.Curves = append(fewer.Curves, Curve{c.Key, c.Points[:1+r.IntN(len(c.Points))]})
		}
		if b := movedBy(t, fewer, solveExact(fewer, memory).Sizes); b < a {
			t.Fatalf("seed %d: fewer sizes move %d, all %d", seed, b, a)
		}
	}
}
