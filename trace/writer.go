package trace

import (
	"fmt"
	"iter"
	"math"

	"github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/internal/files"
)

// rowGroupIndices is the number of indices after which a row group ends, at the
// next stream's end: large groups keep the footer small, several groups let
// workers share a file. Tests make it smaller.
var rowGroupIndices = 4 << 20

// pageBytes is the size of a data page before compression; tests make it smaller.
var pageBytes = 512 << 10

// writerOptions are the options of the library that shape the file.
func writerOptions() []parquet.WriterOption {
	return []parquet.WriterOption{parquet.PageBufferSize(pageBytes), parquet.DataPageStatistics(false), parquet.CreatedBy("kvreplay", "v1", "")}
}

// Writer writes a trace. Streams come in key order; the file appears under its name
// only when Close succeeds, and is never half written.
type Writer struct {
	path    string
	meta    Meta
	file    *files.File
	parquet *parquet.GenericWriter[fileRow]
	digest  *Digester
	check   *Checker
	rows    []fileRow
	last    *Key  // of the last stream that has rows in the file
	failed  error // why the last stream was not finished
	inGroup int   // indices in the open row group
	longest int   // longest list so far
	scored  bool
	columns Columns // optional columns of the first stream
	covered bool    // the first stream has covered masses
}

// Create opens a writer for a trace at path. meta.Version may be 0 (current).
// meta.Candidates may be 0: Close then stores the longest list, K at least; with
// meta.TopK = 0 as well, whole lists are the demand and K = M is the longest. Scores,
// attention masses and prompt masses are rounded to meta.ScoreMantissaBits, DefaultMantissaBits
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
	file, err := files.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create trace: %w", err)
	}
	w := &Writer{path: path, meta: meta, file: file, digest: NewDigester(), parquet: parquet.NewGenericWriter[fileRow](file, writerOptions()...)}
	limits := meta
	if limits.Candidates == 0 {
		limits.Candidates = 1 << 30
	}
	w.check = NewChecker(path, &limits)
	return w, nil
}

// Write appends a whole stream after checking every rule. It rounds s.Scores,
// s.AttentionMass and s.PromptMass in place.
func (w *Writer) Write(s *Stream) error {
	return w.WriteParts(s.StreamInfo, func(yield func(*Stream, error) bool) { yield(s, nil) })
}

// WriteParts appends a stream of info.Rows rows that come in parts, so that it need not be
// in memory as a whole: each part has the next rows, one at least. A part's memory may be
// used again when the next one is asked for. After an error behind the first part
// the Writer can only be aborted. Where pages end in the file depends on the parts, unless
// all but the last have a multiple of RowsPerWrite; the trace and its digest do not.
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
			w.failed = err // rows of half a stream are in the file
		}
	}()
	for s, err := range parts {
		if err != nil {
			return err
		}
		if s.Key != info.Key || s.PromptLen != info.PromptLen || rows > 0 && s.hasPromptMass() {
			return w.bad(&info.Key, RuleKey, "a part after %d rows is of %v with prompt_len %d and %d prompt masses, expected those of the stream, and masses in the first part only",
				rows, s.Key, s.PromptLen, len(s.PromptMass))
		}
		if err := w.admitPart(s, rows == 0, step); err != nil {
			return err
		}
		if err := w.part(s); err != nil {
			return err
		}
		if rows == 0 {
			w.begun(s)
		}
		rows, step = rows+s.Rows, s.Steps[s.Rows-1]
	}
	if rows != info.Rows || rows == 0 {
		return w.bad(&info.Key, RuleKey, "stream has %d rows, expected %d, and at least 1", rows, info.Rows)
	}
	w.digest.end()
	if w.inGroup >= rowGroupIndices {
		w.inGroup = 0
		if err := w.parquet.Flush(); err != nil {
			return fmt.Errorf("write %s: %w", w.path, err)
		}
	}
	return nil
}

// part checks and writes rows of the open stream.
func (w *Writer) part(s *Stream) error {
	w.round(s)
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

// Close finishes the file and moves it to its name. After an error nothing is left behind.
func (w *Writer) Close() error {
	if w.last == nil && w.failed == nil {
		w.Abort()
		return fileError(w.path, RuleFile, "no stream was written, a trace has at least one")
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
	return w.file.Commit()
}

// Abort removes the unfinished file. It does nothing after Close.
func (w *Writer) Abort() { w.file.Abort() }
