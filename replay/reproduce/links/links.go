// Package links holds the transfer models against every measurement in the data files of
// links and drives.
package links

import (
	"context"
	"fmt"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/transfer/fit"
)

// Paper is the collection of measurements, which has many authors.
func Paper() reproduce.Paper {
	return reproduce.Paper{
		Name:     "links",
		Citation: "Measured points of host links and drives, each with its public source in replay/transfer/POINTS.md.",
		Parts:    1,
		Sections: func(_ context.Context, in reproduce.Inputs) ([]reproduce.Section, error) {
			lib, err := hardware.Load(in.Hardware)
			if err != nil {
				return nil, err
			}
			defer in.Done()
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
		Method: "Each point is timed with the constants that the other points of its path give (replay/transfer/fit), by the curve that prices every transfer (replay/transfer)."}
	predicted := reproduce.Section{Name: "predicted", Title: "Points that no constant was fitted to",
		Method: "The link or drive with the constants of its data file, which come from other series, times the request that was measured."}
	sets := reproduce.Section{Name: "constants", Title: "Points that constants are taken from",
		Method: "The same, of series that a constant of the path is taken from: they say that the curve's form can meet them, not that it predicts."}
	for i := range rows {
		r := &rows[i]
		l := lineOf(r)
		switch l.Kind {
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

// lineOf compares a point in time: µs a MiB.
func lineOf(r *fit.Comparison) reproduce.Line {
	micros := func(rate float64) float64 { return reference / rate * 1e6 }
	atMost := ""
	if r.AtMost {
		atMost = "at most "
	}
	item, unit := fmt.Sprintf("%s %s, %s, %s (%s%.3g GB/s)", r.Item, r.Series, r.Path, r.Point, atMost, r.Measured/1e9), "us/MiB"
	target := reproduce.Reference(micros(r.Measured), "the time of 1 MiB at the published rate, which is in brackets")
	kind, ours := reproduce.Prediction, 0.
	switch {
	case r.Model == nil:
		return reproduce.Absent(item, unit, target, "the source does not say the block's size")
	case r.LeftOut != nil:
		kind, ours = reproduce.Transferred, target.Value()*(1+*r.LeftOut)
	case r.Sets:
		kind, ours = reproduce.Fitted, micros(*r.Model)
	default:
		ours = micros(*r.Model)
	}
	l := reproduce.Compare(kind, item, unit, target, ours, reproduce.Gate{Relative: fit.Tolerance})
	l.Known, l.Note = r.Why != "", r.Why
	return l
}
