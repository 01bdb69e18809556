package result

import (
	"cmp"
	"regexp"
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

// fixedSize matches a size in the spelling of CapacityText.
var fixedSize = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ctx|x|[KMGT]i?B|kB)|[0-9]+B?)$`)

// KnownCapacity reports whether a text is a capacity of rows, in the spelling of CapacityText: a size
// above 0, sizes that grow at steps, or the name of a peak or a plan.
func KnownCapacity(text string) bool {
	for _, prefix := range []string{PeakPrefix, "plan:"} {
		if name, ok := strings.CutPrefix(text, prefix); ok {
			return strings.TrimSpace(name) != ""
		}
	}
	form, last, from := OtherForm, 0.0, uint64(0)
	for i, part := range strings.Split(text, "+") {
		size, step, timed := strings.Cut(part, "@")
		kind, x := CapacitySize(size)
		if !fixedSize.MatchString(size) || !(x > 0) || x < last || i > 0 && kind != form || timed != (i > 0) {
			return false
		}
		if form, last = kind, x; timed {
			at, err := strconv.ParseUint(step, 10, 31)
			if err != nil || at <= from {
				return false
			}
			from = at
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
