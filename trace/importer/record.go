package importer

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sort"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// record is one (request, layer, head, step) from a decoder. Its slices belong to the decoder, so
// the collector copies them.
type record struct {
	request     string
	layer, head int32
	step        int32 // step number of the source
	seqLen      int32 // query position + 1
	states      bool  // the source states the prompt's length, seqLen − step − 1
	at          int64 // line, row or position in the source
	indices     []int32
	scores      []float32 // nil, or parallel to indices
	wide        []float64 // scores in the source's higher precision, not stored
	attention   []float32 // nil, or parallel to indices
	covered     *float32
	predicted   []int32   // nil if none is recorded
	promptMass  []float32 // empty except in one row of a stream
	emptyMass   bool      // the list of prompt masses exists and is empty
}

// dropPadding removes the −1 entries and the parallel values.
func (r *record) dropPadding() {
	padding := func(x int32) bool { return x == -1 }
	r.predicted = slices.DeleteFunc(r.predicted, padding)
	if !slices.ContainsFunc(r.indices, padding) {
		return
	}
	at := make([]int, 0, len(r.indices))
	for i, x := range r.indices {
		if !padding(x) {
			at = append(at, i)
		}
	}
	r.pick(at)
}

// Flags of a stored record: which optional columns it has.
const (
	hasScores = 1 << iota
	hasAttention
	hasCovered
	hasPredicted
	hasPromptMass
	hasStep
)

// encode appends the stored form: flags, source, at, lengths and lists. If the source states the
// prompt length, it also stores the step. Key and context are in the index entry.
func (r *record) encode(dst []byte, source int32) []byte {
	flags, covered := byte(0), float32(0)
	if len(r.scores) > 0 {
		flags |= hasScores
	}
	if len(r.attention) > 0 {
		flags |= hasAttention
	}
	if r.covered != nil {
		flags, covered = flags|hasCovered, *r.covered
	}
	if r.predicted != nil {
		flags |= hasPredicted
	}
	if len(r.promptMass) > 0 || r.emptyMass {
		flags |= hasPromptMass
	}
	if r.states {
		flags |= hasStep
	}
	le := binary.LittleEndian
	dst = append(dst, flags)
	dst = le.AppendUint32(dst, uint32(source))
	dst = le.AppendUint64(dst, uint64(r.at))
	dst = le.AppendUint32(dst, uint32(len(r.indices)))
	dst = le.AppendUint32(dst, uint32(len(r.predicted)))
	dst = le.AppendUint32(dst, math.Float32bits(covered))
	if r.states {
		dst = le.AppendUint32(dst, uint32(r.step))
	}
	dst = appendList(dst, r.indices)
	dst = appendList(dst, r.scores)
	dst = appendList(dst, r.attention)
	dst = appendList(dst, r.predicted)
	if flags&hasPromptMass != 0 {
		dst = appendList(le.AppendUint32(dst, uint32(len(r.promptMass))), r.promptMass)
	}
	return dst
}

// decode reads the stored form into r, reusing its slices, and returns the source.
func (r *record) decode(b []byte) (source int32) {
	le := binary.LittleEndian
	flags := b[0]
	source, r.at = int32(le.Uint32(b[1:])), int64(le.Uint64(b[5:]))
	n, predicted := int(le.Uint32(b[13:])), int(le.Uint32(b[17:]))
	covered := math.Float32frombits(le.Uint32(b[21:]))
	b = b[25:]
	if r.states = flags&hasStep != 0; r.states {
		r.step, b = int32(le.Uint32(b)), b[4:]
	}
	r.indices, b = cutList(r.indices, b, n)
	r.scores, r.attention = r.scores[:0], r.attention[:0]
	if flags&hasScores != 0 {
		r.scores, b = cutList(r.scores, b, n)
	}
	if flags&hasAttention != 0 {
		r.attention, b = cutList(r.attention, b, n)
	}
	r.covered = nil
	if flags&hasCovered != 0 {
		r.covered = &covered
	}
	r.predicted = nil
	if flags&hasPredicted != 0 {
		r.predicted, b = cutList([]int32{}, b, predicted)
	}
	r.promptMass = r.promptMass[:0]
	if flags&hasPromptMass != 0 {
		r.promptMass, _ = cutList(r.promptMass, b[4:], int(le.Uint32(b)))
	}
	r.emptyMass = flags&hasPromptMass != 0 && len(r.promptMass) == 0
	return source
}

func appendList[T int32 | float32](dst []byte, list []T) []byte {
	dst, _ = binary.Append(dst, binary.LittleEndian, list) // the size is fixed, so this cannot fail
	return dst
}

// cutList decodes n values into the memory of dst and returns the remaining bytes.
func cutList[T int32 | float32](dst []T, b []byte, n int) ([]T, []byte) {
	dst = slices.Grow(dst[:0], n)[:n]
	_, _ = binary.Decode(b, binary.LittleEndian, dst) // the size is fixed, so this cannot fail
	return dst, b[4*n:]
}

// rank sorts a list by descending scores at the precision of the source. Ties keep list order.
func (r *record) rank() {
	if len(r.wide) > 0 {
		rankBy(r, r.wide)
		return
	}
	rankBy(r, r.scores)
}

// rankBy sorts the list by descending scores, unless it is sorted. A list with a NaN stays
// unsorted, and the rules reject it later.
func rankBy[T float32 | float64](r *record, scores []T) {
	if !falling(scores) && !slices.ContainsFunc(scores, func(v T) bool { return v != v }) {
		r.permute(func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	}
}

// falling reports whether scores never rise along a list.
func falling[T float32 | float64](scores []T) bool {
	return sort.SliceIsSorted(scores, func(i, j int) bool { return scores[i] > scores[j] })
}

// ascend sorts a list without an order.
func (r *record) ascend() {
	if len(r.scores)+len(r.attention) == 0 {
		slices.Sort(r.indices)
		return
	}
	r.permute(func(a, b int) int { return cmp.Compare(r.indices[a], r.indices[b]) })
}

// permute sorts the list and its parallel columns stably. compare gets positions.
func (r *record) permute(compare func(a, b int) int) {
	at := slice.Indices(len(r.indices))
	slices.SortStableFunc(at, compare)
	r.pick(at)
}

// pick reduces the list and its parallel columns to the given positions.
func (r *record) pick(at []int) {
	r.indices, r.scores, r.wide, r.attention = pick(r.indices, at), pick(r.scores, at), pick(r.wide, at), pick(r.attention, at)
}

func pick[T any](values []T, at []int) []T {
	if len(values) == 0 {
		return values
	}
	return slice.Map(at, func(j int) T { return values[j] })
}
