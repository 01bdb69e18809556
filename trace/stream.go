package trace

import (
	"cmp"
	"fmt"
	"strings"
)

// NoHead is the head of a stream that all heads of a layer share.
const NoHead int32 = -1

// Key identifies a stream.
type Key struct {
	Request string
	Layer   int32
	Head    int32 // NoHead if the layer shares its selection
}

// Compare orders keys as in a file: request id bytewise, then layer, then head with NoHead first.
func (k Key) Compare(o Key) int {
	return cmp.Or(strings.Compare(k.Request, o.Request), cmp.Compare(k.Layer, o.Layer), cmp.Compare(k.Head, o.Head))
}

// String returns the key as messages show it.
func (k Key) String() string {
	if k.Head == NoHead {
		return fmt.Sprintf("request %q layer %d", k.Request, k.Layer)
	}
	return fmt.Sprintf("request %q layer %d head %d", k.Request, k.Layer, k.Head)
}

// StreamInfo is a stream's entry in a file's directory.
type StreamInfo struct {
	Key
	PromptLen int32 // tokens of the prompt
	RowGroup  int   // row group that holds the stream
	FirstRow  int64 // row within the row group
	Rows      int   // recorded steps, windows included
	Windows   int   // rows with step < 0: the last prompt queries
	FirstStep int32
	LastStep  int32
}

// Stream holds the rows of one stream, column by column. All slices belong to the Stream, and the
// next Read reuses them.
type Stream struct {
	StreamInfo
	// Steps are the step numbers, strictly increasing. They are negative for windows.
	Steps []int32
	// Offsets has Rows+1 values: row i lists Indices[Offsets[i]:Offsets[i+1]].
	Offsets []int32
	// Indices are block indices, token i/BlockTokens. They are best first with OrderRank.
	Indices []int32
	// Scores is parallel to Indices. It is empty if the trace has none or the reader skips them.
	Scores []float32
	// CoveredMass has one value per row, or is empty.
	CoveredMass []float32
	// AttentionMass is parallel to Indices, or empty.
	AttentionMass []float32
	// PredictedOffsets and Predicted are the lists predicted one layer ahead, or empty.
	PredictedOffsets []int32
	Predicted        []int32
	// PromptMass has the attention mass that all windows together gave each block of the prompt, or
	// is empty. The file stores it in the stream's first row.
	PromptMass []float32
	// EmptyPromptMass is set if PromptMass is empty because the prompt has no token, in a trace
	// with prompt masses. The file then stores an empty list instead of null.
	EmptyPromptMass bool
}

// List returns the blocks of row i.
func (s *Stream) List(i int) []int32 { return s.Indices[s.Offsets[i]:s.Offsets[i+1]] }

// ScoreList returns the scores of row i, or nil if there are none.
func (s *Stream) ScoreList(i int) []float32 { return s.parallel(s.Scores, i) }

// MassList returns the attention masses of row i, or nil if there are none.
func (s *Stream) MassList(i int) []float32 { return s.parallel(s.AttentionMass, i) }

// parallel returns the values of row i in a column that is parallel to Indices or empty.
func (s *Stream) parallel(column []float32, i int) []float32 {
	if len(column) == 0 {
		return nil
	}
	return column[s.Offsets[i]:s.Offsets[i+1]]
}

// PredictedList returns the predicted blocks of row i, or nil if there are none.
func (s *Stream) PredictedList(i int) []int32 {
	if len(s.PredictedOffsets) == 0 {
		return nil
	}
	if list := s.Predicted[s.PredictedOffsets[i]:s.PredictedOffsets[i+1]]; list != nil {
		return list
	}
	return []int32{} // recorded, but empty
}

// hasPromptMass reports whether the stream's first row has a list of prompt masses.
func (s *Stream) hasPromptMass() bool { return len(s.PromptMass) > 0 || s.EmptyPromptMass }

// flagPromptMass is the flag of prompt masses, which only the first row of a stream has.
const flagPromptMass = 1 << 4

// flags returns a bit for each optional column that s holds, as the digest has them.
func (s *Stream) flags() (flags int32) {
	for bit, on := range []bool{len(s.Scores) > 0, len(s.CoveredMass) > 0, len(s.AttentionMass) > 0, len(s.PredictedOffsets) > 0, s.hasPromptMass()} {
		if on {
			flags |= 1 << bit
		}
	}
	return flags
}

// SeqLen returns the context of row i in tokens: prompt_len + step + 1 (SEMANTICS S1).
func (s *Stream) SeqLen(i int) int { return int(s.PromptLen) + int(s.Steps[i]) + 1 }

// MaxSeqLen returns the context of the last row, in tokens.
func (s *StreamInfo) MaxSeqLen() int { return int(s.PromptLen) + int(s.LastStep) + 1 }

// Reset empties the stream and keeps its memory.
func (s *Stream) Reset(info StreamInfo) {
	s.StreamInfo = info
	s.Steps, s.Offsets, s.Indices = s.Steps[:0], append(s.Offsets[:0], 0), s.Indices[:0]
	s.Scores, s.CoveredMass, s.AttentionMass = s.Scores[:0], s.CoveredMass[:0], s.AttentionMass[:0]
	s.PredictedOffsets, s.Predicted = s.PredictedOffsets[:0], s.Predicted[:0]
	s.PromptMass, s.EmptyPromptMass = s.PromptMass[:0], false
}

// Row returns row i. It shares memory with s.
func (s *Stream) Row(i int) Row {
	r := Row{Step: s.Steps[i], Indices: s.List(i), Scores: s.ScoreList(i), AttentionMass: s.MassList(i), Predicted: s.PredictedList(i)}
	if len(s.CoveredMass) > 0 {
		r.CoveredMass = &s.CoveredMass[i]
	}
	if i == 0 && s.hasPromptMass() {
		r.PromptMass = s.PromptMass
	}
	return r
}

// Row is one step, for producers that build a stream row by row.
type Row struct {
	Step          int32
	Indices       []int32
	Scores        []float32
	CoveredMass   *float32
	AttentionMass []float32
	Predicted     []int32   // nil if none is recorded
	PromptMass    []float32 // only in a stream's first row
}

// Append adds a row at the end. It copies the slices.
func (s *Stream) Append(r Row) {
	if len(s.Offsets) == 0 {
		s.Offsets = append(s.Offsets, 0)
	}
	if s.Rows = len(s.Steps) + 1; s.Rows == 1 {
		s.FirstStep, s.Windows = r.Step, 0
	}
	if r.Step < 0 {
		s.Windows++
	}
	s.LastStep = r.Step
	s.Steps = append(s.Steps, r.Step)
	s.Indices = append(s.Indices, r.Indices...)
	s.Offsets = append(s.Offsets, int32(len(s.Indices)))
	s.Scores = append(s.Scores, r.Scores...)
	s.AttentionMass = append(s.AttentionMass, r.AttentionMass...)
	if r.CoveredMass != nil {
		s.CoveredMass = append(s.CoveredMass, *r.CoveredMass)
	}
	if r.Predicted != nil {
		if len(s.PredictedOffsets) == 0 {
			s.PredictedOffsets = append(s.PredictedOffsets, 0)
		}
		s.Predicted = append(s.Predicted, r.Predicted...)
		s.PredictedOffsets = append(s.PredictedOffsets, int32(len(s.Predicted)))
	}
	s.PromptMass = append(s.PromptMass, r.PromptMass...)
}
