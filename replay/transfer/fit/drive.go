package fit

import (
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/optimize"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// DrivePoint is the throughput of random reads at one size and depth.
type DrivePoint struct {
	Depth, Block float64
	Rate         float64 // bytes/s
}

// DriveResult is a fitted drive.
type DriveResult struct {
	SSD             *transfer.SSD
	Errors, LeftOut []float64 // predicted ÷ measured − 1 of times, as in Result
}

// Drive fits latency, request rate, IOPS and knee of a drive to points. Its bandwidth is given.
// Four constants require at least five points of more than one size and depth.
func Drive(points []DrivePoint, bandwidth float64) (*DriveResult, error) {
	if len(points) < 5 {
		return nil, errors.New("fewer than 5 points, which 4 constants need")
	}
	all := solveDrive(points, bandwidth, []float64{80e-6, bandwidth, 3e5, 1.5}, wide(4)) // the order of flash drives
	r := &DriveResult{SSD: driveOf(all, bandwidth)}
	for i, p := range points {
		r.Errors = append(r.Errors, relative(p.Rate, r.SSD.Rate(p.Depth, p.Block)))
		others := solveDrive(slices.Delete(slices.Clone(points), i, i+1), bandwidth, all, near(4))
		r.LeftOut = append(r.LeftOut, relative(p.Rate, driveOf(others, bandwidth).Rate(p.Depth, p.Block)))
	}
	return r, nil
}

// driveOf returns a drive with latency, request rate, IOPS and knee.
func driveOf(c []float64, bandwidth float64) *transfer.SSD {
	return &transfer.SSD{Bandwidth: bandwidth, Latency: c[0], RequestRate: c[1], IOPS: c[2], Knee: math.Max(0.5, c[3])}
}

func solveDrive(points []DrivePoint, bandwidth float64, start []float64, scales [][]float64) []float64 {
	return minimize(start, scales, func(c []float64) (sum float64) {
		s := driveOf(c, bandwidth)
		return slice.Sum(points, func(p DrivePoint) float64 { return loss(s.Rate(p.Depth, p.Block), p.Rate) })
	})
}

// minimize finds non-negative constants near start with the least total. It searches by logarithms
// with gonum's Nelder–Mead, from start times each of the scales in turn. The best result wins. It
// is deterministic.
func minimize(start []float64, scales [][]float64, total func(constants []float64) float64) []float64 {
	constants := make([]float64, len(start))
	problem := optimize.Problem{Func: func(x []float64) float64 {
		for i := range x {
			constants[i] = math.Exp(x[i])
		}
		return total(constants)
	}}
	best, least := append([]float64{}, start...), total(start)
	for _, scale := range scales {
		x := make([]float64, len(start))
		for i := range x {
			x[i] = math.Log(start[i] * scale[i])
		}
		settings := &optimize.Settings{MajorIterations: 4000, Converger: &optimize.FunctionConverge{Absolute: 1e-14, Relative: 1e-12, Iterations: 200}}
		for range 2 { // restarted once, as a simplex can collapse early
			result, err := optimize.Minimize(problem, x, settings, &optimize.NelderMead{SimplexSize: 0.5})
			if result == nil || err != nil && result.X == nil {
				break
			}
			copy(x, result.X)
			if result.F < least {
				least = result.F
				for i := range x {
					best[i] = math.Exp(x[i])
				}
			}
		}
	}
	return best
}

// near searches from the starting constants alone. wide also searches from each one changed by a
// factor of 8 up or down.
func near(n int) [][]float64 { return wide(n)[:1] }

func wide(n int) (scales [][]float64) {
	ones := slices.Repeat([]float64{1}, n)
	scales = append(scales, ones)
	for i := range n {
		for _, factor := range []float64{1. / 8, 8} {
			s := slices.Clone(ones)
			s[i] = factor
			scales = append(scales, s)
		}
	}
	return scales
}

// relative returns predicted ÷ measured − 1.
func relative(predicted, measured float64) float64 { return predicted/measured - 1 }

// softScale is the relative error above which the loss grows linearly.
const softScale = 0.1

// loss returns the loss of one point. It is quadratic in small log errors and linear beyond
// softScale (soft L1). So a point that no curve of the form explains does not change the curve for
// the others.
func loss(predicted, measured float64) float64 {
	d := math.Log(predicted/measured) / softScale
	return math.Sqrt(1+d*d) - 1
}

// Worst returns the largest absolute value without NaN, or NaN if there is none.
func Worst(errors []float64) float64 {
	worst := math.NaN()
	for _, e := range errors {
		if a := math.Abs(e); !(a <= worst) && a == a {
			worst = a
		}
	}
	return worst
}
