package hardware

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// Bytes is a size in bytes.
type Bytes float64

// BytesPerSecond is a rate.
type BytesPerSecond float64

// Seconds is a duration.
type Seconds float64

// FLOPPerSecond is a rate of arithmetic. A multiply-add counts as two FLOP.
type FLOPPerSecond float64

// PerSecond is a frequency: operations per second.
type PerSecond float64

// Hertz is the frequency of a clock.
type Hertz float64

// Number has no unit: a count or an exponent.
type Number float64

// dimension is a quantity with its units.
type dimension interface {
	~float64
	units() units
}

// units describes a dimension: its name, its units in ascending order, and the range of sensible
// values in SI units. Values in the range other than 0 give finite times.
type units struct {
	what        string
	least, most float64
	list        []unit
}

type unit struct {
	name string
	si   float64
}

var (
	sizeUnits  = units{"size", 1e-2, 1e18, []unit{{"B", 1}, {"kB", 1e3}, {"KiB", 1 << 10}, {"MB", 1e6}, {"MiB", 1 << 20}, {"GB", 1e9}, {"GiB", 1 << 30}, {"TB", 1e12}, {"TiB", 1 << 40}}}
	rateUnits  = units{"rate", 1e3, 1e18, []unit{{"B/s", 1}, {"kB/s", 1e3}, {"KiB/s", 1 << 10}, {"MB/s", 1e6}, {"MiB/s", 1 << 20}, {"GB/s", 1e9}, {"GiB/s", 1 << 30}, {"TB/s", 1e12}}}
	timeUnits  = units{"time", 1e-15, 1e6, []unit{{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}}
	flopUnits  = units{"arithmetic rate", 1e6, 1e24, []unit{{"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}}}
	rhythmUnit = units{"frequency", 1, 1e12, []unit{{"IOPS", 1}, {"kIOPS", 1e3}, {"MIOPS", 1e6}}}
	clockUnits = units{"frequency of a clock", 1e6, 1e11, []unit{{"MHz", 1e6}, {"GHz", 1e9}}}
	noUnits    = units{"number without a unit", 1e-6, 1e15, nil}
)

func (Bytes) units() units          { return sizeUnits }
func (BytesPerSecond) units() units { return rateUnits }
func (Seconds) units() units        { return timeUnits }
func (FLOPPerSecond) units() units  { return flopUnits }
func (PerSecond) units() units      { return rhythmUnit }
func (Hertz) units() units          { return clockUnits }
func (Number) units() units         { return noUnits }

func (u units) names() string {
	names := slice.Map(u.list, func(u unit) string { return u.name })
	return strings.Join(names, ", ")
}

// parse reads "3350 GB/s". µs and μs are us.
func (u units) parse(text string) (float64, error) {
	number, name, _ := strings.Cut(strings.TrimSpace(text), " ")
	value, err := strconv.ParseFloat(strings.ReplaceAll(number, "_", ""), 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return 0, fmt.Errorf("%q: expected a number with a unit, as in %q", text, u.example())
	}
	name = strings.NewReplacer("µ", "u", "μ", "u").Replace(strings.TrimSpace(name))
	switch {
	case value < 0:
		return 0, fmt.Errorf("%q is negative", text)
	case len(u.list) == 0 && name == "":
		return u.bounded(text, value)
	case len(u.list) == 0:
		return 0, fmt.Errorf("%q has a unit, expected a number without one", text)
	case name == "":
		return 0, fmt.Errorf("%q has no unit: a %s needs one of %s", text, u.what, u.names())
	}
	for _, unit := range u.list {
		if unit.name == name {
			return u.bounded(text, value*unit.si)
		}
	}
	return 0, fmt.Errorf("%q: %q is not a unit of a %s: expected one of %s", text, name, u.what, u.names())
}

// bounded refuses a value that is out of range.
func (u units) bounded(text string, value float64) (float64, error) {
	if value != 0 && (value < u.least || value > u.most) {
		return 0, fmt.Errorf("%q is out of range, expected %s to %s", text, u.format(u.least), u.format(u.most))
	}
	return value, nil
}

func (u units) example() string {
	if len(u.list) == 0 {
		return "61"
	}
	return "1.5 " + u.list[len(u.list)/2].name
}

// format formats a value in the largest decimal unit that leaves at least 1.
func (u units) format(value float64) string {
	if len(u.list) == 0 {
		return strconv.FormatFloat(value, 'g', 12, 64)
	}
	best := u.list[0]
	for _, unit := range u.list {
		if !strings.Contains(unit.name, "i") && value >= unit.si {
			best = unit
		}
	}
	return strconv.FormatFloat(value/best.si, 'g', 4, 64) + " " + best.name
}

func (v Bytes) String() string          { return v.units().format(float64(v)) }
func (v BytesPerSecond) String() string { return v.units().format(float64(v)) }
func (v Seconds) String() string        { return v.units().format(float64(v)) }
func (v FLOPPerSecond) String() string  { return v.units().format(float64(v)) }
func (v PerSecond) String() string      { return v.units().format(float64(v)) }
func (v Number) String() string         { return v.units().format(float64(v)) }

func parse[D dimension](text string) (D, error) {
	var zero D
	value, err := zero.units().parse(text)
	return D(value), err
}
