package allocate

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// sizesBy returns the choice of a method.
func sizesBy(t *testing.T, method string, p *Problem, memory int64) []int {
	t.Helper()
	spec, err := ParseMethod(method)
	fatal.If(t, err)
	r, err := spec.Allocate(p, memory)
	fatal.If(t, err)
	return r.Sizes
}

// Two layers have sizes 10, 20, 30. Layer 0 saves 50, then 10. Layer 1 saves 20, then 45, so its
// envelope has one step from 10 to 30: 65 for 20 entries, 3.25 per entry. The floors take 20
// entries. With 30, layer 0's first step goes first at 5 per entry. With 40, layer 1's step does
// not fit the remaining 10. Among those that fit, layer 1 to 20 saves 2 per entry and layer 0 to 30
// saves 1. With 50, layer 0's first step and layer 1's whole step fit.
func TestGreedyByHand(t *testing.T) {
	p := capacities(curveOf(0, shared, 10, 100, 20, 50, 30, 40), curveOf(1, shared, 10, 100, 20, 80, 30, 35))
	for memory, want := range map[int64][]int{20: {10, 10}, 29: {10, 10}, 30: {20, 10}, 40: {20, 20}, 50: {20, 30}, 60: {30, 30}, 99: {30, 30}} {
		if got := sizesBy(t, "2d-greedy", p, memory); !equalInts(got, want) {
			t.Errorf("of %d: %v, want %v", memory, got, want)
		}
		if got := sizesBy(t, "2d-exact", p, memory); !equalInts(got, want) {
			t.Errorf("exact of %d: %v, want %v", memory, got, want)
		}
	}
}

// Layer 2's step is the best of all and does not fit. The remaining memory goes to the best ratio
// that fits: layer 0's 60 for 20 entries before layer 1's 20 for 10. Among equals it goes to the
// cheaper one, layer 1's 30 for 10, then to the lower layer.
func TestGreedyFills(t *testing.T) {
	large := curveOf(2, shared, 10, 2000, 60, 1000)
	for saved, want := range map[int64][]int{20: {30, 10, 10}, 30: {10, 20, 10}} {
		p := capacities(curveOf(0, shared, 10, 100, 30, 40), curveOf(1, shared, 10, 100, 20, 100-saved), large)
		if got := sizesBy(t, "2d-greedy", p, 50); !equalInts(got, want) {
			t.Errorf("layer 1 saves %d: %v, want %v", saved, got, want)
		}
	}
	alike := capacities(curveOf(0, shared, 10, 100, 20, 70), curveOf(1, shared, 10, 100, 20, 70), large)
	if got := sizesBy(t, "2d-greedy", alike, 40); !equalInts(got, []int{20, 10, 10}) {
		t.Errorf("layers alike: %v, want the lower one enlarged", got)
	}
}

// Greedy is not always the best. Layer 0 saves 60 for 10 entries, 6 per entry. Layer 1 saves 100
// for 20, 5 per entry. With 40 (20 above the floors), greedy takes layer 0's and has 10 left, which
// fit no size of layer 1. The best choice is layer 1's. The bound is that of the relaxation: 60 +
// half of 100 = 110, so at least 200 - 110 = 90 are moved.
func TestGreedyIsNotTheBest(t *testing.T) {
	p := capacities(curveOf(0, shared, 10, 100, 20, 40), curveOf(1, shared, 10, 100, 30, 0))
	greedy := solveGreedy(p, 40)
	if !equalInts(greedy.Sizes, []int{20, 10}) || greedy.AtLeast != 90 {
		t.Errorf("greedy %v, at least %d, want [20 10] and 90", greedy.Sizes, greedy.AtLeast)
	}
	exact := solveExact(p, 40)
	if !equalInts(exact.Sizes, []int{10, 30}) || exact.AtLeast != 100 || exact.Granularity != 10 {
		t.Errorf("exact %v, at least %d, in %d; want [10 30], 100, 10", exact.Sizes, exact.AtLeast, exact.Granularity)
	}
}

// No method spends memory that saves nothing: layer 0 is flat from 20 on, layer 1 rises.
func TestNothingForNothing(t *testing.T) {
	p := capacities(curveOf(0, shared, 10, 100, 20, 50, 30, 50), curveOf(1, shared, 10, 10, 20, 12, 30, 11))
	for _, method := range []string{"2d-greedy", "2d-exact", "layer"} {
		if got := sizesBy(t, method, p, 1000); !equalInts(got, []int{20, 10}) {
			t.Errorf("%s: %v, want [20 10]", method, got)
		}
	}
}

// Among equals the lower layer is enlarged.
func TestTies(t *testing.T) {
	p := capacities(curveOf(0, shared, 10, 100, 20, 50), curveOf(1, shared, 10, 100, 20, 50), curveOf(2, shared, 10, 100, 20, 50))
	for _, method := range []string{"2d-greedy", "2d-exact", "layer"} {
		if got := sizesBy(t, method, p, 50); !equalInts(got, []int{20, 20, 10}) {
			t.Errorf("%s: %v, want [20 20 10]", method, got)
		}
	}
}

// One layer of two heads saves only by head 0, the other only by head 1.
//
//	uniform  80 ÷ 4 = 20 each
//	layer    heads alike: layer 0 to 20 saves 60 for 20 entries, layer 1 saves 30
//	head     each layer has 20 above its floors: one head takes them all
//	2d       60 for 10, then 30 for 10, then 20 and 10 for 10 more
func twoByTwo() *Problem {
	return capacities(
		curveOf(0, 0, 10, 100, 20, 40, 30, 20), curveOf(0, 1, 10, 9, 20, 9, 30, 9),
		curveOf(1, 0, 10, 7, 20, 7, 30, 7), curveOf(1, 1, 10, 100, 20, 70, 30, 60))
}

func TestDimensions(t *testing.T) {
	for method, want := range map[string][4][]int{ // memory of 50, 60, 70, 80
		"uniform":   {{12, 12, 12, 12}, {15, 15, 15, 15}, {17, 17, 17, 17}, {20, 20, 20, 20}},
		"layer":     {{10, 10, 10, 10}, {20, 20, 10, 10}, {20, 20, 10, 10}, {20, 20, 20, 20}},
		"head":      {{10, 10, 10, 10}, {20, 10, 10, 20}, {20, 10, 10, 20}, {30, 10, 10, 30}},
		"2d-greedy": {{20, 10, 10, 10}, {20, 10, 10, 20}, {30, 10, 10, 20}, {30, 10, 10, 30}},
	} {
		for i, want := range want {
			if got := sizesBy(t, method, twoByTwo(), int64(50+10*i)); !equalInts(got, want) {
				t.Errorf("%s of %d: %v, want %v", method, 50+10*i, got, want)
			}
		}
	}
}

// PyramidKV: 3 layers of floor 10 in 120 entries leave 90 above the floors, B = 30 per layer. β =
// 20: the last layer gets B/20 = 1.5, the first 60 − 1.5 = 58.5, the middle 30. β = 2: 15, 45 and
// 30. β = 1 is uniform. β = 3: 10 and 50.
func TestPyramidByHand(t *testing.T) {
	c := func(layer int32) Curve { return curveOf(layer, shared, 10, 5, 500, 1) }
	p := capacities(c(0), c(1), c(2))
	for method, want := range map[string][]int{
		"pyramidkv": {68, 40, 11}, "pyramidkv:beta=2": {55, 40, 25}, "pyramidkv:beta=1": {40, 40, 40}, "pyramidkv:beta=3": {60, 40, 20},
	} {
		if got := sizesBy(t, method, p, 120); !equalInts(got, want) {
			t.Errorf("%s: %v, want %v", method, got, want)
		}
	}
	one := capacities(c(0))
	if got := sizesBy(t, "pyramidkv", one, 120); !equalInts(got, []int{120}) {
		t.Errorf("one layer: %v, want all of it", got)
	}
	if got := sizesBy(t, "pyramidkv", one, 620); !equalInts(got, []int{500}) {
		t.Errorf("beyond the profile: %v, want its largest size", got)
	}
}

// AdaKV on the heads of twoByTwo with 80 entries: a layer has 20 above its floors, B = 10 per head.
// B* is the choice of `head`: 20 and 0. α = 0.2: 0.8·20 + 0.2·10 = 18, and 0 + 2. α = 1: equal
// heads. α = 0: head.
func TestAdaByHand(t *testing.T) {
	for method, want := range map[string][]int{
		"adakv": {28, 12, 12, 28}, "adakv:alpha=1": {20, 20, 20, 20}, "adakv:alpha=0": {30, 10, 10, 30}, "adakv:alpha=0.5": {25, 15, 15, 25},
	} {
		if got := sizesBy(t, method, twoByTwo(), 80); !equalInts(got, want) {
			t.Errorf("%s: %v, want %v", method, got, want)
		}
	}
}

// Windows cost their residents. uniform takes the largest window that fits for all. The other
// methods may enlarge further in the remaining memory.
func TestWindowsByHand(t *testing.T) {
	window := func(layer int32, triples ...int64) Curve {
		c := Curve{Key: Key{layer, shared}}
		for i := 0; i < len(triples); i += 2 {
			c.Points = append(c.Points, Point{Size: i / 2, Cost: triples[i], Misses: triples[i+1], Moved: triples[i+1]})
		}
		return c
	}
	p := &Problem{Windows, 1, []Curve{window(0, 0, 90, 5, 40, 7, 30, 8, 29), window(1, 0, 90, 5, 60, 9, 50, 12, 20)}}
	for memory, want := range map[int64][2][]int{ // uniform, 2d-exact
		0: {{0, 0}, {0, 0}}, 10: {{1, 1}, {1, 1}}, 15: {{1, 1}, {3, 1}}, 16: {{2, 2}, {2, 2}}, 17: {{2, 2}, {1, 3}}, 19: {{2, 2}, {2, 3}}, 20: {{3, 3}, {3, 3}},
	} {
		if got := sizesBy(t, "uniform", p, memory); !equalInts(got, want[0]) {
			t.Errorf("uniform of %d: %v, want %v", memory, got, want[0])
		}
		if got := sizesBy(t, "2d-exact", p, memory); !equalInts(got, want[1]) {
			t.Errorf("2d-exact of %d: %v, want %v", memory, got, want[1])
		}
	}
}

func TestParseMethod(t *testing.T) {
	for text, want := range map[string]string{"uniform": "uniform", "pyramidkv": "pyramidkv:beta=20", "pyramidkv:beta=7": "pyramidkv:beta=7", "adakv": "adakv:alpha=0.2", "adakv:alpha=1": "adakv:alpha=1"} {
		spec, err := ParseMethod(text)
		if err != nil || spec.Name() != want {
			t.Errorf("%s: %s, %v, want %s", text, spec.Name(), err, want)
		}
		if again, err := ParseMethod(spec.Name()); err != nil || again.Name() != want {
			t.Errorf("%s does not parse back: %s, %v", want, again.Name(), err)
		}
	}
	for text, want := range map[string]string{"": "unknown method", "2d-gready": "did you mean 2d-greedy?", "uniform:x=1": "unexpected options", "pyramidkv:beta=0": "beta=0 is not between", "adakv:alpha=2": "usage: adakv"} {
		if _, err := ParseMethod(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, m := range Methods() {
		if m.Summary == "" || !strings.HasPrefix(m.Usage, m.Name) {
			t.Errorf("%s says not what it does or how it is called", m.Name)
		}
	}
}

// An impossible problem is an error, not a plan.
func TestBadProblems(t *testing.T) {
	good := curveOf(0, shared, 10, 5, 20, 3)
	for name, c := range map[string]struct {
		p      *Problem
		memory int64
		want   string
	}{
		"nothing":          {capacities(), 10, "0 curves"},
		"no sizes":         {capacities(Curve{}), 10, "0 sizes"},
		"no unit":          {&Problem{Capacities, 0, []Curve{good}}, 10, "0 entries per block"},
		"family":           {&Problem{"heads", 1, []Curve{good}}, 10, "expected capacity or window"},
		"twice":            {capacities(good, good), 99, "layer 0 appears twice"},
		"unsorted":         {capacities(curveOf(1, shared, 10, 5), good), 99, "not sorted"},
		"sizes fall":       {capacities(curveOf(0, 1, 20, 5, 10, 5)), 99, "layer 0 head 1: sizes and costs do not ascend"},
		"size twice":       {&Problem{Windows, 1, []Curve{{Key{}, []Point{{1, 1, 9, 9}, {1, 2, 5, 5}}}}}, 99, "do not ascend at size 1"},
		"costs fall":       {&Problem{Windows, 1, []Curve{{Key{}, []Point{{1, 2, 9, 9}, {2, 1, 5, 5}}}}}, 99, "do not ascend at size 2"},
		"too many sizes":   {capacities(Curve{Points: make([]Point, mostPoints+1)}), 99, "65537 sizes, expected 1 to 65536"},
		"too many curves":  {&Problem{Capacities, 1, make([]Curve, mostCurves+1)}, 99, "16385 curves"},
		"negative":         {capacities(curveOf(0, 1, 20, -5)), 99, "moves -5"},
		"too much":         {capacities(curveOf(0, 1, 20, 1<<50)), 99, "moves 1125899906842624"},
		"too many misses":  {capacities(Curve{Key{}, []Point{{Size: 3, Cost: 3, Misses: 1 << 50}}}), 99, "misses 1125899906842624"},
		"too large":        {capacities(curveOf(0, 1, 1<<31, 5)), 99, "expected 0 to 1073741824 entries"},
		"floors differ":    {capacities(good, curveOf(1, shared, 20, 5)), 99, "floor of layer 0 is 10, that of layer 1 is 20"},
		"capacity's cost":  {capacities(Curve{Key{}, []Point{{Size: 3, Cost: 4}}}), 99, "capacity 3 costs 4"},
		"below the floors": {capacities(good, curveOf(1, shared, 10, 5)), 19, "19 entries of memory are too few: 2 streams of at least 10 entries take 20"},
	} {
		spec, err := ParseMethod("2d-greedy")
		fatal.If(t, err)
		if _, err := spec.Allocate(c.p, c.memory); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
