package importer

import (
	"fmt"
)

// shape is that of an indexer_topk array: rows of layers × topk.
type shape struct {
	rows, layers, topk int
	derived            bool // layers and topk were read off the data
}

// list appends the list of a position and layer to dst, padding included.
func (s shape) list(dst []int32, b []byte, position, layer int) []int32 {
	start := (position*s.layers + layer) * s.topk
	for i := range s.topk {
		dst = append(dst, int32At(b, start+i))
	}
	return dst
}

// findShape works out the shape of an array that comes without one. A server that
// returns the row of the last token too has prompt + completion rows, else one less.
// Layers and index_topk are given (0: not), or follow from the data without doubt.
func findShape(b []byte, prompt, completion, layers, topk int) (shape, error) {
	n := len(b) / 4
	var fits []shape
	whole := false // rows
	for _, rows := range []int{prompt + completion - 1, prompt + completion} {
		if rows < prompt || rows < 1 || n%rows != 0 {
			continue
		}
		whole = n > 0
		if s, ok := split(b, rows, n/rows, layers, topk); ok {
			fits = append(fits, s)
		}
	}
	switch {
	case wide(b) && (len(fits) != 1 || fits[0].topk > 1):
		return shape{}, fmt.Errorf("indexer_topk has %d values if they are int32, but every second one is what fills up an int64 (0, or −1 behind a −1): write the array as int32", n)
	case len(fits) == 1:
		return fits[0], contradiction(b, fits[0])
	case len(fits) > 1:
		return shape{}, fmt.Errorf("indexer_topk has %d values, which fits %d and %d rows: state both --layers and --index-topk", n, fits[0].rows, fits[1].rows)
	case !whole:
		return shape{}, fmt.Errorf("indexer_topk has %d values, which are no whole number for each of %d or %d rows (prompt_tokens %d + completion_tokens %d, or one less): it is cut short, or not of this response",
			n, prompt+completion-1, prompt+completion, prompt, completion)
	case layers > 0 || topk > 0:
		return shape{}, fmt.Errorf("indexer_topk has %d values, which is not rows × layers × index_topk with %d or %d rows (prompt_tokens %d + completion_tokens %d), --layers %d and --index-topk %d (0: not stated)",
			n, prompt+completion-1, prompt+completion, prompt, completion, layers, topk)
	}
	if v, ok := stranger(b[:min(len(b), 4*(n/(prompt+completion)))]); ok {
		return shape{}, fmt.Errorf("indexer_topk has %d values in %d or %d rows, and the first row, of the query at position 0, lists %d, where there is token 0 alone: expected little-endian int32 of every position from the first on, padded by −1; if it is that, state --layers or --index-topk",
			n, prompt+completion-1, prompt+completion, v)
	}
	return shape{}, fmt.Errorf("indexer_topk has %d values in %d or %d rows, and they do not say how a row splits into layers: state --layers or --index-topk",
		n, prompt+completion-1, prompt+completion)
}

// wide reports whether the values are those of an int64 array, low half first: behind each
// stands its sign. Lists of several int32 are not like that, as that of the query at position 0
// is 0 and padding.
func wide(b []byte) bool {
	if len(b) < 8 || len(b)%8 != 0 || int32At(b, 0) > 0 {
		return false
	}
	said := false
	for i := 0; i < len(b)/4; i += 2 {
		if int32At(b, i+1) != int32At(b, i)>>31 {
			return false
		}
		said = said || int32At(b, i) != 0
	}
	return said
}

// stranger is a value of row 0 that is neither token 0 nor padding.
func stranger(row []byte) (int32, bool) {
	for i := range len(row) / 4 {
		if v := int32At(row, i); v != 0 && v != -1 {
			return v, true
		}
	}
	return 0, false
}

// split divides a row of per values into layers.
func split(b []byte, rows, per, layers, topk int) (shape, bool) {
	s := shape{rows: rows, layers: layers, topk: topk}
	switch {
	case layers > 0 && topk > 0:
		return s, layers*topk == per
	case layers > 0:
		s.topk = per / layers
		return s, per%layers == 0 && per > 0
	case topk > 0:
		s.layers = per / topk
		return s, per%topk == 0 && per > 0
	}
	s.layers, s.topk = readShape(b, rows, per)
	s.derived = true
	return s, s.layers > 0
}

// readShape reads the split off the data, or returns zeros. The query at position 0
// can select token 0 only, so in each layer's list of row 0 a single 0 comes before
// the padding; that these stand at equal distances gives the lists' length. A layer
// that was empty there would spoil this, so every list must then hold as much as its
// context does until it is full: min(position + 1, topk) tokens.
func readShape(b []byte, rows, per int) (layers, topk int) {
	var starts []int
	for i := range per {
		switch int32At(b, i) {
		case -1:
		case 0:
			starts = append(starts, i)
		default:
			return 0, 0
		}
	}
	if len(starts) == 0 || per%len(starts) != 0 {
		return 0, 0
	}
	s := shape{rows: rows, layers: len(starts), topk: per / len(starts)}
	for i, at := range starts {
		if at != i*s.topk {
			return 0, 0
		}
	}
	for position := range min(rows, s.topk) {
		if !s.filled(b, position) {
			return 0, 0
		}
	}
	if rows < s.topk || !s.filled(b, rows-1) {
		return 0, 0
	}
	return s.layers, s.topk
}

// filled reports whether every list of a row holds min(position + 1, topk) tokens
// and padding after them.
func (s shape) filled(b []byte, position int) bool {
	for layer := range s.layers {
		start := (position*s.layers + layer) * s.topk
		for i := range s.topk {
			if (int32At(b, start+i) >= 0) != (i <= position) {
				return false
			}
		}
	}
	return true
}

// contradiction reports a stated split that the data deny.
func contradiction(b []byte, s shape) error {
	per := s.layers * s.topk
	layers, topk := readShape(b, s.rows, per)
	if layers != 0 && layers != s.layers {
		return fmt.Errorf("indexer_topk has %d layers × index_topk %d by its query at position 0, but %d × %d is stated by --layers or --index-topk", layers, topk, s.layers, s.topk)
	}
	return nil
}
