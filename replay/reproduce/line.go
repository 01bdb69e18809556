package reproduce

import "math"

// Status says what an agreement is worth.
type Status string

// Statuses, the strongest first.
const (
	// Exact: follows from the paper's own numbers; equal up to the rounding of what was printed.
	Exact Status = "exact"
	// Worked: the paper's formula on figures of our choice, by hand; equal up to rounding.
	Worked Status = "by hand"
	// Predicted: computed without any constant fitted to this table.
	Predicted Status = "predicted"
	// Transferred: computed with constants that were fitted to other cells.
	Transferred Status = "transferred"
	// Fitted: a constant was fitted to this very cell; says nothing about the model.
	Fitted Status = "fitted"
	// Ordinal: a statement (who is faster, what rises) that holds or does not.
	Ordinal Status = "ordinal"
	// Missing: cannot be reproduced; the line's note says why.
	Missing Status = "not reproducible"
)

// Gate is the greatest error that is let pass. The zero value lets all pass.
type Gate struct {
	Relative float64 // |ours − printed| ÷ |printed|, e.g. 0.04
	Absolute float64 // |ours − printed|, in the line's unit; both, where both are given
}

// Line is one figure of a table, or one statement about it.
type Line struct {
	Item    string  // what it is within the section: "batch 32, prompt 512, FlexGen"
	Unit    string  // of Printed and Ours: "tokens/s"; empty for ratios, counts and statements
	Printed float64 // the paper's figure; NaN where it printed none
	Ours    float64 // ours; NaN where there is none
	Status  Status
	Gate    Gate
	Holds   bool   // of an ordinal line: whether the statement holds in our figures
	Known   bool   // a gate that is not met, with the reason in Note: shown as such, and not an error
	Note    string // one short clause: where it differs and why
}

// Error returns (ours − printed) ÷ |printed|, or NaN where one of them is missing or the
// printed one is 0.
func (l Line) Error() float64 {
	if l.Printed == 0 {
		return math.NaN()
	}
	return (l.Ours - l.Printed) / math.Abs(l.Printed)
}

// Passes reports whether the line is within its gate. Statements pass where they hold;
// what cannot be reproduced passes always. A missing figure of any other status does not.
func (l Line) Passes() bool {
	switch l.Status {
	case Missing:
		return true
	case Ordinal:
		return l.Holds
	}
	if math.IsNaN(l.Printed) || math.IsNaN(l.Ours) || math.IsInf(l.Ours, 0) {
		return false
	}
	if g := l.Gate.Relative; g > 0 && !(math.Abs(l.Error()) <= g) {
		return false
	}
	if g := l.Gate.Absolute; g > 0 && !(math.Abs(l.Ours-l.Printed) <= g) {
		return false
	}
	return true
}

// None stands for a figure that there is not.
var None = math.NaN()

// equal is how closely figures agree that differ by the computer's rounding alone.
const equal = 1e-9

// Same is a line whose figure follows from the paper's own numbers, to 1e-9.
func Same(item, unit string, printed, ours float64) Line {
	return Line{Item: item, Unit: unit, Printed: printed, Ours: ours, Status: Exact, Gate: Gate{Relative: equal}}
}

// ByHand is a line whose first figure was worked by hand from the paper's text, to 1e-9.
func ByHand(item, unit string, hand, ours float64) Line {
	l := Same(item, unit, hand, ours)
	l.Status = Worked
	return l
}

// Statement is an ordinal line with a figure of ours that it is judged by.
func Statement(item, unit string, ours float64, holds bool) Line {
	return Line{Item: item, Unit: unit, Printed: None, Ours: ours, Status: Ordinal, Holds: holds}
}

// Absent is a line that cannot be reproduced, and why; printed is None where there is no
// figure.
func Absent(item, unit string, printed float64, why string) Line {
	return Line{Item: item, Unit: unit, Printed: printed, Ours: None, Status: Missing, Note: why}
}
