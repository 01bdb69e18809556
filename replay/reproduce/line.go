package reproduce

import (
	"errors"
	"fmt"
	"math"
)

// Gate is the largest error that passes.
type Gate struct {
	Relative float64 // |ours − target| ÷ |target|, for example 0.04. 0 is no limit
	Absolute float64 // |ours − target| in the line's unit. 0 is no limit
}

// Target is the figure that a computed figure is compared with. The zero value is none.
type Target struct {
	value float64
	from  string
	set   bool
}

// Printed is a number as the paper prints it.
func Printed(v float64) Target { return Target{value: v, set: true} }

// Reference is a number that the paper does not print. From says how it was obtained.
func Reference(v float64, from string) Target { return Target{v, from, true} }

// Value returns the number, or NaN if there is none.
func (t Target) Value() float64 {
	if !t.set {
		return math.NaN()
	}
	return t.value
}

// Printed returns the number if the paper prints it, otherwise NaN.
func (t Target) Printed() float64 {
	if t.from != "" {
		return math.NaN()
	}
	return t.Value()
}

// Reference returns a number that the paper does not print, and how it was obtained. It
// returns NaN if the target is printed or missing.
func (t Target) Reference() (v float64, from string) {
	if t.from == "" {
		return math.NaN(), ""
	}
	return t.Value(), t.from
}

// Line is one figure of a table, or one statement about it. The functions below make lines.
type Line struct {
	Kind   Kind
	Item   string  // what the figure is, within its section: "batch 32, prompt 512, FlexGen"
	Unit   string  // of Target and Ours: "tokens/s". Empty for ratios, counts and statements
	Target Target  // what Ours is compared with
	Ours   float64 // the computed figure, NaN if there is none
	Gate   Gate    // required for every kind but Ordinal and NotComputable
	Holds  bool    // whether an ordinal line's statement holds in the computed figures
	Known  bool    // the reason why the line misses its gate is known: Note states it
	Note   string  // one short sentence, mostly the reason for a difference
}

// Error returns (ours − target) ÷ |target|. It returns NaN for statements, if one of the
// figures is missing, and if the target is 0.
func (l Line) Error() float64 {
	target := l.Target.Value()
	if target == 0 || l.Kind == Ordinal {
		return math.NaN()
	}
	return (l.Ours - target) / math.Abs(target)
}

// Passes reports whether the line is within its gate. A statement passes if it holds. A
// figure that is not computable always passes. A missing figure of another kind fails.
func (l Line) Passes() bool {
	switch l.Kind {
	case NotComputable:
		return true
	case Ordinal:
		return l.Holds
	}
	target := l.Target.Value()
	if math.IsNaN(target) || math.IsNaN(l.Ours) || math.IsInf(l.Ours, 0) {
		return false
	}
	if g := l.Gate.Relative; g > 0 && !(math.Abs(l.Error()) <= g) {
		return false
	}
	if g := l.Gate.Absolute; g > 0 && !(math.Abs(l.Ours-target) <= g) {
		return false
	}
	return true
}

// Unless returns the line as a known miss with a reason if it misses its gate. A line that
// passes is returned unchanged.
func (l Line) Unless(why string) Line {
	if !l.Passes() {
		l.Known, l.Note = true, why
	}
	return l
}

// check reports a line that declares no kind, or lacks something that its kind needs.
func (l *Line) check() error {
	target := l.Target.Value()
	_, from := l.Target.Reference()
	switch k := l.Kind; {
	case !k.valid():
		return fmt.Errorf("kind %q is unknown, expected one of package reproduce's kinds", string(k))
	case (l.Known || k == NotComputable) && l.Note == "":
		return errors.New("no reason is given why it misses")
	case k == Ordinal || k == NotComputable:
		return nil
	case math.IsNaN(target):
		return errors.New("there is neither a printed figure nor a reference to compare with")
	case !(l.Gate.Relative > 0 || l.Gate.Absolute > 0):
		return errors.New("there is no gate, so that any figure would pass")
	case k == SelfCheck && from == "":
		return errors.New("a self-check compares with a reference, not with a printed figure")
	}
	return nil
}

// None stands for a missing figure.
var None = math.NaN()

// equal is the largest relative difference that rounding in the computer explains.
const equal = 1e-9

// Compare is a line that compares a computed figure with a target.
func Compare(kind Kind, item, unit string, target Target, ours float64, gate Gate) Line {
	return Line{Kind: kind, Item: item, Unit: unit, Target: target, Ours: ours, Gate: gate}
}

// Same is a figure that follows from numbers that the paper prints, to 1e-9.
func Same(item, unit string, printed, ours float64) Line {
	return Compare(Arithmetic, item, unit, Printed(printed), ours, Gate{Relative: equal})
}

// Check is a self-check against a reference of ours, to 1e-9.
func Check(item, unit string, reference Target, ours float64) Line {
	return Compare(SelfCheck, item, unit, reference, ours, Gate{Relative: equal})
}

// ByHand is a self-check against a figure that was worked by hand from the paper's text.
func ByHand(item, unit string, hand, ours float64) Line {
	return Check(item, unit, Reference(hand, "worked by hand from the paper's text"), ours)
}

// Statement is an ordinal line. Ours is the computed figure that decides it.
func Statement(item, unit string, ours float64, holds bool) Line {
	return Line{Kind: Ordinal, Item: item, Unit: unit, Ours: ours, Holds: holds}
}

// Absent is a figure that is not computable, and why.
func Absent(item, unit string, target Target, why string) Line {
	return Line{Kind: NotComputable, Item: item, Unit: unit, Target: target, Ours: None, Note: why}
}
