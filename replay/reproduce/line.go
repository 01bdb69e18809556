package reproduce

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Kind is the strength of the proof if a printed and a computed figure agree. Every line has one.
type Kind string

// Kinds of judged lines, from the one that proves most to the one that proves least.
const (
	// Prediction has no constant that is fitted to the table or figure.
	Prediction Kind = "prediction"
	// Transferred has constants that are fitted to other cells or tables.
	Transferred Kind = "transferred"
	// Tuned is Transferred with calibration cells that were chosen in view of this figure.
	Tuned Kind = "tuned"
	// Ordinal is a statement, such as a ranking or a trend, that holds or does not hold.
	Ordinal Kind = "ordinal"
	// Arithmetic follows from numbers that the paper prints, up to their rounding.
	Arithmetic Kind = "exact arithmetic"
	// SelfCheck compares the code with a reference of ours, usually a formula worked by hand.
	SelfCheck Kind = "self-check"
)

// Kinds of lines that are not judged.
const (
	// Fitted is a cell that a constant is fitted to, so it proves nothing.
	Fitted Kind = "fitted"
	// NotComputable does not follow from the paper's text. The note states the reason.
	NotComputable Kind = "not computable"
)

// kinds are all kinds with their meaning, in the order of reports.
var kinds = []struct {
	kind    Kind
	meaning string
}{
	{Prediction, "no constant is fitted to the table or figure"},
	{Transferred, "constants fitted to other cells or tables"},
	{Tuned, "as transferred, but the choice of calibration cells depended on these figures"},
	{Ordinal, "a ranking or trend, which holds or does not"},
	{Arithmetic, "follows from numbers that the paper prints"},
	{SelfCheck, "our code against our own reference, mostly computed by hand"},
	{Fitted, "a constant is fitted to this figure: not judged"},
	{NotComputable, "the paper's text does not determine it: not judged"},
}

// Judged reports whether lines of the kind can fail.
func (k Kind) Judged() bool {
	return slices.Contains([]Kind{Prediction, Transferred, Tuned, Ordinal, Arithmetic, SelfCheck}, k)
}

// Verdict is the result of a line.
type Verdict string

// Verdicts.
const (
	Within    Verdict = "within"        // within its gate
	Holds     Verdict = "holds"         // the statement holds
	NotJudged Verdict = "not judged"    // fitted, or not computable
	KnownMiss Verdict = "known miss"    // past its gate, or a statement that does not hold, with the reason
	PastGate  Verdict = "past its gate" // the same without a reason, which is an error
)

// Number is a figure. NaN is a missing figure: null in JSON, empty in CSV.
type Number float64

// None is a missing figure.
var None = math.NaN()

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if v := float64(n); !math.IsNaN(v) && !math.IsInf(v, 0) {
		return json.Marshal(v)
	}
	return []byte("null"), nil
}

// String returns the number with all its digits, or "" if it is missing.
func (n Number) String() string {
	if math.IsNaN(float64(n)) {
		return ""
	}
	return strconv.FormatFloat(float64(n), 'g', -1, 64)
}

// Line is one figure of a table, or one statement about it.
type Line struct {
	Item      string  `json:"item"` // the figure's name within its section: "batch 32, prompt 512, FlexGen"
	Unit      string  `json:"unit"` // "tokens/s". Empty for ratios, counts and statements
	Kind      Kind    `json:"kind"`
	Printed   Number  `json:"printed"`        // the figure as the paper prints it
	Reference Number  `json:"reference"`      // a figure to compare with that the paper does not print
	From      string  `json:"reference_from"` // how the reference was obtained
	Ours      Number  `json:"ours"`           // our computed figure
	Error     Number  `json:"error"`          // (ours − target) ÷ |target|, for figures with a target other than 0
	Relative  Number  `json:"gate_relative"`  // largest |error| that passes, for example 0.04
	Absolute  Number  `json:"gate_absolute"`  // largest |ours − target| that passes, in the line's unit
	Result    Verdict `json:"result"`
	Note      string  `json:"note"` // usually the reason for a difference
	// Interval has the ends of the interval that our figure states, in the line's unit. Zeros state
	// none.
	Interval [2]float64 `json:"interval,omitzero"`
}

// Inside reports whether the paper's figure lies in the interval that ours states.
func (l *Line) Inside() bool {
	v := l.target()
	return l.Interval[0] <= v && v <= l.Interval[1]
}

// target returns the figure that ours is compared with, NaN if there is none.
func (l *Line) target() float64 {
	if !math.IsNaN(float64(l.Printed)) {
		return float64(l.Printed)
	}
	return float64(l.Reference)
}

// passes reports whether the line is within its gates. A missing figure fails.
func (l *Line) passes() bool {
	if d := math.Abs(float64(l.Ours) - l.target()); math.IsNaN(d) || math.IsInf(d, 0) || d > float64(l.Absolute) {
		return false
	}
	return math.IsNaN(float64(l.Relative)) || math.Abs(float64(l.Error)) <= float64(l.Relative)
}

// complete sets the error and the verdict. holds reports whether a statement holds. A reason, if
// any, becomes the note of a line that misses. A fitted cell past its gate is an error too, because
// the code no longer computes the figure that the constant was fitted with.
func (l *Line) complete(holds bool, reason string) {
	l.Error = Number(None)
	if target := l.target(); target != 0 && l.Kind != Ordinal {
		l.Error = (l.Ours - Number(target)) / Number(math.Abs(target))
	}
	passes := l.Kind == NotComputable || l.Kind == Ordinal && holds || l.Kind != Ordinal && l.passes()
	switch {
	case !passes && reason != "":
		l.Result, l.Note = KnownMiss, reason
	case !passes:
		l.Result = PastGate
	case !l.Kind.Judged():
		l.Result = NotJudged
	case l.Kind == Ordinal:
		l.Result = Holds
	default:
		l.Result = Within
	}
}

// check reports a line that lacks a field that its kind requires.
func (l *Line) check() error {
	switch {
	case !l.Kind.Judged() && l.Kind != Fitted && l.Kind != NotComputable:
		return fmt.Errorf("unknown kind %q: expected a kind of package reproduce", string(l.Kind))
	case l.Kind == NotComputable && l.Note == "":
		return errors.New("it misses without a reason")
	case l.Kind == Ordinal || l.Kind == NotComputable:
		return nil
	case math.IsNaN(l.target()):
		return errors.New("it has neither a printed figure nor a reference")
	case !(l.Relative > 0 || l.Absolute > 0):
		return errors.New("it has no gate, so any figure would pass")
	case l.Kind == SelfCheck && l.From == "":
		return errors.New("a self-check compares with a reference, not with a printed figure")
	}
	return nil
}
