package setting

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies/decimal"
)

// ErrTooLarge reports a size above MostEntries.
var ErrTooLarge = fmt.Errorf("expected at most %d", MostEntries)

// MostEntries is the largest size in entries, multiples of K and prompts. It exceeds any model and
// machine.
const MostEntries = 1 << 30

// Capacity is the size that a stream may keep between steps, without pinned tokens, in one of the
// forms of SEMANTICS S4. Its text form parses back.
type Capacity struct {
	text  string
	form  Form
	value decimal.Number // factor of K, factor of the context, entries, or bytes
	peak  string         // policy whose peak residents are the capacity
	later []Growth
}

// Growth is a later part of a growing capacity: its size from a decode step on. KVDrive grows its
// caches until a lookup takes as long as a fetch (section on scheduling).
type Growth struct {
	From     int32 // decode step
	Capacity Capacity
}

// Form is a form of capacities.
type Form uint8

// The forms of capacities.
const (
	TimesK    Form = iota + 1 // "1.5x"
	OfContext                 // "0.2ctx"
	InEntries                 // "6400"
	InBytes                   // "64MiB"
	OfPeak                    // "peak:POLICY"
	OfPlan                    // of each layer and head, from a plan
)

// ParseCapacity reads a capacity: "1.5x" is a multiple of K, "0.2ctx" a share of the prompt, and
// "6400" a number of entries. "64MiB" is memory per request that its streams share. "peak:POLICY"
// is the peak of that policy, stream by stream. "1x+2x@64" grows at decode step 64. Two spellings
// of a size are one capacity with the text of result.CapacityText. Its number is the exact value of
// that text, not the nearest float.
func ParseCapacity(text string) (Capacity, error) {
	if strings.Contains(text, "+") {
		return parseGrowing(text)
	}
	c := Capacity{text: result.CapacityText(text)}
	switch {
	case strings.HasPrefix(text, "peak:"):
		c.form, c.peak = OfPeak, strings.TrimPrefix(text, "peak:")
		if c.peak == "" {
			return c, badCapacity(text)
		}
		return c, nil
	case strings.HasSuffix(text, "ctx"):
		c.form = OfContext
		return c, c.read(text, "ctx")
	case strings.HasSuffix(text, "x"):
		c.form = TimesK
		return c, c.read(text, "x")
	case strings.HasSuffix(text, "B"):
		bytes, err := decimal.ParseBytes(text)
		switch {
		case err == decimal.ErrTooManyBytes:
			return c, fmt.Errorf("capacity %q: %w", text, err)
		case err != nil:
			return c, badCapacity(text)
		}
		c.form, c.value = InBytes, bytes
		return c, c.bounded()
	}
	if strings.Trim(text, "0123456789") != "" {
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			return c, fmt.Errorf("capacity %q: expected a whole number of entries, as in 6400", text)
		}
		return c, badCapacity(text)
	}
	c.form = InEntries
	return c, c.read(text, "")
}

// read reads the number before a unit. The typed text must be a decimal. Its canonical spelling
// always is.
func (c *Capacity) read(text, unit string) error {
	_, err := decimal.Parse(strings.TrimSuffix(text, unit))
	if err == nil {
		c.value, err = decimal.Parse(strings.TrimSuffix(c.text, unit))
	}
	if err != nil {
		return badCapacity(text)
	}
	return c.bounded()
}

func badCapacity(text string) error {
	return fmt.Errorf("capacity %q: expected 1.5x (× K), 0.2ctx (× prompt), 6400 (entries), 64MiB (per request), peak:POLICY or 1x+2x@64 (growing)", text)
}

// bounded refuses a capacity that keeps nothing, or more than any cache.
func (c Capacity) bounded() error {
	switch {
	case c.value.IsZero():
		return fmt.Errorf("capacity %q keeps nothing: use policy none for an empty cache", c.text)
	case c.form != InBytes && c.value.Compare(decimal.Int(MostEntries)) > 0:
		return fmt.Errorf("capacity %q: %w", c.text, ErrTooLarge)
	case !result.KnownCapacity(c.text): // too small for a float, such as 0.0…1x with 400 zeros
		return badCapacity(c.text)
	}
	return nil
}

// parseGrowing reads "1x+2x@64+4x@128": 1 × K at first, 2 × K from step 64 on, 4 × K from step 128
// on.
func parseGrowing(text string) (Capacity, error) {
	parts := strings.Split(text, "+")
	if parts[0] == "" {
		return Capacity{}, badCapacity(text)
	}
	first, err := ParseCapacity(parts[0])
	if err != nil {
		return first, err
	}
	c := first
	c.text = result.CapacityText(text)
	last := 0
	for _, part := range parts[1:] {
		size, step, timed := strings.Cut(part, "@")
		from, err := strconv.Atoi(step)
		if !timed || err != nil || from <= last || from > 1<<30 {
			return c, fmt.Errorf("capacity %q: expected SIZE+SIZE@STEP+…, as in 1x+2x@64, with ascending steps from 1", text)
		}
		last = from
		later, err := ParseCapacity(size)
		if err != nil {
			return c, fmt.Errorf("capacity %q: %w", text, err)
		}
		if later.form != first.form || later.form == OfPeak || later.value.Compare(c.Last().value) <= 0 {
			return c, fmt.Errorf("capacity %q: %s follows %s, expected a larger size in the same unit", text, size, c.Last().text)
		}
		c.later = append(c.later, Growth{int32(from), later})
	}
	return c, nil
}

// Last returns the last part of a growing capacity, which is the largest, or the capacity itself.
func (c Capacity) Last() Capacity {
	if len(c.later) == 0 {
		return c
	}
	return c.later[len(c.later)-1].Capacity
}

// PeakOf returns the capacity "peak:POLICY": the largest number of blocks that the policy keeps.
func PeakOf(policy string) Capacity {
	return Capacity{text: result.PeakPrefix + policy, form: OfPeak, peak: policy}
}

// Planned returns the capacity that a plan gives each layer and head. The text names the plan, as
// in "plan:2d-greedy@2x". It does not parse back, because the plan itself is needed.
func Planned(text string) Capacity { return Capacity{text: text, form: OfPlan} }

// Peak returns the policy whose peak residents are the capacity, or "" for any other form.
func (c Capacity) Peak() string { return c.peak }

// Form returns the capacity's form. If the capacity grows, it is that of the first part.
func (c Capacity) Form() Form { return c.form }

// Later returns the later parts of a growing capacity such as "1x+2x@64", or none.
func (c Capacity) Later() []Growth { return c.later }

// String returns the text form, with sizes in their canonical spelling.
func (c Capacity) String() string { return c.text }

// Sizing is a stream against which capacities are resolved.
type Sizing struct {
	TopK, BlockTokens, PromptLen int // all in tokens
	EntryBytes                   *int
	Streams                      int              // replayed streams of the stream's request
	Peaks                        map[string]int64 // blocks of the policies that already ran on the stream
	Planned                      int              // entries from a plan, 0 for none
}

// Blocks returns the first size of a capacity for a stream, in whole blocks, at least one.
func (c Capacity) Blocks(s Sizing) (int, error) {
	var tokens int64
	switch c.form {
	case TimesK:
		tokens = c.value.Times(s.TopK)
	case OfContext:
		tokens = c.value.Times(s.PromptLen)
	case InEntries:
		tokens = c.value.Times(1)
	case InBytes:
		if s.EntryBytes == nil {
			return 0, fmt.Errorf("capacity %s is in bytes, but the trace states no entry size: set it with --entry-bytes", c.text)
		}
		tokens = c.value.Over(s.Streams * *s.EntryBytes)
	case OfPeak:
		peak, ok := s.Peaks[c.peak]
		if !ok {
			return 0, fmt.Errorf("capacity %s: this run has no policy %s. Add it with --policy", c.text, c.peak)
		}
		return max(1, int(peak)), nil
	case OfPlan:
		tokens = int64(s.Planned)
	}
	return max(1, int(min(tokens, MostEntries))/s.BlockTokens), nil
}

// SweepPoints is the number of capacities of `sweep`.
const SweepPoints = 64

// maxSweepPoints is small enough that the texts of a grid differ.
const maxSweepPoints = 1024

// sweepOctaves is the number of doublings of the capacity in a sweep.
const sweepOctaves = 4

// SweepGrid returns n multiples of K from 1x up to, but excluding, 16x. Each doubling has equally
// many, evenly spaced. They can be pooled, because they are multiples of K and equal for every
// stream and trace. If 4 divides n, they include 1x, 2x, 4x and 8x. If 8 does, they also include
// 1.5x and 3x. Below 1x every policy overflows (SEMANTICS S5).
func SweepGrid(n int) []string {
	texts := make([]string, n)
	for i := range texts {
		octave, within := math.Modf(float64(i) * sweepOctaves / float64(n))
		multiple := math.Exp2(octave) * (1 + within)
		texts[i] = strconv.FormatFloat(math.Round(multiple*1e4)/1e4, 'f', -1, 64) + "x"
	}
	return texts
}

// ParseCapacities reads distinct capacities as ParseCapacity does. "sweep" and "sweep:N" mean
// SweepPoints or N multiples of K, for a whole curve.
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
			expanded = SweepGrid(n)
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
