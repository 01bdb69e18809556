// Package links compares the transfer models with every published measurement in the data files
// of links and drives.
package links

import (
	_ "embed"
	"fmt"

	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/transfer/fit"
)

//go:embed paper.yaml
var data string

// Paper returns the collection of measurements, which has many authors. The measured points are in
// the data files of replay/hardware.
func Paper() reproduce.Paper {
	return reproduce.Paper{
		Name:     "links",
		Citation: "Measured points of host links and drives, each with its public source in replay/transfer/POINTS.md.",
		Data:     data,
		Study: func(s *reproduce.Study) {
			s.Compute(func() { compare(s) }, "predicted", "left-out", "constants")
		},
	}
}

func compare(s *reproduce.Study) {
	for _, r := range reproduce.Must(fit.Compare(s.Library)) {
		if r.Own() {
			continue
		}
		atMost := ""
		if r.AtMost {
			atMost = "at most "
		}
		// Times of 1 MiB, because the rates are of requests that differ in size by a factor of 10⁶.
		micros := func(rate float64) float64 { return (1 << 20) / rate * 1e6 }
		name := fmt.Sprintf("%s %s, %s, %s (%s%.3g GB/s)", r.Item, r.Series, r.Path, r.Point, atMost, r.Measured/1e9)
		point := reproduce.Row{"measured": micros(r.Measured), "why": r.Why, "point": name}
		switch {
		case r.Model == nil:
			s.Section("predicted").Absent("point", point)
		case r.LeftOut != nil:
			s.Section("left-out").Set("point", micros(r.Measured)*(1+*r.LeftOut), point)
		case r.Sets:
			s.Section("constants").Set("point", micros(*r.Model), point)
		default:
			s.Section("predicted").Set("point", micros(*r.Model), point)
		}
	}
}
