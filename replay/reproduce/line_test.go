package reproduce_test

import (
	"math"
	"testing"

	"github.com/kvreplay/kvreplay/replay/reproduce"
)

func TestPasses(t *testing.T) {
	within := reproduce.Gate{Relative: 0.04}
	for _, c := range []struct {
		name string
		line reproduce.Line
		want bool
	}{
		{"within", reproduce.Compare(reproduce.Transferred, "", "", reproduce.Printed(100), 103.9, within), true},
		{"beyond", reproduce.Compare(reproduce.Transferred, "", "", reproduce.Printed(100), 95.9, within), false},
		{"negative printed", reproduce.Compare(reproduce.Prediction, "", "", reproduce.Printed(-100), -103, within), true},
		{"zero printed", reproduce.Compare(reproduce.Prediction, "", "", reproduce.Printed(0), 1, within), false},
		{"no target", reproduce.Compare(reproduce.Prediction, "", "", reproduce.Target{}, 0, within), false},
		{"reference", reproduce.Compare(reproduce.SelfCheck, "", "", reproduce.Reference(100, "by hand"), 103.9, within), true},
		{"absolute", reproduce.Compare(reproduce.Arithmetic, "", "", reproduce.Printed(1.46), 1.471, reproduce.Gate{Absolute: 0.01}), false},
		{"no figure", reproduce.Compare(reproduce.Prediction, "", "", reproduce.Printed(1), math.NaN(), within), false},
		{"not computable", reproduce.Absent("", "", reproduce.Printed(1), "not stated"), true},
		{"statement", reproduce.Statement("", "", math.NaN(), true), true},
		{"false statement", reproduce.Statement("", "", 1, false), false},
	} {
		if got := c.line.Passes(); got != c.want {
			t.Errorf("%s: passes = %v, want %v", c.name, got, c.want)
		}
	}
}
