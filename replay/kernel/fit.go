package kernel

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Point is a measured kernel.
type Point struct {
	*Measurement
	Kernel  Kernel
	Device  *Device
	Seconds float64 // measured, with half a step of the clock that cut it
}

// Points finds the shapes and devices of measurements. Errors name the line in the file.
func Points(all []Measurement, file string, lib *hardware.Library) ([]Point, error) {
	points := make([]Point, 0, len(all))
	devices, models := map[string]*Device{}, map[string]*hardware.Model{}
	for i := range all {
		m := &all[i]
		if devices[m.Device] == nil {
			item, err := lib.Item(hardware.KindGPU, m.Device)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, m.Line, err)
			}
			devices[m.Device] = NewDevice(item.(*hardware.GPU))
		}
		if models[m.Model] == nil {
			model, err := lib.Model(m.Model)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, m.Line, err)
			}
			models[m.Model] = model
		}
		k, err := m.Kernel(models[m.Model])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, m.Line, err)
		}
		d := devices[m.Device]
		m.Device, m.Model = d.Name, models[m.Model].Name // which may have been aliases
		if devices[m.Device] == nil {
			devices[m.Device] = d
		}
		points = append(points, Point{m, k, d, m.Microseconds*1e-6 + k.Software.Resolution/2})
	}
	return points, nil
}

// Constants of the fit. An error below bend counts squared, a larger one linearly. The prior pulls
// parameters to their start: the factor e^spread weighs as much as one error of bend. Rounding of
// the profiler's clock adds to the error of short kernels.
const (
	bend       = 0.1
	spread     = 0.7
	iterations = 40
)

// Fit returns the parameters with the least soft errors of log times. Each device has the same
// weight. Parameters of groups without points stay at start. It is deterministic.
func Fit(points []Point, start Parameters) Parameters {
	for g := range groupCount {
		mine := slice.Filter(points, func(p Point) bool { return groupOf(p.Kernel.Kind) == g })
		if len(mine) > 0 {
			f := newFitting(mine, g, start)
			start = f.solve()
		}
	}
	return start
}

// Start returns the parameters from which a fit to all measurements starts.
func Start() (p Parameters) {
	for i := range Definitions {
		p[i] = Definitions[i].Start
	}
	return p
}

// fitting fits the parameters of one group.
type fitting struct {
	points []Point
	weight []float64
	free   []int // parameters
	start  Parameters
}

func newFitting(points []Point, g group, start Parameters) *fitting {
	f := &fitting{points: points, start: start}
	count := map[string]float64{}
	for _, p := range points {
		count[p.Measurement.Device]++
	}
	for _, p := range points {
		rounding := p.Kernel.Software.Resolution / math.Sqrt(12) / p.Seconds
		noise := bend / math.Hypot(bend, 2*rounding)
		f.weight = append(f.weight, noise*math.Sqrt(float64(len(points))/float64(len(count))/count[p.Measurement.Device]))
	}
	for i := range Definitions {
		if Definitions[i].group == g {
			f.free = append(f.free, i)
		}
	}
	return f
}

// at returns parameters at logs relative to the start, within their bounds.
func (f *fitting) at(x []float64) Parameters {
	p := f.start
	for j, i := range f.free {
		p[i] = min(Definitions[i].Most, max(Definitions[i].Least, p[i]*math.Exp(x[j])))
	}
	return p
}

// residuals are the log errors of the points, and then those of the prior, in units of bend.
func (f *fitting) residuals(x []float64) []float64 {
	p := f.at(x)
	r := make([]float64, 0, len(f.points)+len(x))
	for i := range f.points {
		q := &f.points[i]
		r = append(r, f.weight[i]*math.Log(p.Seconds(q.Device, &q.Kernel)/q.Seconds)/bend)
	}
	for _, v := range x {
		r = append(r, v/spread)
	}
	return r
}

// loss is the sum of soft errors: 2·(√(1+r²) − 1).
func loss(r []float64) (sum float64) {
	return slice.Sum(r, func(v float64) float64 { return 2 * (math.Sqrt(1+v*v) - 1) })
}

// solve takes damped Gauss-Newton steps. Each weighs residuals by the slope of their soft error.
func (f *fitting) solve() Parameters {
	n := len(f.free)
	x := make([]float64, n)
	r := f.residuals(x)
	best, damping := loss(r), 1e-2
	for range iterations {
		square, slope := f.normal(x, r)
		improved := false
		for !improved && damping < 1e6 {
			var step mat.VecDense
			system := mat.NewSymDense(n, nil)
			for i := range n {
				for j := i; j < n; j++ {
					system.SetSym(i, j, square.At(i, j))
				}
				system.SetSym(i, i, square.At(i, i)*(1+damping)+1e-9)
			}
			if err := step.SolveVec(system, slope); err != nil {
				damping *= 10
				continue
			}
			next := slices.Clone(x)
			for j := range next {
				next[j] -= min(0.5, max(-0.5, step.AtVec(j)))
			}
			if s := f.residuals(next); loss(s) < best {
				improved = best-loss(s) > 1e-4*best
				x, r, best = next, s, loss(s)
				damping = max(1e-6, damping/5)
				if !improved {
					return f.at(x)
				}
			} else {
				damping *= 5
			}
		}
		if !improved {
			break
		}
	}
	return f.at(x)
}

// normal returns JᵀWJ and JᵀWr with derivatives by finite differences.
func (f *fitting) normal(x, r []float64) (*mat.SymDense, *mat.VecDense) {
	const h = 1e-3
	n := len(x)
	columns := make([][]float64, n)
	for j := range n {
		y := slices.Clone(x)
		y[j] += h
		s := f.residuals(y)
		for i := range s {
			s[i] = (s[i] - r[i]) / h
		}
		columns[j] = s
	}
	square, slope := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			sum := 0.
			for t := range r {
				sum += columns[i][t] * columns[j][t] / math.Sqrt(1+r[t]*r[t])
			}
			square.SetSym(i, j, sum)
		}
		sum := 0.
		for t := range r {
			sum += columns[i][t] * r[t] / math.Sqrt(1+r[t]*r[t])
		}
		slope.SetVec(i, sum)
	}
	return square, slope
}
