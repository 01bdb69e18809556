package collective

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/kvreplay/kvreplay/internal/csvrows"
)

// Header has the columns of a file of measurements.
var Header = []string{"device", "workers", "bytes", "sizes", "time_us"}

// Measurement is the time of an all-reduce.
type Measurement struct {
	Device       string // a GPU of the hardware library
	Workers      int    // GPUs of one host
	Bytes        int    // buffer of each GPU
	Sizes        int    // measured sizes near Bytes, whose median the time is
	Microseconds float64
	Line         int // line in its file
}

// Largest counts of a measurement.
const (
	mostWorkers = 1 << 10
	mostBytes   = 1 << 40
)

// ReadCSV reads measurements: the header, then one line each. Lines that begin with # are ignored.
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
	for i, c := range []struct {
		count       *int
		least, most int
	}{{&m.Workers, 2, mostWorkers}, {&m.Bytes, 1, mostBytes}, {&m.Sizes, 1, mostBytes}} {
		if *c.count, err = strconv.Atoi(record[i+1]); err != nil || *c.count < c.least || *c.count > c.most {
			return m, fmt.Errorf("%s %.60q, expected a whole number of %d to %d", Header[i+1], record[i+1], c.least, c.most)
		}
	}
	m.Microseconds, err = strconv.ParseFloat(record[4], 64)
	if err != nil || !(m.Microseconds >= 1e-3 && m.Microseconds <= 1e9) {
		return m, fmt.Errorf("time_us %.60q, expected 0.001 to 1000000000", record[4])
	}
	return m, nil
}
