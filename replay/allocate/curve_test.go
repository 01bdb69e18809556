package allocate

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Sizes 10, 20, 40 move 100, 50, 10. A capacity of 15 is half-way, and one of 25 a quarter of the
// way from 50 to 10. One of 27 is seven twentieths of it: 50 - 14. 41 equals 40.
func TestAt(t *testing.T) {
	c := curveOf(0, shared, 10, 100, 20, 50, 40, 10)
	for size, want := range map[int]int64{10: 100, 15: 75, 20: 50, 25: 40, 27: 36, 39: 12, 40: 10, 41: 10, 4000: 10} {
		p, err := c.At(Capacities, size)
		if err != nil || p != (Point{size, int64(size), want, want}) {
			t.Errorf("capacity %d: %+v, %v, want %d", size, p, err, want)
		}
	}
	if _, err := c.At(Capacities, 9); err == nil || !strings.Contains(err.Error(), "capacity 9 was not profiled: expected 10 to 40") {
		t.Errorf("below: %v", err)
	}
	if _, err := c.At(Windows, 15); err == nil || !strings.Contains(err.Error(), "window 15 was not profiled: expected 10 to 40") {
		t.Errorf("window: %v", err)
	}
	rising := curveOf(0, shared, 10, 10, 20, 21)
	if p, err := rising.At(Capacities, 15); err != nil || p.Moved != 16 { // 15.5
		t.Errorf("rising: %+v, %v, want 16", p, err)
	}
	for size, want := range map[int]int64{11: 10, 12: 9, 15: 9, 16: 8, 19: 7} { // 9.7, 9.4, 8.5, 8.2, 7.3
		falling := curveOf(0, shared, 10, 10, 20, 7)
		if p, err := falling.At(Capacities, size); err != nil || p.Misses != want || p.Moved != want {
			t.Errorf("capacity %d: %+v, %v, want %d", size, p, err, want)
		}
	}
}

// mulAddDiv returns the quotient of integers of any size.
func TestMulAddDiv(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 10000 {
		c := 1 + r.Int64N(1<<62)
		a, b := r.Int64(), r.Int64N(c+1)
		want := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		want.Div(want, big.NewInt(c))
		if got := mulAddDiv(a, b, 0, c); got != want.Int64() {
			t.Fatalf("%d·%d÷%d: %d, want %v", a, b, c, got, want)
		}
	}
}

func TestFrontier(t *testing.T) {
	windows := Curve{Points: []Point{{0, 5, 9, 90}, {1, 5, 9, 80}, {2, 6, 9, 80}, {3, 7, 9, 85}, {4, 8, 9, 20}}}
	want := []Point{{1, 5, 9, 80}, {4, 8, 9, 20}}
	if got := windows.frontier(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The merged curve has only sizes that all curves have.
func TestMerge(t *testing.T) {
	got := merge([]Curve{curveOf(3, 0, 10, 5, 20, 4, 30, 3), curveOf(3, 1, 10, 50, 30, 30, 40, 20), curveOf(3, 2, 10, 1, 20, 1, 30, 1)})
	want := []Point{{10, 30, 56, 56}, {30, 90, 34, 34}}
	if got.Key != (Key{3, 0}) || !slices.Equal(got.Points, want) {
		t.Errorf("%+v, want %v", got, want)
	}
}

// The envelope of 100 80 35 (sizes 10, 20, 30) skips 20, because 6.5 per entry beats 2 followed by
// 4.5. Two steps with equal savings per entry stay separate.
func TestSteps(t *testing.T) {
	p := capacities(curveOf(0, shared, 10, 100, 20, 80, 30, 35, 40, 30), curveOf(1, shared, 10, 9, 20, 4, 30, 0), curveOf(2, shared, 10, 90, 20, 60, 40, 0))
	want := []step{{0, 2, 20, 65}, {0, 3, 10, 5}, {1, 1, 10, 5}, {1, 2, 10, 4}, {2, 1, 10, 30}, {2, 2, 20, 60}}
	if got := newClimb(p, 100).steps(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
