package trace

import (
	"errors"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/trace/parquet"
)

// mostValues is the largest number of values in the lists of a stream, because their ends are
// int32. Tests make it smaller.
var mostValues = math.MaxInt32

// Columns are the columns that a Reader decodes in addition to keys and indices.
type Columns uint8

// Columns of a row that a Reader may skip.
const (
	ReadScores Columns = 1 << iota
	ReadMasses
	ReadPredicted
	ReadPromptMass
	// TrustLists skips the index rules, because replay checks them in a pass of its own. All other
	// rules are still checked.
	TrustLists

	ReadAll = ReadScores | ReadMasses | ReadPredicted | ReadPromptMass
)

// Reader reads streams of a File. It keeps its buffers and its place, so consecutive streams are
// read without seeking. Each goroutine needs its own.
type Reader struct {
	file    *File
	columns Columns
	trust   bool // pages need no CRC
	check   *Checker
	group   int // open row group, -1 none
	row     int64

	indices   column[int32]
	scores    column[float32]
	covered   column[float32]
	attention column[float32]
	predicted column[int32]
	prompt    column[float32]
	ends      []int32 // ends of the lists of a parallel column

	broken []*Error // rules that a whole column of the last decoded stream breaks
}

// NewReader returns a reader that decodes the given columns.
func (f *File) NewReader(columns Columns) *Reader {
	r := &Reader{file: f, columns: columns, check: NewChecker(f.path, &f.meta), group: -1}
	wants := func(c Columns, column int) *parquet.Leaf {
		if columns&c == 0 {
			return nil
		}
		return f.leaves[column]
	}
	r.indices.leaf = f.leaves[ColIndices]
	r.scores.leaf = wants(ReadScores, ColScores)
	r.covered.leaf = wants(ReadMasses, ColCoveredMass)
	r.attention.leaf = wants(ReadMasses, ColAttentionMass)
	r.predicted.leaf = wants(ReadPredicted, ColPredicted)
	r.prompt.leaf = wants(ReadPromptMass, ColPromptMass)
	return r
}

// column is a cursor with the leaf that it reads. It is nil if the column is not read.
type column[T int32 | float32] struct {
	parquet.Cursor[T]
	leaf *parquet.Leaf
}

// place opens row group g of the column, unless it is open, and goes to a row. Row -1 is the next
// one.
func (c *column[T]) place(f *File, g int, open, trust bool, row int64) error {
	if c.leaf == nil {
		return nil
	}
	if !open {
		c.Open(f.parquet, g, c.leaf)
	}
	if trust {
		c.Trust()
	}
	if row < 0 {
		return nil
	}
	return c.SeekRow(row)
}

// Close releases the reader's memory.
func (r *Reader) Close() {
	for _, c := range r.all() {
		c.Close()
	}
	r.group = -1
}

// placed is a column of any type.
type placed interface {
	place(f *File, g int, open, trust bool, row int64) error
	Close()
}

func (r *Reader) all() [6]placed {
	return [...]placed{&r.indices, &r.scores, &r.covered, &r.attention, &r.predicted, &r.prompt}
}

func (r *Reader) leaves() []*parquet.Leaf {
	all := []*parquet.Leaf{r.indices.leaf, r.scores.leaf, r.covered.leaf, r.attention.leaf, r.predicted.leaf, r.prompt.leaf}
	return slice.Filter(all, func(l *parquet.Leaf) bool { return l != nil })
}

// Read decodes stream i of the directory into s and checks it. The first broken rule is returned as
// an *Error. After an error s must not be used.
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

// decode fills s but does not apply the rules of single lists. It leaves out a column that breaks a
// rule as a whole and notes it in r.broken.
func (r *Reader) decode(i int, s *Stream) error {
	info := r.file.streams[i]
	s.Reset(info)
	r.broken = r.broken[:0]
	s.Steps = r.file.appendSteps(s.Steps, i)
	err := parquet.Guard(func() error {
		if err := r.position(&info); err != nil {
			return err
		}
		return r.fill(s)
	})
	if err != nil {
		r.Close()
		if hole := new(parquet.NullError); errors.As(err, &hole) {
			return streamError(r.file.path, &info, hole.Row, s.Steps[hole.Row], RuleList, "%w", err)
		}
		if e := AsError(err); e != nil { // a page without CRC made the digest necessary
			return e
		}
		return &Error{Path: r.file.path, RowGroup: info.RowGroup, Row: info.FirstRow, Stream: &info.Key, Rule: RuleFile, Err: err}
	}
	r.row = info.FirstRow + int64(info.Rows)
	return nil
}

// position puts every column at the stream's first row.
func (r *Reader) position(info *StreamInfo) error {
	open, next, row := r.group == info.RowGroup, r.row, info.FirstRow
	if !open {
		next = 0
	}
	if row == next {
		row = -1
	}
	if !open {
		if err := r.file.checkKeys(info.RowGroup, r.trust); err != nil {
			return err
		}
	}
	r.group = info.RowGroup
	for _, c := range r.all() {
		if err := c.place(r.file, info.RowGroup, open, r.trust, row); err != nil {
			return err
		}
	}
	return nil
}

// fill reads the stream's rows from the cursors and checks that columns agree.
func (r *Reader) fill(s *Stream) error {
	var err error
	s.Indices = slices.Grow(s.Indices, r.mostIndices(&s.StreamInfo))
	if s.Indices, s.Offsets, err = r.indices.Lists(s.Rows, mostValues, s.Indices, s.Offsets); err != nil {
		return err
	}
	if r.scores.leaf != nil {
		if s.Scores, err = r.parallel(&r.scores, ColScores, s, s.Scores, RuleScore); err != nil {
			return err
		}
	}
	if r.attention.leaf != nil {
		if s.AttentionMass, err = r.parallel(&r.attention, ColAttentionMass, s, s.AttentionMass, RuleMass); err != nil {
			return err
		}
	}
	if r.covered.leaf != nil {
		if s.CoveredMass, err = r.covered.Flat(s.Rows, s.CoveredMass, 0); err != nil {
			return err
		}
		if !r.allOrNone(s, ColCoveredMass, &r.covered.Rows, RuleMass) {
			s.CoveredMass = s.CoveredMass[:0]
		}
	}
	if r.predicted.leaf != nil {
		s.PredictedOffsets = append(s.PredictedOffsets, 0)
		if s.Predicted, s.PredictedOffsets, err = r.predicted.Lists(s.Rows, mostValues, s.Predicted, s.PredictedOffsets); err != nil {
			return err
		}
		if !r.allOrNone(s, ColPredicted, &r.predicted.Rows, RulePredict) {
			s.PredictedOffsets = s.PredictedOffsets[:0]
		}
	}
	if r.prompt.leaf != nil {
		return r.promptMass(s)
	}
	return nil
}

// breaks notes that row i of s breaks a rule, so that the whole column is left out.
func (r *Reader) breaks(s *Stream, i int, rule, format string, args ...any) {
	r.broken = append(r.broken, streamError(r.file.path, &s.StreamInfo, i, s.Steps[i], rule, format, args...))
}

// promptMass reads the column with a list in a stream's first row and null in the others.
func (r *Reader) promptMass(s *Stream) error {
	var err error
	if s.PromptMass, r.ends, err = r.prompt.Lists(s.Rows, mostValues, s.PromptMass, r.ends[:0]); err != nil {
		return err
	}
	k, first := &r.prompt.Rows, "is null in the file's first row"
	row := k.FirstValue
	if r.file.present[ColPromptMass] {
		first = "has a list in the file's first row"
		if row = k.NextValue; k.FirstValue != 0 {
			row = 0
		}
	}
	if row >= 0 {
		r.breaks(s, row, RulePromptMass, "prompt_mass has %d lists in the stream's %d rows, but %s, expected one in the first row of each stream or none in the file", s.Rows-k.Nulls, s.Rows, first)
		s.PromptMass = s.PromptMass[:0]
		return nil
	}
	s.EmptyPromptMass = k.FirstValue == 0 && len(s.PromptMass) == 0
	return nil
}

// allOrNone checks that an optional column is null in all rows of the file or in none. It returns
// whether the column holds values.
func (r *Reader) allOrNone(s *Stream, column int, k *parquet.RowKinds, rule string) bool {
	row, first := k.FirstNull, "has a value"
	if !r.file.present[column] {
		row, first = k.FirstValue, "is null"
	}
	if row < 0 {
		return r.file.present[column]
	}
	r.breaks(s, row, rule, "%s is null in %d of the stream's %d rows, but %s in the file's first row, expected values in all rows of a file or in none", ColumnNames[column], k.Nulls, s.Rows, first)
	return false
}

// mostIndices returns the number of a stream's indices to make room for, from its rows and its row
// group. Only a file with damaged numbers or hardly any bits per index has more.
func (r *Reader) mostIndices(s *StreamInfo) int {
	m := &r.file.parquet.Metadata().RowGroups[s.RowGroup].Columns[r.indices.leaf.Index].MetaData
	return int(max(0, min(int64(s.Rows*r.file.meta.Candidates), m.NumValues, 16*m.TotalCompressedSize)))
}

// parallel reads a list column that must have the lengths of topk_indices or be null in every row.
func (r *Reader) parallel(c *column[float32], column int, s *Stream, dst []float32, rule string) ([]float32, error) {
	var err error
	if dst, r.ends, err = c.Lists(s.Rows, mostValues, dst, r.ends[:0]); err != nil {
		return dst, err
	}
	if !r.allOrNone(s, column, &c.Rows, rule) {
		return dst[:0], nil
	}
	for i, end := range r.ends {
		if end != s.Offsets[i+1] {
			r.breaks(s, i, rule, "%s and topk_indices differ in length at this row, expected one value per index (or null in all rows)", c.leaf.Name)
			return dst[:0], nil
		}
	}
	return dst, nil
}
