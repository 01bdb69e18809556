package importer

import (
	"encoding/binary"
	"math"
)

// record is one (request, layer, head, step) as a decoder hands it on. Its slices
// belong to the decoder; the collector copies them.
type record struct {
	request     string
	layer, head int32
	step        int32 // as the source counts
	seqLen      int32 // query position + 1
	states      bool  // the source states the prompt's length, seqLen − step − 1
	at          int64 // line, row or position in the source
	indices     []int32
	scores      []float32 // nil: none; else parallel to indices
	wide        []float64 // scores that the source has at this precision; not stored
	attention   []float32 // nil: none; else parallel to indices
	covered     *float32
	predicted   []int32   // nil: none recorded
	promptMass  []float32 // empty but in one row of a stream
	emptyMass   bool      // a list of prompt masses is there, and has no value
}

// dropPadding removes the −1 entries, and what is parallel to them.
func (r *record) dropPadding() {
	kept := 0
	for i, x := range r.indices {
		if x == -1 {
			continue
		}
		r.indices[kept] = x
		if len(r.scores) > 0 {
			r.scores[kept] = r.scores[i]
		}
		if len(r.wide) > 0 {
			r.wide[kept] = r.wide[i]
		}
		if len(r.attention) > 0 {
			r.attention[kept] = r.attention[i]
		}
		kept++
	}
	r.indices = r.indices[:kept]
	r.scores = r.scores[:min(len(r.scores), kept)]
	r.wide = r.wide[:min(len(r.wide), kept)]
	r.attention = r.attention[:min(len(r.attention), kept)]
	if r.predicted != nil {
		r.predicted = withoutPadding(r.predicted)
	}
}

func withoutPadding(list []int32) []int32 {
	kept := list[:0]
	for _, x := range list {
		if x != -1 {
			kept = append(kept, x)
		}
	}
	return kept
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

// encode appends the stored form: flags, source, at, lengths, lists, and the step where the
// source states it against a prompt. Key and context are in the index entry.
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
	dst = appendInts(dst, r.indices)
	dst = appendFloats(dst, r.scores)
	dst = appendFloats(dst, r.attention)
	dst = appendInts(dst, r.predicted)
	if flags&hasPromptMass != 0 {
		dst = appendFloats(le.AppendUint32(dst, uint32(len(r.promptMass))), r.promptMass)
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
	r.indices, b = takeInts(r.indices[:0], b, n)
	r.scores, r.attention = r.scores[:0], r.attention[:0]
	if flags&hasScores != 0 {
		r.scores, b = takeFloats(r.scores, b, n)
	}
	if flags&hasAttention != 0 {
		r.attention, b = takeFloats(r.attention, b, n)
	}
	r.covered = nil
	if flags&hasCovered != 0 {
		r.covered = &covered
	}
	r.predicted = nil
	if flags&hasPredicted != 0 {
		r.predicted, b = takeInts([]int32{}, b, predicted)
	}
	r.promptMass = r.promptMass[:0]
	if flags&hasPromptMass != 0 {
		r.promptMass, _ = takeFloats(r.promptMass, b[4:], int(le.Uint32(b)))
	}
	r.emptyMass = flags&hasPromptMass != 0 && len(r.promptMass) == 0
	return source
}

func appendInts(dst []byte, list []int32) []byte {
	for _, x := range list {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(x))
	}
	return dst
}

func appendFloats(dst []byte, list []float32) []byte {
	for _, x := range list {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(x))
	}
	return dst
}

func takeInts(dst []int32, b []byte, n int) ([]int32, []byte) {
	for i := range n {
		dst = append(dst, int32(binary.LittleEndian.Uint32(b[4*i:])))
	}
	return dst, b[4*n:]
}

func takeFloats(dst []float32, b []byte, n int) ([]float32, []byte) {
	for i := range n {
		dst = append(dst, math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	}
	return dst, b[4*n:]
}
