package allocate

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/replay/setting"
)

// Point is one size of a layer and head, with its counts pooled over requests.
type Point struct {
	Size int // entries of a capacity or steps of a window
	// Cost is the memory of the size, Cost_{l,h}(w), in entries per request. For a capacity it is
	// the capacity itself, and for a window the number of resident entries.
	Cost int64
	// Misses are blocks.
	Misses int64
	// Moved is the transfer to the GPU: bytes, or entries if their bytes are not known.
	// Benefit_{l,h}(w) is Moved of the smallest size minus Moved of this one.
	Moved int64
}

// Curve holds the costs and savings of one layer and head, by ascending size.
type Curve struct {
	Key
	Points []Point
}

// Limits that keep sums far from overflow. 2^48 B are 256 TiB.
const (
	mostCurves = 1 << 14
	mostPoints = 1 << 16
	mostMoved  = 1 << 48
)

func (c *Curve) check(f Family) error {
	if n := len(c.Points); n == 0 || n > mostPoints {
		return fmt.Errorf("%d sizes, expected 1 to %d", n, mostPoints)
	}
	for i, p := range c.Points {
		switch {
		case min(int64(p.Size), p.Cost, p.Misses, p.Moved) < 0 || max(int64(p.Size), p.Cost) > setting.MostEntries || max(p.Misses, p.Moved) > mostMoved:
			return fmt.Errorf("size %d costs %d entries, misses %d and moves %d: expected 0 to %d entries, and 0 to %d misses and moves", p.Size, p.Cost, p.Misses, p.Moved, setting.MostEntries, int64(mostMoved))
		case f == Capacities && p.Cost != int64(p.Size):
			return fmt.Errorf("capacity %d costs %d entries: expected equal numbers", p.Size, p.Cost)
		case i > 0 && (p.Size <= c.Points[i-1].Size || p.Cost < c.Points[i-1].Cost):
			return fmt.Errorf("sizes and costs do not ascend at size %d", p.Size)
		}
	}
	return nil
}

// At returns the point of a size. A capacity between two profiled ones is interpolated linearly, to
// the nearest integer. One beyond the largest counts as the largest. Windows, and capacities below
// the smallest, must have been profiled.
func (c *Curve) At(f Family, size int) (Point, error) {
	n := len(c.Points)
	i, profiled := c.find(size)
	switch {
	case profiled:
		return c.Points[i], nil
	case f == Windows:
		return Point{}, fmt.Errorf("window %d was not profiled: expected %d to %d", size, c.Points[0].Size, c.Points[n-1].Size)
	case i == 0:
		return Point{}, fmt.Errorf("capacity %d was not profiled: expected %d to %d entries", size, c.Points[0].Size, c.Points[n-1].Size)
	case i == n:
		last := c.Points[n-1]
		return Point{size, int64(size), last.Misses, last.Moved}, nil
	}
	a, b := c.Points[i-1], c.Points[i]
	part, whole := int64(size-a.Size), int64(b.Size-a.Size)
	return Point{size, int64(size), between(a.Misses, b.Misses, part, whole), between(a.Moved, b.Moved, part, whole)}, nil
}

// find returns the first point of at least a size, and whether it has that size.
func (c *Curve) find(size int) (at int, exactly bool) {
	return slices.BinarySearchFunc(c.Points, size, func(p Point, size int) int { return p.Size - size })
}

// between returns a + (b-a)·part÷whole rounded to the nearest integer, half up, for 0 ≤ part ≤
// whole.
func between(a, b, part, whole int64) int64 {
	if b < a {
		a, b, part = b, a, whole-part
	}
	return a + mulAddDiv(b-a, part, whole/2, whole)
}

// mulAddDiv returns (a·b + plus)÷c rounded down without intermediate overflow. It requires a, b ≥
// 0, b ≤ c, 0 ≤ plus < c.
func mulAddDiv(a, b, plus, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, uint64(plus), 0)
	q, _ := bits.Div64(hi+carry, lo, uint64(c))
	return int64(q)
}

// frontier returns the points that are worth choosing, by ascending cost. Each moves less than all
// cheaper ones. The first is the curve's cheapest point.
func (c *Curve) frontier() []Point {
	var f []Point
	for _, p := range c.Points {
		switch n := len(f); {
		case n == 0:
			f = append(f, p)
		case p.Moved >= f[n-1].Moved:
		case p.Cost == f[n-1].Cost:
			f[n-1] = p
		default:
			f = append(f, p)
		}
	}
	return f
}

// fit returns the largest size that costs at most share, but at least the floor. A capacity need
// not have been profiled, but it is at most the largest profiled one.
func (c *Curve) fit(p *Problem, share int64) int {
	size := c.Points[0].Size
	for _, pt := range c.Points {
		if pt.Cost <= share {
			size = pt.Size
		}
	}
	if last := c.Points[len(c.Points)-1].Size; p.Family == Capacities && share < int64(last) {
		size = max(size, int(share)/p.Unit*p.Unit)
	}
	return size
}

// merge returns one curve for several that must have equal sizes. Its points are their common
// sizes, with costs and counts summed.
func merge(curves []Curve) Curve {
	merged := curves[0]
	for _, c := range curves[1:] {
		var kept []Point
		for _, p := range merged.Points {
			if j, ok := c.find(p.Size); ok {
				q := c.Points[j]
				kept = append(kept, Point{p.Size, p.Cost + q.Cost, p.Misses + q.Misses, p.Moved + q.Moved})
			}
		}
		merged.Points = kept
	}
	return merged
}
