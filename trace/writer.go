package trace

import (
	"fmt"

	"github.com/google/renameio/v2"
	"github.com/parquet-go/parquet-go"
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
	file    *renameio.PendingFile
	parquet *parquet.GenericWriter[fileRow]
	lists   *listColumns
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
	file, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o644))
	if err != nil {
		return nil, fmt.Errorf("create trace: %w", err)
	}
	w := &Writer{path: path, meta: meta, file: file, digest: NewDigester(), lists: newListColumns()}
	w.parquet = parquet.NewGenericWriter[fileRow](file, append(writerOptions(), w.lists.schema())...)
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
	if err := w.admit(s); err != nil {
		return err
	}
	w.round(s)
	if e := w.check.First(s); e != nil {
		return e
	}
	w.scored = w.scored || len(s.Scores)+len(s.AttentionMass)+len(s.PromptMass) > 0
	w.digest.Add(s)
	if err := w.write(s); err != nil {
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
