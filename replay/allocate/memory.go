package allocate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies/decimal"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// size is the size of a stream as typed: a capacity, or a window.
type size struct {
	setting.Capacity
	window bool
	steps  int // of a window
}

// parseSize reads window:N, or a capacity of `replay --capacity` that does not change and is not a peak.
func parseSize(text string) (size, error) {
	if number, ok := strings.CutPrefix(text, windowPrefix); ok {
		n, err := strconv.ParseUint(number, 10, 31)
		if err != nil {
			return size{}, badSize(text)
		}
		return size{window: true, steps: int(n)}, nil
	}
	c, err := setting.ParseCapacity(text)
	switch {
	case errors.Is(err, setting.ErrTooLarge) || errors.Is(err, decimal.ErrTooManyBytes):
		return size{}, err
	case err != nil || c.Form() == setting.OfPeak || c.Later() != nil:
		return size{}, badSize(text)
	}
	return size{Capacity: c}, nil
}

func badSize(text string) error {
	return fmt.Errorf("size %q: expected a multiple of K (2x), entries (6400), a share of the context (0.2ctx), bytes of a request (64MiB), or window:N", text)
}

// entriesOf returns the entries of a stream's size, in whole blocks, at least one.
func (p *Profile) entriesOf(c setting.Capacity) int {
	s := setting.Sizing{TopK: p.kEntries, BlockTokens: p.Unit, Streams: len(p.Curves) * p.SharedHeads, EntryBytes: p.EntryBytes}
	blocks, err := c.Blocks(s)
	if err != nil {
		panic(err) // the caller has checked that the entry size is known
	}
	return blocks * p.Unit
}

// Memory returns the memory per request for a text, in entries. It is the sum that `replay
// --capacity TEXT` gives all streams of a request, or the cost of the same window for every stream
// (window:N).
func (p *Profile) Memory(text string) (int64, error) {
	s, err := parseSize(text)
	switch form := s.Form(); {
	case err != nil:
		return 0, fmt.Errorf("memory: %w", err)
	case s.window && p.Family != Windows:
		return 0, fmt.Errorf("memory %s needs rows of windows, but the rows are of %s: add --policy window", text, p.Policy)
	case s.window:
		t, err := p.Totals(slices.Repeat([]int{s.steps}, len(p.Curves)))
		if err != nil {
			return 0, fmt.Errorf("memory %s: %w", text, err)
		}
		return t.Memory, nil
	case form == setting.InBytes && p.EntryBytes == nil:
		return 0, fmt.Errorf("memory %s is in bytes, but the rows lack the size of an entry: replay with --entry-bytes", text)
	case form == setting.InBytes, form == setting.InEntries, form == setting.TimesK && p.kEntries > 0:
		return int64(len(p.Curves)) * int64(p.entriesOf(s.Capacity)), nil
	}
	if m, ok := p.capacities[result.CapacityText(text)]; ok { // in the spelling of rows
		return m, nil
	}
	return 0, fmt.Errorf("memory %s needs the prompt's length or the list's unit, which the rows lack: replay with --capacity sweep,%s, or state entries (6400)", text, text)
}

// Floor returns the smallest size of a stream for a text: 1x or entries for capacities, window:N
// for windows. The empty text means the smallest profiled size at which no step overflows, and for
// capacities at least K.
func (p *Profile) Floor(text string) (int, error) {
	if text == "" {
		return p.defaultFloor(), nil
	}
	s, err := parseSize(text)
	switch form := s.Form(); {
	case err != nil:
	case s.window && p.Family == Windows:
		return s.steps, nil
	case !s.window && p.Family == Capacities && (form == setting.InEntries || form == setting.TimesK && p.kEntries > 0):
		return p.entriesOf(s.Capacity), nil
	default:
		err = errFloor
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
	return max(smallest, max(1, p.kEntries/p.Unit)*p.Unit)
}
