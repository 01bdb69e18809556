package kernel

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/memo"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

//go:embed data
var bundled embed.FS

// measured are the files of published measurements.
var measured = []string{"vidur.csv", "llmservingsim.csv", "llmservingsim-rtx-pro-6000.csv",
	"llmservingsim-fp16.csv", "llmservingsim-sparse.csv"}

// Bundled returns the published measurements.
func Bundled(lib *hardware.Library) ([]Point, error) {
	var all []Point
	for _, name := range measured {
		f, err := bundled.Open(path.Join("data", name))
		if err != nil {
			return nil, err
		}
		rows, err := ReadCSV(f, "bundled:"+name)
		if err != nil {
			return nil, err
		}
		points, err := Points(rows, "bundled:"+name, lib)
		if err != nil {
			return nil, err
		}
		all = append(all, points...)
	}
	return all, nil
}

// Estimate returns the estimator of a GPU with the parameters that the published measurements
// determine: those of the device if it was measured, else those of all devices.
func Estimate(g *hardware.GPU, lib *hardware.Library) (*Estimator, error) {
	all, err := bundledParameters()
	if err != nil {
		return nil, err
	}
	d := NewDevice(g)
	p, measured := all[g.Name]
	if !measured {
		return NewEstimator(d, all[shared], nil), nil
	}
	points, err := Bundled(lib)
	if err != nil {
		return nil, err
	}
	mine, _ := slice.Partition(points, func(p *Point) bool { return p.Measurement.Device == g.Name })
	return NewEstimator(d, p, mine), nil
}

// EstimateFrom returns the estimator of a GPU that is fitted to its measurements among points.
func EstimateFrom(g *hardware.GPU, points []Point) (*Estimator, error) {
	mine, _ := slice.Partition(points, func(p *Point) bool { return p.Measurement.Device == g.Name })
	if len(mine) == 0 {
		devices := slice.Distinct(points, func(p *Point) string { return p.Measurement.Device })
		slices.Sort(devices)
		return nil, fmt.Errorf("no measurement of %s, only of %s: choose a machine with that GPU",
			g.Name, strings.Join(devices, ", "))
	}
	all, err := bundledParameters()
	if err != nil {
		return nil, err
	}
	return Learn(NewDevice(g), all[shared], mine), nil
}

// Source returns the kernel model of a GPU, nil for none.
type Source func(g *hardware.GPU) (*Estimator, error)

// Fitted returns the source of Estimate. Each GPU is fitted once.
func Fitted(lib *hardware.Library) Source {
	return memo.Func(func(g *hardware.GPU) (*Estimator, error) { return Estimate(g, lib) })
}

// FittedTo returns the source of EstimateFrom. Errors begin with the name of the points. Each GPU is
// fitted once.
func FittedTo(points []Point, name string) Source {
	return memo.Func(func(g *hardware.GPU) (*Estimator, error) {
		e, err := EstimateFrom(g, points)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return e, nil
	})
}

// None is the source without a kernel model.
func None(*hardware.GPU) (*Estimator, error) { return nil, nil }

// Shared returns the parameters that all published measurements determine together.
func Shared() (Parameters, error) {
	all, err := bundledParameters()
	return all[shared], err
}

// bundledParameters reads the parameters of data/parameters.csv. A test holds them current.
func bundledParameters() (map[string]Parameters, error) {
	f, err := bundled.Open("data/parameters.csv")
	if err != nil {
		return nil, err
	}
	return readParameters(f)
}
