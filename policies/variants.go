package policies

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// mostVariants is the largest number of variants of a sweep.
const mostVariants = 100

// rangeSteps is the number of values of a range that states none.
const rangeSteps = 5

// Variants expands a policy whose options state several values: "a|b|c", or "low..high" with five values
// at equal distances, or "low..high/n" with n values. Several such options give all combinations. The
// last option varies fastest. varied are the options with several values.
func (t Table) Variants(text string) (specs []Spec, varied []string, err error) {
	name, options, _ := strings.Cut(text, ":")
	texts := []string{""}
	for item := range strings.SplitSeq(options, ",") {
		option, value, ok := strings.Cut(item, "=")
		if !ok {
			return nil, nil, fmt.Errorf("%q: expected an option with values, as in lrfu:gamma=0.9..0.99", text)
		}
		values, err := valuesOf(value)
		if err != nil {
			return nil, nil, fmt.Errorf("option %s of %q: %w", option, name, err)
		}
		if len(values) > 1 {
			varied = append(varied, option)
		}
		if len(texts)*len(values) > mostVariants {
			return nil, nil, fmt.Errorf("%q has more than %d variants: choose fewer values", text, mostVariants)
		}
		var longer []string
		for _, begin := range texts {
			for _, v := range values {
				longer = append(longer, strings.TrimPrefix(begin+","+option+"="+v, ","))
			}
		}
		texts = longer
	}
	if varied == nil {
		return nil, nil, fmt.Errorf("%q has one variant: give an option several values, as in lrfu:gamma=0.9..0.99", text)
	}
	for _, options := range texts {
		spec, err := t.Parse(name + ":" + options)
		if err != nil {
			return nil, nil, err
		}
		if !slices.ContainsFunc(specs, func(s Spec) bool { return s.Name() == spec.Name() }) {
			specs = append(specs, spec)
		}
	}
	return specs, varied, nil
}

// valuesOf lists the values of an option.
func valuesOf(text string) (values []string, err error) {
	if strings.Contains(text, "|") {
		return strings.Split(text, "|"), nil
	}
	low, high, isRange := strings.Cut(text, "..")
	if !isRange {
		return []string{text}, nil
	}
	n := rangeSteps
	high, count, counted := strings.Cut(high, "/")
	if counted {
		if n, err = strconv.Atoi(count); err != nil || n < 2 || n > mostVariants {
			return nil, fmt.Errorf("%s: expected 2 to %d values, as in 0.9..0.99/10", text, mostVariants)
		}
	}
	a, errA := strconv.ParseFloat(low, 64)
	b, errB := strconv.ParseFloat(high, 64)
	if errA != nil || errB != nil || !(a < b) || math.IsInf(b-a, 0) {
		return nil, fmt.Errorf("%s: expected two numbers, the lower one first, as in 0.9..0.99", text)
	}
	whole := a == math.Trunc(a) && b == math.Trunc(b) && !strings.ContainsAny(low+high, ".eE")
	for i := range n {
		x := a + (b-a)*float64(i)/float64(n-1)
		digits := strconv.FormatFloat(x, 'g', 10, 64) // without the error of the sum
		if whole {
			digits = strconv.FormatFloat(math.Round(x), 'f', 0, 64)
		}
		if !slices.Contains(values, digits) {
			values = append(values, digits)
		}
	}
	return values, nil
}
