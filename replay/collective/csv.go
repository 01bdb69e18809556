package collective

import (
	"cmp"
	"errors"
	"io"

	"github.com/kvreplay/kvreplay/internal/csvrows"
)

// Header has the columns of a file of measurements.
var Header = []string{"device", "workers", "bytes", "sizes", "time_us"}

// Measurement is the time of an all-reduce.
type Measurement struct {
	Device       string // a machine of the hardware library
	Workers      int    // GPUs of one host
	Bytes        int    // buffer of each GPU
	Microseconds float64
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
	var errs [4]error
	m.Workers, errs[0] = csvrows.Whole("workers", record[1], 2, mostWorkers)
	m.Bytes, errs[1] = csvrows.Whole("bytes", record[2], 1, mostBytes)
	_, errs[2] = csvrows.Whole("sizes", record[3], 1, mostBytes)
	m.Microseconds, errs[3] = csvrows.Microseconds(record[4])
	return m, cmp.Or(errs[:]...)
}
