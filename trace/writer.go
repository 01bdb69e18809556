package trace

import (
	"fmt"

	"github.com/google/renameio/v2"
	"github.com/parquet-go/parquet-go"
)

// rowGroupIndices is the number of indices after which a row group ends, at the
// next stream's end: large groups keep the footer small, several groups let
// workers share a file.
const rowGroupIndices = 4 << 20

// pageBytes is the size of a data page before compression; tests make it smaller.
var pageBytes = 512 << 10

// Writer writes a trace. Streams come in key order; the file appears under its name
// only when Close succeeds, and is never half written.
type Writer struct {
	path    string
	meta    Meta
	file    *renameio.PendingFile
	parquet *parquet.GenericWriter[fileRow]
	digest  *Digester
	check   *Checker
	rows    []fileRow
	last    *Key
	inGroup int // indices in the open row group
	longest int // longest list so far
	scored  bool
	columns Columns // optional columns of the first stream
	covered bool    // the first stream has covered masses
}

// Create opens a writer for a trace at path. meta.Version may be 0 (current).
// meta.Candidates may be 0: Close then stores the longest list, K at least; with
// meta.TopK = 0 as well, whole lists are the demand and K = M is the longest. Scores
// and attention masses are rounded to meta.ScoreMantissaBits, DefaultMantissaBits
// where nil.
func Create(path string, meta Meta) (*Writer, error) {
	if meta.Version == 0 {
		meta.Version = Version
	}
	stated := meta
	if meta.TopK == 0 && meta.Candidates == 0 {
		stated.TopK = 1
	}
	if err := stated.Validate(); err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	file, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o644))
	if err != nil {
		return nil, fmt.Errorf("create trace: %w", err)
	}
	w := &Writer{path: path, meta: meta, file: file, digest: NewDigester()}
	w.parquet = parquet.NewGenericWriter[fileRow](file,
		parquet.PageBufferSize(pageBytes), parquet.DataPageStatistics(false),
		parquet.CreatedBy("kvreplay", "v1", ""))
	limits := meta
	if limits.Candidates == 0 {
		limits.Candidates = 1 << 30
	}
	w.check = NewChecker(path, &limits)
	return w, nil
}

// Write appends a whole stream after checking every rule. It rounds s.Scores and
// s.AttentionMass in place.
func (w *Writer) Write(s *Stream) error {
	if err := w.admit(s); err != nil {
		return err
	}
	bits := DefaultMantissaBits
	if w.meta.ScoreMantissaBits != nil {
		bits = *w.meta.ScoreMantissaBits
	}
	for i, v := range s.Scores {
		s.Scores[i] = RoundMantissa(v, bits)
	}
	for i, v := range s.AttentionMass {
		s.AttentionMass[i] = RoundMantissa(v, bits)
	}
	if e := w.check.First(s); e != nil {
		return e
	}
	w.scored = w.scored || len(s.Scores) > 0
	w.digest.Add(s)
	var head *int32
	if s.Head != NoHead {
		head = &s.Head
	}
	w.rows = w.rows[:0]
	for i, step := range s.Steps {
		row := fileRow{RequestID: s.Request, LayerID: s.Layer, Head: head, PromptLen: s.PromptLen,
			Step: step, SeqLen: int32(s.SeqLen(i)), TopKIndices: s.List(i), Scores: s.ScoreList(i)}
		if len(s.CoveredMass) > 0 {
			row.CoveredMass = &s.CoveredMass[i]
		}
		if len(s.AttentionMass) > 0 {
			row.AttentionMass = s.AttentionMass[s.Offsets[i]:s.Offsets[i+1]]
		}
		row.Predicted = s.PredictedList(i)
		w.longest = max(w.longest, len(row.TopKIndices))
		w.rows = append(w.rows, row)
	}
	if _, err := w.parquet.Write(w.rows); err != nil {
		return fmt.Errorf("write %s: %v: %w", w.path, s.Key, err)
	}
	if w.inGroup += len(s.Indices); w.inGroup >= rowGroupIndices {
		w.inGroup = 0
		if err := w.parquet.Flush(); err != nil {
			return fmt.Errorf("write %s: %w", w.path, err)
		}
	}
	return nil
}

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
		return bad(RuleSchema, "scores, masses or predicted lists are there in this stream or in the first, but not in both; a file has them in all rows or in none")
	}
	key := s.Key
	w.last = &key
	return nil
}

// Close finishes the file and moves it to its name. After an error nothing is left behind.
func (w *Writer) Close() error {
	if w.last == nil {
		w.Abort()
		return fileError(w.path, RuleFile, "no stream was written, a trace has at least one")
	}
	if err := w.finish(); err != nil {
		w.Abort()
		return fmt.Errorf("write %s: %w", w.path, err)
	}
	return nil
}

func (w *Writer) finish() error {
	if w.meta.Candidates == 0 {
		w.meta.Candidates = max(w.longest, w.meta.TopK)
	}
	if w.meta.TopK == 0 {
		w.meta.TopK = w.meta.Candidates
	}
	if w.scored && w.meta.ScoreMantissaBits == nil {
		bits := DefaultMantissaBits
		w.meta.ScoreMantissaBits = &bits
	}
	if err := w.meta.validateLists(); err != nil {
		return err
	}
	text, err := w.meta.Canonical()
	if err != nil {
		return err
	}
	digest, err := w.digest.Sum(&w.meta)
	if err != nil {
		return err
	}
	w.parquet.SetKeyValueMetadata(keyMeta, string(text))
	w.parquet.SetKeyValueMetadata(keyDigest, digest)
	w.parquet.SetKeyValueMetadata(keySeal, seal(text, digest))
	if err := w.parquet.Close(); err != nil {
		return err
	}
	return w.file.CloseAtomicallyReplace()
}

// Abort removes the unfinished file. It does nothing after Close.
func (w *Writer) Abort() { w.file.Cleanup() }
