package fit

import (
	"errors"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/replay/transfer"
)

// DrivePoint is the throughput of random reads of one size at one depth.
type DrivePoint struct {
	Depth, Block float64
	Rate         float64 // bytes/s
}

// DriveResult is a fitted drive.
type DriveResult struct {
	SSD             *transfer.SSD
	Errors, LeftOut []float64 // predicted ÷ measured − 1 of times, as in Result
}

// Drive fits latency, request rate, IOPS and knee of a drive to points; its bandwidth is
// given. Four constants want more points than four, of more than one size and depth.
func Drive(points []DrivePoint, bandwidth float64) (*DriveResult, error) {
	if len(points) < 5 {
		return nil, errors.New("fewer than 5 points for 4 constants")
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

// driveOf makes a drive of latency, request rate, IOPS and knee.
func driveOf(c []float64, bandwidth float64) *transfer.SSD {
	return &transfer.SSD{Bandwidth: bandwidth, Latency: c[0], RequestRate: c[1], IOPS: c[2], Knee: math.Max(0.5, c[3])}
}

func solveDrive(points []DrivePoint, bandwidth float64, start []float64, scales [][]float64) []float64 {
	return minimize(start, scales, func(c []float64) (sum float64) {
		s := driveOf(c, bandwidth)
		for _, p := range points {
			sum += loss(s.Rate(p.Depth, p.Block), p.Rate)
		}
		return sum
	})
}
