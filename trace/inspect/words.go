package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/trace/locality"
)

const none = "–" // no value: nothing to divide by

// String is "5" or "5 to 9".
func (e Extent) String() string {
	if e.Min == e.Max {
		return strconv.FormatInt(e.Min, 10)
	}
	return fmt.Sprintf("%d to %d", e.Min, e.Max)
}

func number(v *float64, digits int) string {
	if v == nil {
		return none
	}
	return strconv.FormatFloat(*v, 'f', digits, 64)
}

func share(v *float64) string {
	if v == nil {
		return none
	}
	return strconv.FormatFloat(100**v, 'f', 1, 64) + " %"
}

func quantiles(q locality.Quantiles) string {
	return strings.Join([]string{number(q.P50, 0), number(q.P90, 0), number(q.P99, 0)}, " ")
}

func optional(v *int) string {
	if v == nil {
		return "not stated"
	}
	return strconv.Itoa(*v)
}

func headsText(heads []int32) string {
	if len(heads) == 0 {
		return "shared by the layer"
	}
	return Ranges(heads)
}

// Ranges writes ascending numbers as "0, 5, 10-20".
func Ranges(values []int32) string {
	var parts []string
	for i := 0; i < len(values); {
		j := i
		for j+1 < len(values) && values[j+1] == values[j]+1 {
			j++
		}
		part := strconv.Itoa(int(values[i]))
		if j > i {
			part += "-" + strconv.Itoa(int(values[j]))
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
