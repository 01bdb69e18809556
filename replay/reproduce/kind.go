package reproduce

import "slices"

// Kind says what an agreement between a printed and a computed figure proves. Every line
// declares one. [Make] rejects a line without a kind.
type Kind string

// Kinds of judged lines, from the one that proves most to the one that proves least.
const (
	// Prediction: no constant is fitted to the table or figure.
	Prediction Kind = "prediction"
	// Transferred: the constants are fitted to other cells or tables.
	Transferred Kind = "transferred"
	// Tuned: as Transferred, but the calibration cells were chosen with this figure in view.
	Tuned Kind = "tuned"
	// Ordinal: a statement, such as a ranking or a trend, that holds or does not hold.
	Ordinal Kind = "ordinal"
	// Arithmetic: follows from numbers that the paper prints, up to their rounding.
	Arithmetic Kind = "exact arithmetic"
	// SelfCheck: the code against a reference of ours, usually a formula worked by hand.
	SelfCheck Kind = "self-check"
)

// Kinds of lines that are not judged.
const (
	// Fitted: a constant is fitted to this cell, so that it proves nothing.
	Fitted Kind = "fitted"
	// NotComputable: the figure does not follow from the paper's text. The note says why.
	NotComputable Kind = "not computable"
)

// definition is a kind with its meaning, for the legend of reports.
type definition struct {
	kind    Kind
	meaning string
}

// kinds are all kinds in the order of reports.
var kinds = []definition{
	{Prediction, "no constant is fitted to the table or figure"},
	{Transferred, "constants fitted to other cells or tables"},
	{Tuned, "as transferred, but the calibration cells were chosen with these figures in view"},
	{Ordinal, "a ranking or trend that holds or does not hold"},
	{Arithmetic, "follows from numbers that the paper prints"},
	{SelfCheck, "our code against our own reference, mostly worked by hand"},
	{Fitted, "a constant is fitted to this figure: not judged"},
	{NotComputable, "the paper's text does not determine it: not judged"},
}

// Judged reports whether lines of the kind can fail.
func (k Kind) Judged() bool { return k.valid() && k != Fitted && k != NotComputable }

func (k Kind) valid() bool {
	return slices.ContainsFunc(kinds, func(d definition) bool { return d.kind == k })
}
