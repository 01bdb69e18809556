package ruler

import "fmt"

// fitted is a prompt of the largest size that fits.
type fitted struct {
	draft
	units int
	cost  int // tokens of input and prefix
}

// tightError says that the smallest prompt does not fit, or that the largest leaves room.
type tightError struct {
	units, cost, budget int
}

func (e *tightError) Error() string {
	return fmt.Sprintf("%d units take %d tokens, %d are there", e.units, e.cost, e.budget)
}

// probes is the number of interpolated sizes after which fit halves instead.
const probes = 6

// fit returns the prompt of n units for which n fit in budget tokens and n+1 do not,
// which is the largest where every unit makes the prompt longer. guess is a size to
// start from, 0 for none. A sample whose least size does not fit, or whose most does,
// is a *tightError.
//
// RULER halves over the sizes with a new draw each time, and takes the result for all
// samples, minus steps of 5 … 500 units for those that turn out longer. Here every
// sample has its own size. Since a prompt's length is close to linear in its units, the
// interpolated size is a unit or two off, and a prompt is built and counted four or
// five times.
func fit(s sample, budget, guess int, count func(string) int) (*fitted, error) {
	at := func(n int) *fitted {
		d := s.prompt(n)
		return &fitted{draft: d, units: n, cost: count(d.input + d.prefix)}
	}
	least, most := s.sizes()
	low := at(least)
	if low.cost > budget {
		return nil, &tightError{least, low.cost, budget}
	}
	high := &fitted{units: most + 1} // does not fit; its cost is known once it is built
	slope := 0.0                     // tokens a unit
	if second := least + 16; second < high.units {
		p := at(second)
		slope = float64(p.cost-low.cost) / 16
		if p.cost <= budget {
			low = p
		} else {
			high = p
		}
	}
	for probe := 0; high.units-low.units > 1; probe++ {
		var n int
		switch {
		case probe == 0 && guess > low.units && guess < high.units:
			n = guess
		case probe < probes && slope > 0:
			n = low.units + int(float64(budget-low.cost)/slope)
		case high.cost == 0:
			n = low.units * 2
		default:
			n = low.units + (high.units-low.units)/2
		}
		p := at(min(max(n, low.units+1), high.units-1))
		from := low
		if high.cost > 0 && p.cost <= budget {
			from = high
		}
		if p.units != from.units {
			slope = float64(p.cost-from.cost) / float64(p.units-from.units)
		}
		if p.cost <= budget {
			low = p
		} else {
			high = p
		}
	}
	if low.units == most {
		return nil, &tightError{most, low.cost, budget}
	}
	return low, nil
}
