package trace

import (
	"errors"
	"fmt"
	"strings"
)

// Rules that a trace can break. Error.Rule holds one of them. `kvreplay validate` prints them and
// FORMAT.md numbers them.
const (
	RuleFile       = "file"        // not a readable Parquet file with rows: truncated, corrupt, empty
	RuleSchema     = "schema"      // a column is missing, unknown or of another type
	RuleMetadata   = "metadata"    // version or a field of the metadata is invalid, or the metadata is missing
	RuleKey        = "key"         // keys not strictly increasing, a stream split or repeated
	RuleSeqLen     = "seq_len"     // seq_len ≠ prompt_len + step + 1, or < 1
	RuleList       = "list"        // an empty list, or one longer than the metadata's M
	RuleIndex      = "index"       // an index < 0 or past the context
	RuleDistinct   = "distinct"    // an index twice in a list
	RuleOrder      = "order"       // order=index and not ascending
	RuleScore      = "score"       // NaN, infinite, rising under order=rank, or not parallel
	RuleMass       = "mass"        // attention mass outside [0, 1], or not parallel
	RulePredict    = "predicted"   // a predicted list breaks the index rules
	RulePromptMass = "prompt_mass" // masses of prompt blocks below 0, one too few or many, or not in a first row
	RuleDigest     = "digest"      // content or metadata do not match the stored digest or seal
	RuleChecksum   = "checksum"    // pages have no CRC and the file has no digest
)

// Error is a broken rule with its place. Fields that do not apply are -1 or nil.
type Error struct {
	Path     string
	RowGroup int
	Row      int64 // within the row group
	Stream   *Key
	Step     *int32
	Rule     string
	Err      error
}

// Error returns one line: file, row group, row, stream, step and the expected value.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Path)
	if e.RowGroup >= 0 {
		fmt.Fprintf(&b, ": row group %d", e.RowGroup)
		if e.Row >= 0 {
			fmt.Fprintf(&b, " row %d", e.Row)
		}
	}
	if e.Stream != nil {
		fmt.Fprintf(&b, ": %v", *e.Stream)
		if e.Step != nil {
			fmt.Fprintf(&b, " step %d", *e.Step)
		}
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// fileError is a broken rule of the file as a whole.
func fileError(path, rule string, format string, args ...any) *Error {
	return &Error{Path: path, RowGroup: -1, Row: -1, Rule: rule, Err: fmt.Errorf(format, args...)}
}

// streamError is a broken rule at row i of a stream.
func streamError(path string, s *StreamInfo, i int, step int32, rule string, format string, args ...any) *Error {
	key := s.Key
	return &Error{Path: path, RowGroup: s.RowGroup, Row: s.FirstRow + int64(i), Stream: &key, Step: &step,
		Rule: rule, Err: fmt.Errorf(format, args...)}
}

// ErrFolder is the error of a folder in the place of a trace.
var ErrFolder = errors.New("is a folder, expected a trace file (*.parquet)")

// ErrForeign marks the error of a file that is not a trace but may be imported with `kvreplay
// import`.
var ErrForeign = errors.New("`kvreplay import` makes traces of other files")

// errIndex is the error of key columns that differ from the stream index.
var errIndex = errors.New("the key columns differ from the stream index in the metadata (kvreplay.streams). Make the trace again, or remove the index")

// AsError returns the *Error in err's chain, or nil.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}
