package trace

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// bad is a rule that a stream breaks.
func (w *Writer) bad(key *Key, rule, format string, args ...any) error {
	of := *key
	return &Error{Path: w.path, RowGroup: -1, Row: -1, Stream: &of, Rule: rule, Err: fmt.Errorf(format, args...)}
}

// admit checks a stream's key and its place in the file.
func (w *Writer) admit(info *StreamInfo) error {
	if w.last != nil && w.last.Compare(info.Key) >= 0 {
		return w.bad(&info.Key, RuleKey, "comes after %v, expected ascending keys, each once", *w.last)
	}
	if !utf8.ValidString(info.Request) {
		return w.bad(&info.Key, RuleKey, "request_id %q, expected UTF-8 text", info.Request)
	}
	if info.Layer < 0 || info.Head < NoHead || info.PromptLen < 0 {
		return w.bad(&info.Key, RuleKey, "layer %d, head %d, prompt_len %d, expected none below 0", info.Layer, info.Head, info.PromptLen)
	}
	return nil
}

// admitPart checks what the rules of rows do not: the order of steps, the first of which is
// above the one given, and the shape of columns.
func (w *Writer) admitPart(s *Stream, first bool, step int32) error {
	bad := func(rule, format string, args ...any) error { return w.bad(&s.Key, rule, format, args...) }
	if s.Rows == 0 || len(s.Steps) != s.Rows || len(s.Offsets) != s.Rows+1 {
		return bad(RuleKey, "stream has %d rows, %d steps, %d offsets, expected n, n, n+1 with n ≥ 1", s.Rows, len(s.Steps), len(s.Offsets))
	}
	for _, next := range s.Steps {
		if next <= step {
			return bad(RuleKey, "step %d after step %d, expected ascending steps, each once", next, step)
		}
		step = next
	}
	for _, i := range []int{0, s.Rows - 1} { // steps ascend
		if n := s.SeqLen(i); n < 1 || n > math.MaxInt32 {
			return bad(RuleSeqLen, "step %d with prompt_len %d has a context of %d tokens, expected 1 to %d", s.Steps[i], s.PromptLen, n, math.MaxInt32)
		}
	}
	if n := len(s.Scores); n != 0 && n != len(s.Indices) {
		return bad(RuleScore, "%d scores for %d indices, expected one each", n, len(s.Indices))
	}
	if n := len(s.AttentionMass); n != 0 && n != len(s.Indices) {
		return bad(RuleMass, "%d attention masses for %d indices, expected one each", n, len(s.Indices))
	}
	if n := len(s.CoveredMass); n != 0 && n != s.Rows {
		return bad(RuleMass, "%d covered masses for %d rows, expected one each", n, s.Rows)
	}
	if n := len(s.PredictedOffsets); n != 0 && n != s.Rows+1 {
		return bad(RulePredict, "%d predicted lists for %d rows, expected one each", n-1, s.Rows)
	}
	columns, covered := s.columns(), len(s.CoveredMass) > 0
	if !first {
		columns |= w.columns & ReadPromptMass // which stands in the first row
	}
	if w.last != nil && (columns != w.columns || covered != w.covered) {
		return bad(RuleSchema, "scores, masses, predicted lists or prompt masses are there in this stream or in the first, but not in both; a file has them in all rows or in none")
	}
	return nil
}

// begun notes that the first rows of s are in the file: a stream that was refused leaves
// nothing, and may be written again.
func (w *Writer) begun(s *Stream) {
	if w.last == nil {
		w.columns, w.covered = s.columns(), len(s.CoveredMass) > 0
	}
	key := s.Key
	w.last = &key
}

// round rounds scores, attention masses and prompt masses in place.
func (w *Writer) round(s *Stream) {
	bits := DefaultMantissaBits
	if w.meta.ScoreMantissaBits != nil {
		bits = *w.meta.ScoreMantissaBits
	}
	roundMantissas(s.Scores, bits)
	roundMantissas(s.AttentionMass, bits)
	roundMantissas(s.PromptMass, bits)
}

// RowsPerWrite is the number of rows that are written together: after so many the library
// looks whether a page is full.
const RowsPerWrite = 64

// write writes the rows of s, a few at a time.
func (w *Writer) write(s *Stream) error {
	for from := 0; from < s.Rows; from += RowsPerWrite {
		w.fileRows(s, from, min(from+RowsPerWrite, s.Rows))
		if _, err := w.parquet.Write(w.rows); err != nil {
			return err
		}
	}
	return nil
}

// fileRows fills w.rows with the rows of s from one to another; they share its memory.
func (w *Writer) fileRows(s *Stream, from, to int) {
	var head *int32
	if s.Head != NoHead {
		head = &s.Head
	}
	w.rows = w.rows[:0]
	for i := from; i < to; i++ {
		row := fileRow{RequestID: s.Request, LayerID: s.Layer, Head: head, PromptLen: s.PromptLen,
			Step: s.Steps[i], SeqLen: int32(s.SeqLen(i)), TopKIndices: s.List(i), Scores: s.ScoreList(i)}
		if len(s.CoveredMass) > 0 {
			row.CoveredMass = &s.CoveredMass[i]
		}
		if len(s.AttentionMass) > 0 {
			row.AttentionMass = s.AttentionMass[s.Offsets[i]:s.Offsets[i+1]]
		}
		row.Predicted = s.PredictedList(i)
		if i == 0 && s.hasPromptMass() {
			row.PromptMass = s.PromptMass
			if s.EmptyPromptMass {
				row.PromptMass = []float32{}
			}
		}
		w.longest = max(w.longest, len(row.TopKIndices))
		w.rows = append(w.rows, row)
	}
}
