package trace

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/internal/files"
)

// rowGroupIndices is the number of indices after which a row group ends, at the end of the stream.
// Large groups keep the footer small. Several groups let workers share a file. Tests make it
// smaller.
var rowGroupIndices = 4 << 20

// pageBytes is the size of a data page before compression. Tests make it smaller.
var pageBytes = 512 << 10

func writerOptions() []parquet.WriterOption {
	return []parquet.WriterOption{parquet.PageBufferSize(pageBytes), parquet.DataPageStatistics(false), parquet.CreatedBy("kvreplay", "v1", "")}
}

// Writer writes a trace. Streams must be written in key order. The file appears under its name only
// after Close succeeds.
type Writer struct {
	path    string
	meta    Meta
	file    *files.File
	parquet *parquet.GenericWriter[fileRow]
	digest  *Digester
	check   *Checker
	rows    []fileRow
	last    *Key  // last stream that has rows in the file
	failed  error // why the last stream was not finished
	inGroup int   // indices in the open row group
	longest int   // longest list so far
	scored  bool
	flags   int32 // of the first stream
	streams []StreamInfo
	groups  int  // row groups that are finished
	skips   bool // a stream skips steps
}

// Create opens a writer for a trace at path. Some fields of meta may be left out:
//
//   - Version 0 means the current version.
//   - Candidates 0 makes Close store the length of the longest list, at least K.
//   - TopK 0 as well makes whole lists the demand, so K = M is the length of the longest list.
//   - ScoreMantissaBits nil means DefaultMantissaBits. Scores, attention masses and prompt
//     masses are rounded to this precision.
func Create(path string, meta Meta) (*Writer, error) {
	meta.Version = cmp.Or(meta.Version, Version)
	checked := meta
	if meta.TopK == 0 && meta.Candidates == 0 {
		checked.TopK = 1
	}
	if err := checked.Validate(); err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	file, err := files.Create(path)
	if err == nil {
		err = files.CheckKind(path, []byte("PAR1"))
	}
	if err != nil {
		return nil, fmt.Errorf("create trace: %w", err)
	}
	w := &Writer{path: path, meta: meta, file: file, digest: NewDigester(), parquet: parquet.NewGenericWriter[fileRow](file, writerOptions()...)}
	limits := meta
	limits.Candidates = cmp.Or(limits.Candidates, 1<<30)
	w.check = NewChecker(path, &limits)
	return w, nil
}

// Write appends a whole stream after checking every rule. It rounds s.Scores,
// s.AttentionMass and s.PromptMass in place.
func (w *Writer) Write(s *Stream) error {
	return w.WriteParts(s.StreamInfo, func(yield func(*Stream, error) bool) { yield(s, nil) })
}

// WriteParts appends a stream of info.Rows rows in parts, so that the whole need not be in memory.
// Each part has the next rows, at least one. The caller may reuse a part's memory when the next
// part is requested. After an error behind the first part the Writer can only be aborted.
//
// The trace and its digest do not depend on the parts. Page boundaries do, unless all parts but the
// last have a multiple of RowsPerWrite rows.
func (w *Writer) WriteParts(info StreamInfo, parts iter.Seq2[*Stream, error]) (err error) {
	if w.failed != nil {
		return w.failed
	}
	if err := w.admit(&info); err != nil {
		return err
	}
	w.digest.begin(&info)
	rows, step := 0, int32(math.MinInt32)
	defer func() {
		if err != nil && rows > 0 {
			w.failed = err // the file already has rows of an incomplete stream
		}
	}()
	for s, err := range parts {
		if err != nil {
			return err
		}
		if s.Key != info.Key || s.PromptLen != info.PromptLen || rows > 0 && s.hasPromptMass() {
			return w.bad(&info.Key, RuleKey, "the part after %d rows has %v, prompt_len %d and %d prompt masses, expected the key and prompt_len of the first part and no masses",
				rows, s.Key, s.PromptLen, len(s.PromptMass))
		}
		if err := w.admitPart(s, rows == 0, step); err != nil {
			return err
		}
		if err := w.part(s); err != nil {
			return err
		}
		if rows == 0 {
			if w.last == nil {
				w.flags = s.flags()
			}
			w.last = new(s.Key)
			w.streams = append(w.streams, StreamInfo{Key: s.Key, PromptLen: s.PromptLen, RowGroup: w.groups, FirstStep: s.Steps[0]})
		}
		w.skips = w.skips || s.Steps[0] != step+1 && rows > 0 || int(s.Steps[s.Rows-1]-s.Steps[0]) != s.Rows-1
		rows, step = rows+s.Rows, s.Steps[s.Rows-1]
		w.streams[len(w.streams)-1].Rows = rows
	}
	if rows != info.Rows || rows == 0 {
		return w.bad(&info.Key, RuleKey, "stream has %d rows, expected %d, and at least 1", rows, info.Rows)
	}
	w.digest.end()
	if w.inGroup >= rowGroupIndices {
		w.inGroup, w.groups = 0, w.groups+1
		if err := w.parquet.Flush(); err != nil {
			return fmt.Errorf("write %s: %w", w.path, err)
		}
	}
	return nil
}

// part checks and writes rows of the open stream.
func (w *Writer) part(s *Stream) error {
	bits := DefaultMantissaBits
	if w.meta.ScoreMantissaBits != nil {
		bits = *w.meta.ScoreMantissaBits
	}
	roundMantissas(s.Scores, bits)
	roundMantissas(s.AttentionMass, bits)
	roundMantissas(s.PromptMass, bits)
	if e := w.check.First(s); e != nil {
		return e
	}
	w.scored = w.scored || len(s.Scores)+len(s.AttentionMass)+len(s.PromptMass) > 0
	w.digest.rows(s)
	if err := w.write(s); err != nil {
		w.failed = fmt.Errorf("write %s: %v: %w", w.path, s.Key, err)
		return w.failed
	}
	w.inGroup += len(s.Indices)
	return nil
}

// Close finishes the file and renames it to its path. After an error it leaves no file.
func (w *Writer) Close() error {
	if w.last == nil && w.failed == nil {
		w.Abort()
		return fileError(w.path, RuleFile, "no stream was written, expected at least one")
	}
	err := w.failed
	if err == nil {
		err = w.finish()
	}
	if err != nil {
		w.Abort()
		return fmt.Errorf("write %s: %w", w.path, err)
	}
	return nil
}

func (w *Writer) finish() error {
	if w.meta.Candidates == 0 {
		w.meta.Candidates = max(w.longest, w.meta.TopK)
	}
	w.meta.TopK = cmp.Or(w.meta.TopK, w.meta.Candidates)
	if w.scored && w.meta.ScoreMantissaBits == nil {
		w.meta.ScoreMantissaBits = new(DefaultMantissaBits)
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
	w.parquet.SetKeyValueMetadata(keySeal, seal(string(text), digest))
	if err := w.setIndex(digest); err != nil {
		return err
	}
	if err := w.parquet.Close(); err != nil {
		return err
	}
	return w.file.Commit()
}

// setIndex stores a stream index in a file of many row groups. It cannot express a stream that skips
// steps.
func (w *Writer) setIndex(digest string) error {
	groups := w.streams[len(w.streams)-1].RowGroup + 1
	if groups < indexedGroups || w.skips {
		return nil
	}
	text, err := indexText(w.streams, groups, digest)
	w.parquet.SetKeyValueMetadata(keyStreams, text)
	return err
}

// Abort removes the unfinished file. It does nothing after Close.
func (w *Writer) Abort() { w.file.Abort() }

// bad returns the error for a rule that a stream breaks.
func (w *Writer) bad(key *Key, rule, format string, args ...any) error {
	k := *key // the caller may change it
	return &Error{Path: w.path, RowGroup: -1, Row: -1, Stream: &k, Rule: rule, Err: fmt.Errorf(format, args...)}
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

// admitPart checks the order of steps and the shape of columns, which the rules of rows do not
// cover. The first step must be greater than step.
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
	for _, i := range []int{0, s.Rows - 1} { // steps ascend, so two rows suffice
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
	flags := s.flags()
	if !first {
		flags |= w.flags & flagPromptMass
	}
	if w.last != nil && flags != w.flags {
		return bad(RuleSchema, "scores, masses, predicted lists or prompt masses differ from the first stream, expected each of them in all streams or in none")
	}
	return nil
}

// RowsPerWrite is the number of rows that are written together. The library checks after each
// such write if a page is full.
const RowsPerWrite = 64

func (w *Writer) write(s *Stream) error {
	for from := 0; from < s.Rows; from += RowsPerWrite {
		w.fileRows(s, from, min(from+RowsPerWrite, s.Rows))
		if _, err := w.parquet.Write(w.rows); err != nil {
			return err
		}
	}
	return nil
}

// fileRows fills w.rows with the rows [from, to) of s. They share its memory.
func (w *Writer) fileRows(s *Stream, from, to int) {
	var head *int32
	if s.Head != NoHead {
		head = &s.Head
	}
	w.rows = w.rows[:0]
	for i := from; i < to; i++ {
		r := s.Row(i)
		if i == 0 && s.EmptyPromptMass {
			r.PromptMass = []float32{}
		}
		w.longest = max(w.longest, len(r.Indices))
		w.rows = append(w.rows, fileRow{s.Request, s.Layer, head, s.PromptLen, r.Step, int32(s.SeqLen(i)),
			r.Indices, r.Scores, r.CoveredMass, r.AttentionMass, r.Predicted, r.PromptMass})
	}
}

// DefaultMantissaBits is the default precision of stored scores (FORMAT.md, "Rounding of scores").
// Rounding to 10 bits changes the misses of score-driven policies by at most 0.0013 %. It halves
// the bytes of a score.
const DefaultMantissaBits = 10

// RoundMantissa rounds finite v to the given number of mantissa bits, ties to even. It is monotone,
// so ranks never swap. With 23 bits or more it returns v.
func RoundMantissa(v float32, bits int) float32 {
	if bits >= 23 || v != v || math.IsInf(float64(v), 0) {
		return v
	}
	drop := uint(23 - bits)
	b := math.Float32bits(v)
	odd := b >> drop & 1
	r := math.Float32frombits((b + 1<<(drop-1) - 1 + odd) &^ (1<<drop - 1))
	if math.IsInf(float64(r), 0) {
		return math.Float32frombits(b &^ (1<<drop - 1)) // the largest values round down, so that they do not overflow
	}
	return r
}

// roundMantissas rounds values in place. It calls RoundMantissa for values that are not finite or
// may overflow.
func roundMantissas(values []float32, bits int) {
	if bits >= 23 {
		return
	}
	drop := uint(23-bits) & 31
	low := uint32(1)<<drop - 1
	for i, v := range values {
		b := math.Float32bits(v)
		if b&0x7f000000 == 0x7f000000 {
			values[i] = RoundMantissa(v, bits)
			continue
		}
		values[i] = math.Float32frombits((b + low>>1 + b>>drop&1) &^ low)
	}
}
