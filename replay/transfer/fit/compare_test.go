package fit

import (
	"bytes"
	"flag"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

var update = flag.Bool("update", false, "rewrite the table in POINTS.md")

func comparisons(t *testing.T) []Comparison {
	t.Helper()
	lib, err := hardware.Load("")
	fatal.If(t, err)
	rows, err := Compare(lib)
	fatal.If(t, err)
	return rows
}

// All fitted points are within 15 % when left out, except for those whose file states a reason. All
// points with a reason are missed.
func TestWithinTolerance(t *testing.T) {
	fitted := 0
	for _, r := range comparisons(t) {
		if r.Missed() != (r.Why != "") {
			t.Errorf("%s %s, %s: error %s, left out %s, why %q", r.Item, r.Series, r.Point, percent(r.Error), percent(r.LeftOut), r.Why)
		}
		if r.LeftOut != nil {
			fitted++
		}
		if r.AtMost && r.Error != nil {
			t.Errorf("%s %s: the bound %v does not hold", r.Item, r.Series, r.Measured)
		}
	}
	if fitted < 40 {
		t.Errorf("%d points are left out of a fit", fitted)
	}
}

// A kernel without fitted constants is predicted from the bytes that it keeps in flight.
func TestPredictedKernel(t *testing.T) {
	found := 0
	for _, r := range comparisons(t) {
		if r.Series == "register-h2d" {
			found++
			if r.LeftOut != nil || math.Abs(*r.Error) > .05 {
				t.Errorf("%s is off by %s", r.Point, percent(r.Error))
			}
		}
	}
	if found != 3 {
		t.Errorf("%d points, expected 3", found)
	}
}

// alike reports whether two texts are equal except for the last digits of figures. Fused
// multiply-adds of other machines may round them differently.
func alike(a, b string) bool {
	as, bs := strings.Fields(a), strings.Fields(b)
	if len(as) != len(bs) {
		return false
	}
	for i := range as {
		x, errX := strconv.ParseFloat(as[i], 64)
		y, errY := strconv.ParseFloat(bs[i], 64)
		if as[i] != bs[i] && (errX != nil || errY != nil || math.Abs(x-y) > .2+.01*math.Abs(x)) {
			return false
		}
	}
	return true
}

// POINTS.md has the table that the program prints.
func TestPointsAreCurrent(t *testing.T) {
	const path = "../POINTS.md"
	var b bytes.Buffer
	fatal.If(t, WriteComparisonsMarkdown(&b, comparisons(t)))
	text, err := os.ReadFile(path)
	fatal.If(t, err)
	before, rest, ok1 := strings.Cut(string(text), "rewrites it -->\n")
	_, after, ok2 := strings.Cut(rest, "<!-- end of points")
	if !ok1 || !ok2 {
		t.Fatal("POINTS.md has lost the marks of its table")
	}
	want := before + "rewrites it -->\n" + b.String() + "<!-- end of points" + after
	if *update {
		fatal.If(t, os.WriteFile(path, []byte(want), 0o644))
	} else if !alike(want, string(text)) {
		t.Errorf("POINTS.md is not what the models say now; go test ./replay/transfer/fit -run Points -update rewrites it")
	}
}

// The line below the table uses the singular for one point, and omits blocks if there are none.
// Series of one path and direction are fitted together, separately for each direction.
func TestFittedPaths(t *testing.T) {
	lib, err := hardware.Load("")
	fatal.If(t, err)
	bundled, err := lib.Link("gb300-c2c")
	fatal.If(t, err)
	l := *bundled
	l.Series = nil
	for _, way := range []struct {
		direction string
		fits      bool
	}{{"h2d", true}, {"d2h", true}, {"d2h", false}, {"h2d", true}} {
		for _, s := range bundled.Series {
			if s.Name == "tma-h2d" {
				s.Direction, s.Fits = way.direction, way.fits
				l.Series = append(l.Series, s)
			}
		}
	}
	fitted, n := FittedPaths(&l), len(l.Series[0].Points)
	if len(fitted) != 2 || fitted[0].Direction != "h2d" || len(fitted[0].Points) != 2*n || fitted[1].Direction != "d2h" || len(fitted[1].Points) != n {
		t.Errorf("%+v of %d points a series", fitted, n)
	}
	if r := fitted[0].Points[0].Request; r.Launches != 8 || r.Descriptors != 32768 || r.Bytes != 32768*512 {
		t.Errorf("the first point is %+v", r)
	}
}

func TestSummary(t *testing.T) {
	near, far := 0.02, 1.0
	for want, rows := range map[string][]Comparison{
		"1 point. Within 15 %: 1 of 1 left out of a fit, 0 of 0 predicted without a fit, 0 of 0 that set a constant.": {{LeftOut: &near}},
		"3 points. Within 15 %: 0 of 0 left out of a fit, 0 of 1 predicted without a fit, 1 of 1 that set a constant. 1 have blocks of a size that the source does not state.": {
			{Model: &far, Error: &far}, {Model: &far, Error: &near, Sets: true}, {}},
	} {
		if got := summary(rows); got != want {
			t.Errorf("%s, expected %s", got, want)
		}
	}
}
