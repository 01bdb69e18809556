package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
)

// isKernels reports whether a CSV text has the header of kernel measurements.
func isKernels(data []byte) bool {
	for line := range bytes.Lines(data) {
		if !bytes.HasPrefix(line, []byte("#")) {
			return bytes.HasPrefix(line, []byte(kernel.Header[0]+","))
		}
	}
	return false
}

// fittedKernels is the fit of one device as `hardware fit --format json` prints it.
type fittedKernels struct {
	Device     string            `json:"device"`
	Kernels    int               `json:"kernels"`
	Parameters []fittedParameter `json:"parameters"`
	Errors     []kernel.Errors   `json:"errors"`
}

type fittedParameter struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Shared float64 `json:"shared"` // of all published measurements
	Unit   string  `json:"unit"`
	Text   string  `json:"meaning"`
}

// fitKernels fits the kernel model to each device of a file of measurements.
func (f *hardwareFlags) fitKernels(c *call, data []byte, path string) error {
	lib, err := f.load()
	if err != nil {
		return err
	}
	rows, err := kernel.ReadCSV(bytes.NewReader(data), path)
	if err != nil {
		return err
	}
	points, err := kernel.Points(rows, path, lib)
	if err != nil {
		return err
	}
	shared, err := kernel.Shared()
	if err != nil {
		return err
	}
	var all []fittedKernels
	for _, mine := range kernel.ByDevice(points) {
		r, err := fitDevice(mine, shared, lib)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	return printAll(c, f.format, all, (*fittedKernels).print)
}

func fitDevice(mine []kernel.Point, shared kernel.Parameters, lib *hardware.Library) (fittedKernels, error) {
	gpu, err := lib.GPU(mine[0].Device.Name)
	if err != nil {
		return fittedKernels{}, err
	}
	e := kernel.Learn(mine[0].Device, shared, mine)
	r := fittedKernels{Device: mine[0].Device.Name, Kernels: len(mine)}
	for i := range kernel.Definitions {
		if d := &kernel.Definitions[i]; d.Priced(mine) {
			r.Parameters = append(r.Parameters, fittedParameter{
				d.Name, e.Parameters[i] / d.SI, shared[i] / d.SI, d.Unit, d.Text})
		}
	}
	r.Errors = slices.Concat(
		kernel.JudgeWith(e, kernel.LeaveNothing, mine, false),
		kernel.JudgeParts(mine, shared, false))
	bundled, err := kernel.Bundled(lib)
	if err != nil || slices.ContainsFunc(mine, func(p kernel.Point) bool { return measuredIn(bundled, p) }) {
		return r, err // no prices leave such a file out
	}
	published, err := kernel.Estimate(gpu, lib)
	if err != nil {
		return r, err
	}
	r.Errors = slices.Concat(kernel.JudgeWith(published, kernel.LeaveFile, mine, false), r.Errors)
	return r, nil
}

func measuredIn(points []kernel.Point, p kernel.Point) bool {
	return slices.ContainsFunc(points, func(q kernel.Point) bool {
		same := *q.Measurement
		same.Line = p.Line
		return same == *p.Measurement
	})
}

func (r *fittedKernels) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n", r.Device, count(r.Kernels, "kernel"))
	t := table.New("parameter", "fitted", "shared", "unit", "meaning").Right(1, 2)
	for _, p := range r.Parameters {
		t.Add(p.Name, fmt.Sprintf("%.3g", p.Value), fmt.Sprintf("%.3g", p.Shared), p.Unit, p.Text)
	}
	fmt.Fprintf(w, "%s\n%s", t.Text(), kernel.ErrorTable(r.Errors).Text())
}
