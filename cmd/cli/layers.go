package cli

import (
	"fmt"
	"strconv"
	"strings"
)

// parseLayers reads layer numbers and inclusive ranges: "0", "10-20". Nil for none.
func parseLayers(texts []string) (layers []int32, err error) {
	seen := map[int32]bool{}
	for _, text := range texts {
		from, to, isRange := strings.Cut(strings.TrimSpace(text), "-")
		if !isRange {
			to = from
		}
		a, errA := strconv.Atoi(from)
		b, errB := strconv.Atoi(to)
		if errA != nil || errB != nil || a > b || b > 1<<20 {
			return nil, fmt.Errorf("layers %q: expected a number or a range, as in 0,5,10-20", text)
		}
		for l := int32(a); l <= int32(b); l++ {
			if !seen[l] {
				seen[l] = true
				layers = append(layers, l)
			}
		}
	}
	return layers, nil
}
