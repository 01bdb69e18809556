package replay

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// SweepPoints is how many capacities `sweep` stands for.
const SweepPoints = 64

// maxSweepPoints keeps the texts of a grid apart.
const maxSweepPoints = 1024

// sweepOctaves is how often the capacity doubles along a sweep.
const sweepOctaves = 4

// sweepGrid are n multiples of K from 1x up to, but not with, 16x: evenly many to each
// doubling and evenly spaced within it. Being multiples of K, and the same for every
// stream and trace, they pool; where 4 divides n they have 1x, 2x, 4x and 8x among
// them, where 8 does 1.5x and 3x too. Below 1x every policy overflows (SEMANTICS S5).
func sweepGrid(n int) []string {
	texts := make([]string, n)
	for i := range texts {
		octave, within := math.Modf(float64(i) * sweepOctaves / float64(n))
		multiple := math.Exp2(octave) * (1 + within)
		texts[i] = strconv.FormatFloat(math.Round(multiple*1e4)/1e4, 'f', -1, 64) + "x"
	}
	return texts
}

// ParseCapacities reads capacities as ParseCapacity does, each once; "sweep" and
// "sweep:N" stand for the SweepPoints or N multiples of K of a whole curve.
func ParseCapacities(texts []string) (capacities []Capacity, err error) {
	seen := map[string]bool{}
	for _, text := range texts {
		expanded := []string{strings.TrimSpace(text)}
		if name, count, has := strings.Cut(expanded[0], ":"); name == "sweep" {
			n := SweepPoints
			if has {
				n, err = strconv.Atoi(count)
			}
			if err != nil || n < 1 || n > maxSweepPoints {
				return nil, fmt.Errorf("capacity %q: expected sweep or sweep:N with N from 1 to %d capacities", text, maxSweepPoints)
			}
			expanded = sweepGrid(n)
		}
		for _, one := range expanded {
			c, err := ParseCapacity(one)
			if err != nil {
				return nil, err
			}
			if !seen[c.text] {
				seen[c.text] = true
				capacities = append(capacities, c)
			}
		}
	}
	return capacities, nil
}
