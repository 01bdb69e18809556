package trace

import (
	"errors"
	"slices"
)

// Columns chooses what a Reader decodes besides keys and indices.
type Columns uint8

// Columns of a row that a Reader may skip.
const (
	ReadScores Columns = 1 << iota
	ReadMasses
	ReadPredicted
	ReadPromptMass
	// TrustLists leaves the index rules to the caller (replay checks them in the pass
	// that it makes anyway). All other rules are still checked.
	TrustLists

	ReadAll = ReadScores | ReadMasses | ReadPredicted | ReadPromptMass
)

// Reader reads streams of a File. It keeps its buffers and its place: consecutive
// streams are read without seeking. One per goroutine.
type Reader struct {
	file    *File
	columns Columns
	check   *Checker
	group   int // open row group, -1 none
	row     int64

	indices   cursor[int32]
	scores    cursor[float32]
	covered   cursor[float32]
	attention cursor[float32]
	predicted cursor[int32]
	prompt    cursor[float32]
	ends      []int32 // of the lists of a parallel column

	broken []*Error // rules of whole columns that the stream decoded last breaks
}

// NewReader returns a reader that decodes the given columns.
func (f *File) NewReader(columns Columns) *Reader {
	r := &Reader{file: f, columns: columns, check: NewChecker(f.path, &f.meta), group: -1}
	r.indices.leaf = f.leaves[colIndices]
	r.scores.leaf = f.leaves[colScores]
	r.covered.leaf = f.leaves[colCoveredMass]
	r.attention.leaf = f.leaves[colAttentionMass]
	r.predicted.leaf = f.leaves[colPredicted]
	r.prompt.leaf = f.leaves[colPromptMass]
	return r
}

// Close releases the reader's pages.
func (r *Reader) Close() {
	r.indices.close()
	r.scores.close()
	r.covered.close()
	r.attention.close()
	r.predicted.close()
	r.prompt.close()
	r.group = -1
}

// Read decodes stream i of the directory into s and checks it. The first broken rule
// is the error, an *Error; s is then not to be used.
func (r *Reader) Read(i int, s *Stream) error {
	if err := r.decode(i, s); err != nil {
		return err
	}
	if len(r.broken) > 0 {
		return r.broken[0]
	}
	if e := r.firstBroken(s); e != nil {
		return e
	}
	return nil
}

func (r *Reader) firstBroken(s *Stream) *Error {
	var first *Error
	stop := func(e *Error) bool { first = e; return false }
	if r.columns&TrustLists == 0 && !r.check.lists(s, stop) {
		return first
	}
	_ = r.check.scores(s, stop) && r.check.masses(s, stop) && r.check.predicted(s, stop) && r.check.promptMass(s, stop)
	return first
}

// decode fills s without applying the rules of single lists. A column that breaks a rule as a
// whole is left out of s and noted in r.broken.
func (r *Reader) decode(i int, s *Stream) error {
	info := r.file.streams[i]
	s.Reset(info)
	r.broken = r.broken[:0]
	s.Steps = r.file.appendSteps(s.Steps, i)
	err := guard(func() error {
		if err := r.position(&info); err != nil {
			return err
		}
		return r.fill(s)
	})
	if err != nil {
		r.Close()
		if hole := new(nullError); errors.As(err, &hole) {
			return streamError(r.file.path, &info, hole.row, s.Steps[hole.row], RuleList, "%w", err)
		}
		return &Error{Path: r.file.path, RowGroup: info.RowGroup, Row: info.FirstRow, Stream: &info.Key, Rule: RuleFile, Err: err}
	}
	r.row = info.FirstRow + int64(info.Rows)
	return nil
}

// position puts every open cursor at the stream's first row.
func (r *Reader) position(info *StreamInfo) error {
	fresh := r.group != info.RowGroup
	if fresh {
		r.Close()
	}
	seek := r.row != info.FirstRow
	if fresh {
		seek = info.FirstRow != 0
	}
	r.group = info.RowGroup
	place := func(open func(*File, int), to func(*File, int, int64) error) error {
		if fresh {
			open(r.file, info.RowGroup)
		}
		if seek {
			return to(r.file, info.RowGroup, info.FirstRow)
		}
		return nil
	}
	if err := place(r.indices.open, r.indices.seek); err != nil {
		return err
	}
	if r.wants(ReadScores, &r.scores.leaf) {
		if err := place(r.scores.open, r.scores.seek); err != nil {
			return err
		}
	}
	if r.wants(ReadMasses, &r.covered.leaf) {
		if err := place(r.covered.open, r.covered.seek); err != nil {
			return err
		}
	}
	if r.wants(ReadMasses, &r.attention.leaf) {
		if err := place(r.attention.open, r.attention.seek); err != nil {
			return err
		}
	}
	if r.wants(ReadPredicted, &r.predicted.leaf) {
		if err := place(r.predicted.open, r.predicted.seek); err != nil {
			return err
		}
	}
	if r.wants(ReadPromptMass, &r.prompt.leaf) {
		return place(r.prompt.open, r.prompt.seek)
	}
	return nil
}

func (r *Reader) wants(c Columns, l *leaf) bool { return r.columns&c != 0 && l.index >= 0 }

// fill reads the stream's rows from the cursors and checks that columns agree.
func (r *Reader) fill(s *Stream) error {
	var err error
	s.Indices = slices.Grow(s.Indices, r.mostIndices(&s.StreamInfo))
	if s.Indices, s.Offsets, err = r.indices.lists(s.Rows, s.Indices, s.Offsets); err != nil {
		return err
	}
	if r.wants(ReadScores, &r.scores.leaf) {
		if s.Scores, err = r.parallel(&r.scores, colScores, s, s.Scores, RuleScore); err != nil {
			return err
		}
	}
	if r.wants(ReadMasses, &r.attention.leaf) {
		if s.AttentionMass, err = r.parallel(&r.attention, colAttentionMass, s, s.AttentionMass, RuleMass); err != nil {
			return err
		}
	}
	if r.wants(ReadMasses, &r.covered.leaf) {
		if s.CoveredMass, err = r.covered.flat(s.Rows, s.CoveredMass, 0); err != nil {
			return err
		}
		if !r.allOrNone(s, colCoveredMass, &r.covered.kinds, RuleMass) {
			s.CoveredMass = s.CoveredMass[:0]
		}
	}
	if r.wants(ReadPredicted, &r.predicted.leaf) {
		s.PredictedOffsets = append(s.PredictedOffsets, 0)
		if s.Predicted, s.PredictedOffsets, err = r.predicted.lists(s.Rows, s.Predicted, s.PredictedOffsets); err != nil {
			return err
		}
		if !r.allOrNone(s, colPredicted, &r.predicted.kinds, RulePredict) {
			s.PredictedOffsets = s.PredictedOffsets[:0]
		}
	}
	if r.wants(ReadPromptMass, &r.prompt.leaf) {
		return r.promptMass(s)
	}
	return nil
}

// breaks notes that row i of s breaks a rule by which a whole column is left out.
func (r *Reader) breaks(s *Stream, i int, rule, format string, args ...any) {
	r.broken = append(r.broken, streamError(r.file.path, &s.StreamInfo, i, s.Steps[i], rule, format, args...))
}

// promptMass reads the column that has a list in a stream's first row and null in the others.
func (r *Reader) promptMass(s *Stream) error {
	var err error
	if s.PromptMass, r.ends, err = r.prompt.lists(s.Rows, s.PromptMass, r.ends[:0]); err != nil {
		return err
	}
	k, there := &r.prompt.kinds, "is null in the file's first row"
	row := k.firstValue
	if r.file.present[colPromptMass] {
		there = "has a list in the file's first row"
		if row = k.nextValue; k.firstValue != 0 {
			row = 0
		}
	}
	if row >= 0 {
		r.breaks(s, row, RulePromptMass, "prompt_mass has %d lists in the stream's %d rows, but %s, expected one in the first row of every stream or none in the file", s.Rows-k.nulls, s.Rows, there)
		s.PromptMass = s.PromptMass[:0]
		return nil
	}
	s.EmptyPromptMass = k.firstValue == 0 && len(s.PromptMass) == 0
	return nil
}

// allOrNone checks that an optional column is null in no row of the file or in all. It
// returns whether the column holds values.
func (r *Reader) allOrNone(s *Stream, column int, k *rowKinds, rule string) bool {
	row, first := k.firstNull, "has a value"
	if !r.file.present[column] {
		row, first = k.firstValue, "is null"
	}
	if row < 0 {
		return r.file.present[column]
	}
	r.breaks(s, row, rule, "%s is null in %d of the stream's %d rows, but %s in the file's first row, expected values in all rows of a file or in none", columnNames[column], k.nulls, s.Rows, first)
	return false
}

// mostIndices bounds a stream's indices by its rows and by what its row group holds.
func (r *Reader) mostIndices(s *StreamInfo) int {
	group := r.file.parquet.Metadata().RowGroups[s.RowGroup]
	return min(s.Rows*r.file.meta.Candidates, int(group.Columns[r.indices.leaf.index].MetaData.NumValues))
}

// parallel reads a list column that must have the lengths of topk_indices, or be null throughout.
func (r *Reader) parallel(c *cursor[float32], column int, s *Stream, dst []float32, rule string) ([]float32, error) {
	var err error
	if dst, r.ends, err = c.lists(s.Rows, dst, r.ends[:0]); err != nil {
		return dst, err
	}
	if !r.allOrNone(s, column, &c.kinds, rule) {
		return dst[:0], nil
	}
	for i, end := range r.ends {
		if end != s.Offsets[i+1] {
			r.breaks(s, i, rule, "%s and topk_indices differ in length at this row, expected one value an index (or null in all rows)", c.leaf.name)
			return dst[:0], nil
		}
	}
	return dst, nil
}
