package result

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// PeakPrefix starts the capacity text of LRU and OPT rows at the peak size of a policy without
// capacity: "peak:window:2".
const PeakPrefix = "peak:"

// Forms of a capacity, in the order of boards.
const (
	// TimesK is the form "1.5x", a multiple of K.
	TimesK = iota
	ofContext
	inEntries
	inBytes
	// OtherForm is any other text, such as "peak:lru".
	OtherForm
)

// capacityUnits are the spellings of the forms.
var capacityUnits = []struct {
	suffix string
	kind   int
	scale  float64
}{
	{"ctx", ofContext, 1}, {"x", TimesK, 1},
	{"TiB", inBytes, 1 << 40}, {"GiB", inBytes, 1 << 30}, {"MiB", inBytes, 1 << 20}, {"KiB", inBytes, 1 << 10},
	{"TB", inBytes, 1e12}, {"GB", inBytes, 1e9}, {"MB", inBytes, 1e6}, {"KB", inBytes, 1e3}, {"kB", inBytes, 1e3}, {"B", inBytes, 1},
	{"", inEntries, 1},
}

// CapacitySize returns a capacity's form and size for ordering. Texts of no known form come last.
func CapacitySize(text string) (kind int, size float64) {
	for _, u := range capacityUnits {
		if digits, ok := strings.CutSuffix(text, u.suffix); ok {
			if x, err := strconv.ParseFloat(digits, 64); err == nil {
				return u.kind, x * u.scale
			}
		}
	}
	return OtherForm, 0
}

// knownCapacity reports whether a text has a form that rows have: a size above 0, sizes from steps on, or
// the name of a peak or a plan.
func knownCapacity(text string) bool {
	for _, prefix := range []string{PeakPrefix, "plan:"} {
		if name, ok := strings.CutPrefix(text, prefix); ok {
			return name != ""
		}
	}
	for part := range strings.SplitSeq(text, "+") {
		size, step, timed := strings.Cut(part, "@")
		if _, err := strconv.ParseUint(step, 10, 31); timed && err != nil {
			return false
		}
		if kind, x := CapacitySize(size); kind == OtherForm || !(x > 0) || math.IsInf(x, 0) || kind == inEntries && x != math.Trunc(x) {
			return false
		}
	}
	return true
}

// CompareCapacity orders capacities by form, then by size.
func CompareCapacity(a, b string) int {
	ka, xa := CapacitySize(a)
	kb, xb := CapacitySize(b)
	return cmp.Or(cmp.Compare(ka, kb), cmp.Compare(xa, xb), strings.Compare(a, b))
}

// SortCapacities sorts by size within a form and drops repeats.
func SortCapacities(texts []string) []string {
	slices.SortFunc(texts, CompareCapacity)
	return slices.Compact(texts)
}
