package result

import (
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// CapacityText returns the one spelling of a capacity in rows. Numbers have their shortest form:
// "4x" for "4.0x". Bytes have the unit with the shortest text: "1MiB" for "1024KiB". A growing
// capacity is spelled part by part. Any other text, such as "peak:lru", is unchanged.
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

// partText spells a part of a growing capacity, "2x" or "2x@64".
func partText(text string) string {
	size, step, timed := strings.Cut(text, "@")
	if n, err := strconv.Atoi(step); timed && err == nil {
		return sizeText(size) + "@" + strconv.Itoa(n)
	}
	return sizeText(text)
}

// sizeText spells a fixed size: "1.5x", "0.2ctx", "6400", "64MiB".
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
		if n, err := humanize.ParseBigBytes(text); err == nil && n.IsUint64() {
			return bytesSize(n.Uint64())
		}
		return text
	}
	if n, err := strconv.Atoi(text); err == nil {
		return strconv.Itoa(n)
	}
	return text
}

// bytesSize spells a number of bytes with the fewest letters that parse back to the same number. A
// tie goes to the first unit of capacityUnits.
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

// spellCapacity spells the capacity of a row as CapacityText does.
func (r *Row) spellCapacity() {
	if r.Capacity != nil {
		r.Capacity = new(CapacityText(*r.Capacity))
	}
}
