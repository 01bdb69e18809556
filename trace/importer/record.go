package importer

import (
	"cmp"
	"encoding/binary"
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

// stored is the fixed part of a record's stored form. The lists follow, each after its length. Key and
// context are in the index entry.
type stored struct {
	Source, Step                             int32
	At                                       int64
	Covered                                  float32
	States, HasCovered, Predicted, EmptyMass bool
}

// encode appends the stored form.
func (r *record) encode(dst []byte, source int32) []byte {
	h := stored{Source: source, Step: r.step, At: r.at, States: r.states, HasCovered: r.covered != nil,
		Predicted: r.predicted != nil, EmptyMass: r.emptyMass}
	if r.covered != nil {
		h.Covered = *r.covered
	}
	dst, _ = binary.Append(dst, binary.LittleEndian, &h) // sizes are fixed here and below, so this cannot fail
	dst = appendList(appendList(dst, r.indices), r.predicted)
	return appendList(appendList(appendList(dst, r.scores), r.attention), r.promptMass)
}

// decode reads the stored form into r, reusing its slices, and returns the source.
func (r *record) decode(b []byte) (source int32) {
	var h stored
	n, _ := binary.Decode(b, binary.LittleEndian, &h)
	r.step, r.at, r.states, r.emptyMass, r.covered = h.Step, h.At, h.States, h.EmptyMass, nil
	if h.HasCovered {
		r.covered = &h.Covered
	}
	r.indices, b = cutList(r.indices, b[n:])
	if r.predicted, b = cutList([]int32{}, b); !h.Predicted {
		r.predicted = nil
	}
	r.scores, b = cutList(r.scores, b)
	r.attention, b = cutList(r.attention, b)
	r.promptMass, _ = cutList(r.promptMass, b)
	return h.Source
}

func appendList[T int32 | float32](dst []byte, list []T) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(list)))
	dst, _ = binary.Append(dst, binary.LittleEndian, list)
	return dst
}

// cutList decodes a list into the memory of dst and returns the remaining bytes.
func cutList[T int32 | float32](dst []T, b []byte) ([]T, []byte) {
	n := int(binary.LittleEndian.Uint32(b))
	dst = slices.Grow(dst[:0], n)[:n]
	_, _ = binary.Decode(b[4:], binary.LittleEndian, dst)
	return dst, b[4+4*n:]
}

// rankBy sorts the list by descending scores, unless it is sorted. Ties keep list order. A list with
// a NaN stays unsorted, and the rules reject it later.
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
