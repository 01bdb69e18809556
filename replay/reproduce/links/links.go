// Package links holds the transfer models against every measurement in the data files of
// links and drives.
package links

import (
	"context"
	"fmt"
	"math"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/transfer/fit"
)

// Paper is the collection of measurements, which has many authors.
func Paper() reproduce.Paper {
	return reproduce.Paper{
		Name:     "links",
		Citation: "Measured points of host links and drives, each with its public source in replay/transfer/POINTS.md.",
		Sections: func(_ context.Context, in reproduce.Inputs) ([]reproduce.Section, error) {
			lib, err := hardware.Load(in.Hardware)
			if err != nil {
				return nil, err
			}
			return Of(lib)
		},
	}
}

// Of are the sections of a library's links and drives.
func Of(lib *hardware.Library) ([]reproduce.Section, error) {
	rows, err := fit.Compare(lib)
	if err != nil {
		return nil, err
	}
	left := reproduce.Section{Name: "left-out", Title: "Points left out of the fit of their path",
		Method: "Each point is timed with the constants that the other points of its path give (replay/transfer/fit), by the curve that prices every transfer (replay/transfer). Times, the published rate in brackets."}
	predicted := reproduce.Section{Name: "predicted", Title: "Points that no constant was fitted to",
		Method: "The link or drive with the constants of its data file, which come from other series, times the request that was measured."}
	sets := reproduce.Section{Name: "constants", Title: "Points that constants are taken from",
		Method: "The same, of series that a constant of the path is taken from: they say that the curve's form can meet them, not that it predicts."}
	for i := range rows {
		r := &rows[i]
		l := lineOf(r)
		switch l.Status {
		case reproduce.Transferred:
			left.Lines = append(left.Lines, l)
		case reproduce.Fitted:
			sets.Lines = append(sets.Lines, l)
		default:
			predicted.Lines = append(predicted.Lines, l)
		}
	}
	return []reproduce.Section{left, predicted, sets}, nil
}

// reference is what times are given of, bytes: the rates are of requests that differ in
// size by a factor of 10⁶.
const reference = 1 << 20

// lineOf is a point in time: µs a MiB.
func lineOf(r *fit.Comparison) reproduce.Line {
	micros := func(rate float64) float64 { return reference / rate * 1e6 }
	l := reproduce.Line{Unit: "us/MiB", Printed: micros(r.Measured), Ours: math.NaN(), Known: r.Why != "", Note: r.Why, Gate: reproduce.Gate{Relative: fit.Tolerance},
		Item: fmt.Sprintf("%s %s, %s, %s (%.3g GB/s)", r.Item, r.Series, r.Path, r.Point, r.Measured/1e9)}
	switch {
	case r.Model == nil:
		l.Status, l.Note = reproduce.Missing, "the source does not say the block's size"
		return l
	case r.LeftOut != nil:
		l.Status, l.Ours = reproduce.Transferred, l.Printed*(1+*r.LeftOut)
	case r.Sets:
		l.Status, l.Ours = reproduce.Fitted, micros(*r.Model)
	default:
		l.Status, l.Ours = reproduce.Predicted, micros(*r.Model)
	}
	if r.AtMost {
		l.Item = fmt.Sprintf("%s %s, %s, %s (at most %.3g GB/s)", r.Item, r.Series, r.Path, r.Point, r.Measured/1e9)
	}
	return l
}
