package collective

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/csvrows"
)

// Header has the columns of a file of measurements.
var Header = []string{"device", "workers", "bytes", "sizes", "time_us", "method"}

// Measurement is the time of an all-reduce.
type Measurement struct {
	Device       string // a machine of the hardware library
	Workers      int    // GPUs of one host
	Bytes        int    // buffer of each GPU
	Microseconds float64
	Method       Method
	Line         int // line in its file
}

// Largest counts of a measurement.
const (
	mostWorkers = 1 << 10
	mostBytes   = 1 << 40
)

// ReadCSV reads measurements: the header, then one line each. The column sizes is the number of measured
// sizes near bytes, whose median the time is. Lines that begin with # are ignored.
// Errors name file and line.
func ReadCSV(r io.Reader, name string) ([]Measurement, error) {
	return csvrows.Read(r, name, Header, parse)
}

// parse reads a line.
func parse(record []string, line int) (m Measurement, err error) {
	m.Line = line
	if m.Device = record[0]; m.Device == "" {
		return m, errors.New("device is empty")
	}
	var errs [5]error
	m.Workers, errs[0] = csvrows.Whole("workers", record[1], 2, mostWorkers)
	m.Bytes, errs[1] = csvrows.Whole("bytes", record[2], 1, mostBytes)
	_, errs[2] = csvrows.Whole("sizes", record[3], 1, mostBytes)
	m.Microseconds, errs[3] = csvrows.Microseconds(record[4])
	by := slices.Index(methodNames[:], record[5])
	if by < 0 {
		errs[4] = fmt.Errorf("method %.60q, expected %s", record[5], strings.Join(methodNames[:], " or "))
	}
	m.Method = Method(max(0, by))
	return m, cmp.Or(errs[:]...)
}
