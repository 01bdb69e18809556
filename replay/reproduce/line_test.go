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
		{"within", reproduce.Line{Printed: 100, Ours: 103.9, Status: reproduce.Transferred, Gate: within}, true},
		{"beyond", reproduce.Line{Printed: 100, Ours: 95.9, Status: reproduce.Transferred, Gate: within}, false},
		{"negative printed", reproduce.Line{Printed: -100, Ours: -103, Status: reproduce.Predicted, Gate: within}, true},
		{"zero printed", reproduce.Line{Ours: 1, Status: reproduce.Predicted, Gate: within}, false},
		{"absolute", reproduce.Line{Printed: 1.46, Ours: 1.471, Status: reproduce.Exact, Gate: reproduce.Gate{Absolute: 0.01}}, false},
		{"no figure", reproduce.Line{Printed: 1, Ours: math.NaN(), Status: reproduce.Predicted}, false},
		{"not reproducible", reproduce.Line{Printed: 1, Ours: math.NaN(), Status: reproduce.Missing}, true},
		{"statement", reproduce.Line{Printed: math.NaN(), Ours: math.NaN(), Status: reproduce.Ordinal, Holds: true}, true},
		{"false statement", reproduce.Line{Status: reproduce.Ordinal}, false},
	} {
		if got := c.line.Passes(); got != c.want {
			t.Errorf("%s: passes = %v, want %v", c.name, got, c.want)
		}
	}
}
