package importer

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// metaKey is the key of the trace's metadata in the metadata of a table.
const metaKey = "kvreplay"

// isOptional reports whether a table may lack a column. A context follows from the prompt and the step.
func isOptional(column int) bool {
	return column == trace.ColHead || column == trace.ColSeqLen || column >= trace.ColScores
}

// checkColumns checks that a table has all required columns. It returns the names of the columns
// that are ignored.
func checkColumns(names []string, o *Options) (ignored []string, err error) {
	var needed, optional []string
	for c, name := range trace.ColumnNames {
		if isOptional(c) {
			optional = append(optional, name)
		} else {
			needed = append(needed, name)
		}
	}
	for c, name := range trace.ColumnNames {
		given := c == trace.ColRequestID && o.RequestID != "" || c == trace.ColPromptLen && o.PromptLen > 0
		if !isOptional(c) && !given && !slices.Contains(names, name) {
			return nil, fmt.Errorf("column %s is missing: found %v, expected %v (or --request-id and --prompt-len) and any of %v", name, names, needed, optional)
		}
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("column %s appears twice", name)
		}
		if !slices.Contains(trace.ColumnNames[:], name) {
			ignored = append(ignored, name)
		}
	}
	return ignored, nil
}

// kind is the kind of the values of a column.
type kind int

const (
	others  kind = iota // not valid in any column that is read
	texts               // strings
	wholes              // integers of any width
	singles             // numbers that fit float32
	doubles             // numbers of 64 bits, which pandas also uses for integers with nulls
)

// wantReals lists the permitted types of scores and masses, for messages.
const wantReals = "float, double or float16 (cast bfloat16 to float32, which is exact)"

// checkKind reports a column whose values have the wrong kind. typ is the column's type, for the
// message.
func checkKind(column int, k kind, typ any) error {
	ok, want := k == wholes || k == doubles, "whole numbers"
	switch column {
	case trace.ColRequestID:
		ok, want = k == texts, "texts"
	case trace.ColIndices, trace.ColPredicted:
		ok, want = k == wholes, "positions as whole numbers"
	case trace.ColScores, trace.ColAttentionMass, trace.ColPromptMass, trace.ColCoveredMass:
		ok, want = k == singles || k == doubles, wantReals
	}
	if !ok {
		return fmt.Errorf("has the type %v, expected %s", typ, want)
	}
	return nil
}

// numeric is one number of a table.
type numeric struct {
	kind  kind
	whole int64   // if kind is wholes
	huge  bool    // whole holds the bits of a number above the largest int64
	real  float64 // if kind is singles or doubles
}

// cells are the values of one row.
type cells struct {
	id    string // request_id
	hasID bool
	ints  [trace.ColSeqLen + 1]int32 // by column, request unused
	has   [trace.ColSeqLen + 1]bool  // present and not null
	record
}

// reset empties the cells and keeps their memory.
func (c *cells) reset() {
	r := c.record
	*c = cells{record: record{indices: r.indices[:0], scores: r.scores[:0], wide: r.wide[:0], attention: r.attention[:0], promptMass: r.promptMass[:0]}}
}

// startList notes that a list column is not null. It may be empty.
func (c *cells) startList(column int) {
	switch column {
	case trace.ColPredicted:
		c.predicted = []int32{}
	case trace.ColPromptMass:
		c.emptyMass = true
	}
}

// positions returns the index values of a list column.
func (c *cells) positions(column int) *[]int32 {
	if column == trace.ColPredicted {
		return &c.predicted
	}
	return &c.indices
}

func (c *cells) reals(column int) *[]float32 {
	switch column {
	case trace.ColScores:
		return &c.scores
	case trace.ColAttentionMass:
		return &c.attention
	}
	return &c.promptMass
}

// put sets the number of a column, or appends it to the column's list.
func (c *cells) put(column int, n numeric) error {
	switch column {
	case trace.ColScores, trace.ColAttentionMass, trace.ColPromptMass:
		list := c.reals(column)
		*list = append(*list, float32(n.real))
		if column == trace.ColScores && n.kind == doubles {
			c.wide = append(c.wide, n.real)
		}
		return nil
	case trace.ColCoveredMass:
		c.covered = new(float32(n.real))
		return nil
	}
	if n.kind == doubles {
		if math.IsNaN(n.real) { // pandas turns null into NaN
			return nil
		}
		if n.real != math.Trunc(n.real) || math.Abs(n.real) > 1<<53 {
			return fmt.Errorf("is %v, expected a whole number", n.real)
		}
		n.whole = int64(n.real)
	}
	if n.huge || n.whole != int64(int32(n.whole)) {
		var v any = n.whole
		if n.huge {
			v = uint64(n.whole)
		}
		if trace.IsList(column) {
			return fmt.Errorf("value %d of the list is %d, expected one that int32 holds", len(*c.positions(column)), v)
		}
		return fmt.Errorf("is %d, expected a value that int32 holds", v)
	}
	if trace.IsList(column) {
		list := c.positions(column)
		*list = append(*list, int32(n.whole))
		return nil
	}
	c.ints[column], c.has[column] = int32(n.whole), true
	return nil
}

// finish checks the cells and fills the record from them. Flags replace absent columns.
func (c *cells) finish(o *Options) error {
	if !c.hasID {
		c.id = o.RequestID
	}
	if !c.has[trace.ColPromptLen] {
		c.ints[trace.ColPromptLen] = int32(o.PromptLen)
	}
	want := int64(c.ints[trace.ColPromptLen]) + int64(c.ints[trace.ColStep]) + 1
	switch {
	case o.RequestID != "" && c.id != o.RequestID:
		return fmt.Errorf("request_id is %q, but --request-id is %q", c.id, o.RequestID)
	case !c.has[trace.ColLayerID] || !c.has[trace.ColStep]:
		return errors.New("layer_id or step is null, expected a value in every row")
	case !c.has[trace.ColPromptLen] && o.PromptLen == 0:
		return errors.New("prompt_len is null, expected a value in every row")
	case c.has[trace.ColSeqLen] && int64(c.ints[trace.ColSeqLen]) != want:
		return fmt.Errorf("seq_len is %d, expected prompt_len + step + 1 = %d", c.ints[trace.ColSeqLen], want)
	case want < 1 || want > math.MaxInt32:
		return fmt.Errorf("context of %d tokens (prompt_len + step + 1), expected 1 to 2^31 − 1", want)
	case len(c.scores) != 0 && len(c.scores) != len(c.indices):
		return fmt.Errorf("%d scores for %d topk_indices, expected one each", len(c.scores), len(c.indices))
	case len(c.attention) != 0 && len(c.attention) != len(c.indices):
		return fmt.Errorf("%d values in attention_mass for %d topk_indices, expected one each", len(c.attention), len(c.indices))
	case c.has[trace.ColHead] && c.ints[trace.ColHead] < 0:
		return fmt.Errorf("head is %d, expected 0 or more, or null", c.ints[trace.ColHead])
	}
	c.request, c.states = c.id, c.has[trace.ColPromptLen]
	c.layer, c.step, c.seqLen, c.head = c.ints[trace.ColLayerID], c.ints[trace.ColStep], int32(want), trace.NoHead
	if c.has[trace.ColHead] {
		c.head = c.ints[trace.ColHead]
	}
	return nil
}

// table adds the rows of a source with the columns of the trace format.
type table struct {
	source *source
	c      *collector
	row    int64 // rows so far
	cells  cells
}

// newTable checks the columns of a table and reads its metadata, which lookup returns by key. M may
// be missing in the metadata, because a program that writes row by row does not know it.
func newTable(s *source, c *collector, names []string, lookup func(string) (string, bool)) (*table, error) {
	ignored, err := checkColumns(names, s.opts)
	if err != nil {
		return nil, err
	}
	for _, name := range ignored {
		c.warn("%s: column %s is ignored", s.path, name)
	}
	if err := trace.CheckSeal(lookup); err != nil {
		return nil, err
	}
	if text, ok := lookup(metaKey); ok {
		m, err := trace.ParseOpenMeta([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", metaKey, err)
		}
		if m.Candidates < 0 || m.Candidates > math.MaxInt32/64 {
			return nil, fmt.Errorf("key %q: metadata: candidates %d out of range", metaKey, m.Candidates)
		}
		c.state(s, m)
	}
	return &table{source: s, c: c}, nil
}

// add adds the row that fill writes to the cells. Its error names the column.
func (t *table) add(fill func(*cells) error) error {
	t.row++
	t.cells.reset()
	err := fill(&t.cells)
	if err == nil {
		err = t.cells.finish(t.source.opts)
	}
	if err != nil {
		return t.source.errorAt(t.row, "%w", err)
	}
	t.cells.at = t.row
	return t.c.add(t.source, &t.cells.record)
}

// half converts a half-precision number (IEEE 754 binary16) exactly. The Arrow library's own
// conversion turns subnormal numbers, such as most softmax scores, into numbers near 1e-38.
func half(bits uint16) float32 {
	sign, exponent, fraction := bits>>15, int(bits>>10&31), float64(bits&1023)
	v := math.Ldexp(1024+fraction, exponent-25)
	switch exponent {
	case 0:
		v = math.Ldexp(fraction, -24)
	case 31:
		v = math.Inf(1)
		if fraction > 0 {
			v = math.NaN()
		}
	}
	if sign == 1 {
		v = -v
	}
	return float32(v)
}
