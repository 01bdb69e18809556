package result

import (
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// CapacityText is the one spelling of a capacity that rows have: numbers in their
// shortest form, "4x" for "4.0x"; bytes in the unit in which they are shortest, "1MiB" for
// "1024KiB"; one that grows part by part. Whatever is no size of replay's forms, as
// "peak:lru", stays as it is.
func CapacityText(text string) string {
	if strings.Contains(text, "+") && !strings.Contains(text, ":") {
		parts := strings.Split(text, "+")
		for i, part := range parts {
			parts[i] = partText(part)
		}
		return strings.Join(parts, "+")
	}
	return sizeText(text)
}

// partText spells a part of a capacity that grows, "2x" or "2x@64".
func partText(text string) string {
	size, step, timed := strings.Cut(text, "@")
	if n, err := strconv.Atoi(step); timed && err == nil {
		return sizeText(size) + "@" + strconv.Itoa(n)
	}
	return sizeText(text)
}

// sizeText spells a size that stays: "1.5x", "0.2ctx", "6400", "64MiB".
func sizeText(text string) string {
	for _, unit := range []string{"ctx", "x"} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			if v, err := strconv.ParseFloat(number, 64); err == nil && v > 0 && !math.IsInf(v, 0) {
				return strconv.FormatFloat(v, 'f', -1, 64) + unit
			}
			return text
		}
	}
	if strings.HasSuffix(text, "B") {
		if n, err := humanize.ParseBytes(text); err == nil {
			return bytesSize(n)
		}
		return text
	}
	if n, err := strconv.Atoi(text); err == nil {
		return strconv.Itoa(n)
	}
	return text
}

// bytesSize spells a number of bytes in the unit that takes the fewest letters and reads
// back as the same number, of several the first of capacityUnits.
func bytesSize(n uint64) string {
	best := strconv.FormatUint(n, 10) + "B"
	for _, u := range capacityUnits {
		if u.kind != inBytes || u.suffix == "B" {
			continue
		}
		text := strconv.FormatFloat(float64(n)/u.scale, 'f', -1, 64) + u.suffix
		if back, err := humanize.ParseBytes(text); err == nil && back == n && len(text) < len(best) {
			best = text
		}
	}
	return best
}

// spellCapacity gives a row that was read its capacity as CapacityText spells it.
func (r *Row) spellCapacity() {
	if r.Capacity != nil {
		*r.Capacity = CapacityText(*r.Capacity)
	}
}
