package replay

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies/allocate"
	"github.com/kvreplay/kvreplay/policies/decimal"
)

// Capacity is what a stream may keep between steps, pinned tokens not counted, in one
// of the forms of SEMANTICS S4. Its text form parses back.
type Capacity struct {
	text  string
	kind  capacityKind
	value decimal.Number // factor of K, factor of the context, entries, or bytes
	peak  string         // policy whose peak residents are the capacity

	growth []growth // what it grows to
	plan   *allocate.Plan
}

type capacityKind uint8

const (
	perTopK capacityKind = iota + 1
	perContext
	entries
	requestBytes
	peakOf
	planned
)

// ParseCapacity reads "1.5x" (of K), "0.2ctx" (of the prompt), "6400" (entries),
// "64MiB" (of a request, shared by its streams) or "peak:POLICY" (as much as that
// policy keeps at its peak, stream by stream). "1x+2x@64" grows at decode step 64. Two
// spellings of a size are one capacity, whose text is result.CapacityText's; its number
// is taken as that text states it, not as the float next to it.
func ParseCapacity(text string) (Capacity, error) {
	if strings.Contains(text, "+") {
		return parseGrowing(text)
	}
	c := Capacity{text: result.CapacityText(text)}
	switch {
	case strings.HasPrefix(text, "peak:"):
		c.kind, c.peak = peakOf, strings.TrimPrefix(text, "peak:")
		if c.peak == "" {
			return c, badCapacity(text)
		}
		return c, nil
	case strings.HasSuffix(text, "ctx"):
		c.kind = perContext
		return c, c.read(text, "ctx")
	case strings.HasSuffix(text, "x"):
		c.kind = perTopK
		return c, c.read(text, "x")
	case strings.HasSuffix(text, "B"):
		bytes, err := decimal.ParseBytes(text)
		switch {
		case err == decimal.ErrTooManyBytes:
			return c, fmt.Errorf("capacity %q: %w", text, err)
		case err != nil:
			return c, badCapacity(text)
		}
		c.kind, c.value = requestBytes, bytes
		return c, c.bounded()
	}
	if strings.Trim(text, "0123456789") != "" {
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			return c, fmt.Errorf("capacity %q: entries are a whole number, as in 6400", text)
		}
		return c, badCapacity(text)
	}
	c.kind = entries
	return c, c.read(text, "")
}

// read takes the number before a unit. What was typed must be a decimal: its one spelling
// is, whatever was.
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
	return fmt.Errorf("capacity %q: expected a multiple of K (1.5x), a share of the context (0.2ctx), entries (6400), bytes a request (64MiB), peak:POLICY, or one that grows (1x+2x@64)", text)
}

// bounded refuses a capacity that keeps nothing, or more than any cache.
func (c Capacity) bounded() error {
	switch {
	case c.value.IsZero():
		return fmt.Errorf("capacity %q keeps nothing; policy none replays a cache of no entries", c.text)
	case c.kind != requestBytes && c.value.Compare(decimal.Int(allocate.MostEntries)) > 0:
		return fmt.Errorf("capacity %q: expected at most %d", c.text, allocate.MostEntries)
	}
	return nil
}

// Peak is the policy whose peak residents are the capacity, empty of any other form.
func (c Capacity) Peak() string { return c.peak }

// Grows is true for a capacity of several parts, "1x+2x@64".
func (c Capacity) Grows() bool { return len(c.growth) > 0 }

// InBytes is true for a capacity that takes the size of an entry to resolve, "64MiB".
func (c Capacity) InBytes() bool { return c.kind == requestBytes }

// String is the text form, with sizes in their one spelling.
func (c Capacity) String() string { return c.text }

// sizing is what a capacity is resolved against, for one stream.
type sizing struct {
	topk, blockTokens, promptLen int // tokens all
	entryBytes                   *int
	at                           allocate.Key
	streams                      int              // of the stream's request, that are replayed
	peaks                        map[string]int64 // blocks, of the policies that ran on the stream before
}

// blocks is the capacity of a stream in whole blocks, at least one.
func (c Capacity) blocks(s sizing) (int, error) {
	var tokens int64
	switch c.kind {
	case perTopK:
		tokens = c.value.Times(s.topk)
	case perContext:
		tokens = c.value.Times(s.promptLen)
	case entries:
		tokens = c.value.Times(1)
	case requestBytes:
		if s.entryBytes == nil {
			return 0, fmt.Errorf("capacity %s is in bytes, but neither trace nor --entry-bytes says what an entry takes", c.text)
		}
		tokens = c.value.Over(s.streams * *s.entryBytes)
	case peakOf:
		peak, ok := s.peaks[c.peak]
		if !ok {
			return 0, fmt.Errorf("capacity %s: policy %s is not part of this run", c.text, c.peak)
		}
		return max(1, int(peak)), nil
	case planned:
		entries, ok := c.plan.Capacity(s.at.Layer, s.at.Head)
		if !ok {
			return 0, fmt.Errorf("capacity %s: the plan says nothing of layer %d, head %d", c.text, s.at.Layer, s.at.Head)
		}
		tokens = int64(entries)
	}
	return max(1, int(min(tokens, allocate.MostEntries))/s.blockTokens), nil
}
