package trace

import "fmt"

// admit checks what a single stream cannot know of itself: key order, shape of its columns.
func (w *Writer) admit(s *Stream) error {
	bad := func(rule, format string, args ...any) error {
		key := s.Key
		return &Error{Path: w.path, RowGroup: -1, Row: -1, Stream: &key, Rule: rule, Err: fmt.Errorf(format, args...)}
	}
	if s.Rows == 0 || len(s.Steps) != s.Rows || len(s.Offsets) != s.Rows+1 {
		return bad(RuleKey, "stream has %d rows, %d steps, %d offsets, expected n, n, n+1 with n ≥ 1", s.Rows, len(s.Steps), len(s.Offsets))
	}
	if w.last != nil && w.last.Compare(s.Key) >= 0 {
		return bad(RuleKey, "comes after %v, expected ascending keys, each once", *w.last)
	}
	if s.Layer < 0 || s.Head < NoHead || s.PromptLen < 0 {
		return bad(RuleKey, "layer %d, head %d, prompt_len %d, expected none below 0", s.Layer, s.Head, s.PromptLen)
	}
	for i, step := range s.Steps {
		if i > 0 && step <= s.Steps[i-1] {
			return bad(RuleKey, "step %d after step %d, expected ascending steps, each once", step, s.Steps[i-1])
		}
	}
	if s.SeqLen(0) < 1 {
		return bad(RuleSeqLen, "step %d with prompt_len %d has a context of %d tokens, expected at least 1", s.Steps[0], s.PromptLen, s.SeqLen(0))
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
	if w.last == nil {
		w.columns, w.covered = columns, covered
	} else if columns != w.columns || covered != w.covered {
		return bad(RuleSchema, "scores, masses, predicted lists or prompt masses are there in this stream or in the first, but not in both; a file has them in all rows or in none")
	}
	key := s.Key
	w.last = &key
	return nil
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

// rowsPerWrite is the number of rows that the library gets together. It writes at most
// 64 before it looks whether a page is full.
const rowsPerWrite = 64

// write writes the rows of s, a few at a time.
func (w *Writer) write(s *Stream) error {
	w.lists.begin(s)
	defer w.lists.end()
	for from := 0; from < s.Rows; from += rowsPerWrite {
		w.fileRows(s, from, min(from+rowsPerWrite, s.Rows))
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
		if i == 0 && len(s.PromptMass) > 0 {
			row.PromptMass = s.PromptMass
		}
		w.longest = max(w.longest, len(row.TopKIndices))
		w.rows = append(w.rows, row)
	}
}
