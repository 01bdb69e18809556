package importer

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// Columns of a table source (Arrow, Parquet): those of the trace format.
const (
	colRequest = iota
	colLayer
	colHead
	colPrompt
	colStep
	colSeqLen
	colIndices
	colScores
	colAttention
	colPredicted
	colPromptMass
	colCovered
	numColumns
)

var columnNames = [numColumns]string{"request_id", "layer_id", "head", "prompt_len", "step", "seq_len",
	"topk_indices", "scores", "attention_mass", "predicted_indices", "prompt_mass", "covered_mass"}

// metaKey is the key of the trace's metadata in a table's own.
const metaKey = "kvreplay"

// isOptional reports whether a source may lack a column.
func isOptional(column int) bool {
	return column == colHead || column == colSeqLen || column >= colScores
}

// needed and optional are the names of the columns that a source must have and of the others.
func needed() []string   { return columnsThat(func(c int) bool { return !isOptional(c) }) }
func optional() []string { return columnsThat(isOptional) }

func columnsThat(are func(column int) bool) (names []string) {
	for c, name := range columnNames {
		if are(c) {
			names = append(names, name)
		}
	}
	return names
}

// checkColumns holds the names that a table has against those it needs, and returns
// the names that are not read.
func checkColumns(names []string, o *Options) (ignored []string, err error) {
	for c, name := range columnNames {
		given := c == colRequest && o.RequestID != "" || c == colPrompt && o.PromptLen > 0
		if !isOptional(c) && !given && !slices.Contains(names, name) {
			return nil, fmt.Errorf("column %s is missing; found %v, expected %v (request_id and prompt_len may be given by --request-id and --prompt-len), and of %v those that there are", name, names, needed(), optional())
		}
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("column %s stands twice", name)
		}
		if !slices.Contains(columnNames[:], name) {
			ignored = append(ignored, name)
		}
	}
	return ignored, nil
}

// cells are the values of one row. Whole numbers are as wide as any source has them.
type cells struct {
	id    string // request_id
	hasID bool
	ints  [colSeqLen + 1]int64 // by column; request unused
	has   [colSeqLen + 1]bool  // neither absent nor null
	record
}

// reset empties the cells and keeps their memory.
func (c *cells) reset() {
	r := c.record
	*c = cells{record: record{indices: r.indices[:0], scores: r.scores[:0], wide: r.wide[:0], attention: r.attention[:0], promptMass: r.promptMass[:0]}}
}

// finish fills the record from the cells, and from flags where a column is absent.
func (c *cells) finish(o *Options) error {
	for i := colLayer; i <= colSeqLen; i++ {
		if v := c.ints[i]; c.has[i] && (v < math.MinInt32 || v > math.MaxInt32) {
			return fmt.Errorf("%s is %d, expected a value that int32 holds", columnNames[i], v)
		}
	}
	if !c.hasID {
		c.id = o.RequestID
	}
	switch {
	case o.RequestID != "" && c.id != o.RequestID:
		return fmt.Errorf("request_id is %q, but --request-id says %q", c.id, o.RequestID)
	case !c.has[colLayer] || !c.has[colStep]:
		return errors.New("layer_id or step is null, expected a value in every row")
	}
	if !c.has[colPrompt] {
		c.ints[colPrompt] = int64(o.PromptLen)
		if o.PromptLen == 0 {
			return errors.New("prompt_len is null, expected a value in every row")
		}
	}
	return c.lengths()
}

// lengths checks what the lengths of a row must fulfil, and fills the record.
func (c *cells) lengths() error {
	want := c.ints[colPrompt] + c.ints[colStep] + 1
	switch {
	case c.has[colSeqLen] && c.ints[colSeqLen] != want:
		return fmt.Errorf("seq_len is %d, expected prompt_len + step + 1 = %d", c.ints[colSeqLen], want)
	case want < 1 || want > math.MaxInt32:
		return fmt.Errorf("context of %d tokens (prompt_len + step + 1), expected 1 to 2^31 − 1", want)
	case len(c.scores) != 0 && len(c.scores) != len(c.indices):
		return fmt.Errorf("%d scores for %d topk_indices, expected one each", len(c.scores), len(c.indices))
	case len(c.attention) != 0 && len(c.attention) != len(c.indices):
		return fmt.Errorf("%d values in attention_mass for %d topk_indices, expected one each", len(c.attention), len(c.indices))
	}
	c.request, c.states = c.id, c.has[colPrompt]
	c.layer, c.step, c.seqLen, c.head = int32(c.ints[colLayer]), int32(c.ints[colStep]), int32(want), trace.NoHead
	if c.has[colHead] {
		if c.head = int32(c.ints[colHead]); c.head < 0 {
			return fmt.Errorf("head is %d, expected 0 or more, or null", c.head)
		}
	}
	return nil
}

// wholeNumber is a double as a whole number: pandas makes doubles of a column with nulls.
func wholeNumber(v float64) (int64, error) {
	if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
		return 0, fmt.Errorf("is %v, expected a whole number", v)
	}
	return int64(v), nil
}

// parseMeta reads the metadata that a table carries. M may be missing: whoever
// writes row by row does not know it.
func parseMeta(text string) (trace.Meta, error) {
	m, err := trace.ParseOpenMeta([]byte(text))
	if err != nil {
		return m, fmt.Errorf("key %q: %w", metaKey, err)
	}
	if m.Candidates < 0 || m.Candidates > math.MaxInt32/64 {
		return m, fmt.Errorf("key %q: metadata: candidates %d out of range", metaKey, m.Candidates)
	}
	return m, nil
}
