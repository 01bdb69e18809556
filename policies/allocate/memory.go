package allocate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies/decimal"
)

// sizeText is a size as people type it.
type sizeText struct {
	kind  sizeKind
	value decimal.Number
}

type sizeKind uint8

const (
	timesK       sizeKind = iota + 1 // 1.5x
	entries                          // 6400
	requestBytes                     // 64MiB
	ofContext                        // 0.2ctx
	windowSteps                      // window:2
)

// parseSize reads the forms of `replay --capacity`, and window:N.
func parseSize(text string) (s sizeText, err error) {
	number := text
	switch {
	case strings.HasPrefix(text, windowPrefix):
		n, err := strconv.ParseUint(strings.TrimPrefix(text, windowPrefix), 10, 31)
		if err != nil {
			return s, badSize(text)
		}
		return sizeText{windowSteps, decimal.Int(n)}, nil
	case strings.HasSuffix(text, "ctx"):
		s.kind, number = ofContext, strings.TrimSuffix(text, "ctx")
	case strings.HasSuffix(text, "x"):
		s.kind, number = timesK, strings.TrimSuffix(text, "x")
	case strings.HasSuffix(text, "B"):
		bytes, err := decimal.ParseBytes(text)
		switch {
		case err == decimal.ErrTooManyBytes:
			return s, fmt.Errorf("size %q: %w", text, err)
		case err != nil || bytes.IsZero():
			return s, badSize(text)
		}
		return sizeText{requestBytes, bytes}, nil
	default:
		s.kind = entries
		if strings.Trim(text, "0123456789") != "" {
			return s, badSize(text)
		}
	}
	if s.value, err = decimal.Parse(number); err != nil || s.value.IsZero() {
		return s, badSize(text)
	}
	if s.value.Compare(decimal.Int(MostEntries)) > 0 {
		return s, fmt.Errorf("size %q: expected at most %d", text, MostEntries)
	}
	return s, nil
}

func badSize(text string) error {
	return fmt.Errorf("size %q: expected a multiple of K (2x), entries of a stream (6400), a share of the context (0.2ctx), bytes of a request (64MiB), or window:N", text)
}

// wholeBlocks is a size of a stream in whole blocks, at least one, in entries.
func wholeBlocks(entries int64, block int) int {
	return max(1, int(min(entries, MostEntries))/block) * block
}

// Memory is the memory of a request in entries that a text stands for: as much as
// `replay --capacity TEXT` gives all streams of a request together, or what the
// same window costs everywhere (window:N).
func (p *Profile) Memory(text string) (int64, error) {
	s, err := parseSize(text)
	if err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	streams := int64(len(p.Curves))
	switch s.kind {
	case timesK:
		if p.kEntries > 0 {
			return streams * int64(wholeBlocks(s.value.Times(p.kEntries), p.Unit)), nil
		}
	case entries:
		return streams * int64(wholeBlocks(s.value.Times(1), p.Unit)), nil
	case requestBytes:
		if p.EntryBytes == nil {
			return 0, fmt.Errorf("memory %s is in bytes, but the rows do not say what an entry takes; replay with --entry-bytes", text)
		}
		return streams * int64(wholeBlocks(s.value.Over(len(p.Curves)*p.SharedHeads**p.EntryBytes), p.Unit)), nil
	case windowSteps:
		if p.Family != Windows {
			return 0, fmt.Errorf("memory %s is of windows, the rows are of %s; say --policy window", text, p.Policy)
		}
		t, err := p.Totals(equal(int(s.value.Times(1)), len(p.Curves)))
		if err != nil {
			return 0, fmt.Errorf("memory %s: %w", text, err)
		}
		return t.Memory, nil
	}
	if m, ok := p.capacities[result.CapacityText(text)]; ok { // as rows spell it
		return m, nil
	}
	return 0, fmt.Errorf("memory %s depends on what these rows do not say, the length of the prompt or of a list's unit; replay with --capacity sweep,%s, or give entries of a stream (6400)", text, text)
}

// Floor is the least size of a stream that a text stands for: 1x or entries for
// capacities, window:N for windows. Empty is the smallest size profiled at which no
// step overflows, and for capacities at least K.
func (p *Profile) Floor(text string) (int, error) {
	if text == "" {
		return p.defaultFloor(), nil
	}
	s, err := parseSize(text)
	if err == nil {
		err = errFloor
		switch {
		case p.Family == Windows && s.kind == windowSteps:
			return int(s.value.Times(1)), nil
		case p.Family == Capacities && s.kind == timesK && p.kEntries > 0:
			return wholeBlocks(s.value.Times(p.kEntries), p.Unit), nil
		case p.Family == Capacities && s.kind == entries:
			return wholeBlocks(s.value.Times(1), p.Unit), nil
		}
	}
	return 0, fmt.Errorf("floor %q: %w", text, err)
}

var errFloor = errors.New("expected 1x or entries for capacities, window:N for windows")

func (p *Profile) defaultFloor() int {
	smallest := p.fits
	for i := range p.Curves {
		smallest = max(smallest, p.Curves[i].Points[0].Size)
	}
	if p.Family == Windows || p.kEntries == 0 {
		return smallest
	}
	return max(smallest, wholeBlocks(int64(p.kEntries), p.Unit))
}
