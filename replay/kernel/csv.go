package kernel

import (
	"fmt"
	"io"
	"strings"

	"github.com/kvreplay/kvreplay/internal/csvrows"
	"github.com/kvreplay/kvreplay/internal/names"
)

// Header has the columns of a file of measurements.
var Header = []string{
	"operator", "model", "device", "software", "tensor_parallel", "tokens", "sequences", "context", "time_us",
}

// Measurement is the time of one call of an operator.
type Measurement struct {
	Operator string
	Model    string // a model of the hardware library
	Device   string // a GPU of the hardware library
	Software string // the kernels that ran, see Software
	// TensorParallel is the number of GPUs that share the operator's weights.
	TensorParallel int
	Tokens         int // rows of the operator's input
	Sequences      int // sequences of attention and sampling, else 0
	Context        int // tokens that each sequence has cached, else 0
	Microseconds   float64
	Line           int // line in its file
}

// mostCount is the largest count of a measurement. Products of three stay below 2⁶³.
const mostCount = 1 << 20

// ReadCSV reads measurements: the header, then one line each. Lines that begin with # are ignored.
// Errors name file and line.
func ReadCSV(r io.Reader, name string) ([]Measurement, error) {
	return csvrows.Read(r, name, Header, parse)
}

// parse reads a line.
func parse(record []string, line int) (m Measurement, err error) {
	m.Line = line
	m.Operator, m.Model, m.Device, m.Software = record[0], record[1], record[2], record[3]
	if operators[m.Operator] == nil {
		known := Operators()
		return m, fmt.Errorf("operator %.60q%s, expected one of %s", m.Operator, names.Nearest(m.Operator, known),
			strings.Join(known, ", "))
	}
	for i, text := range record[1:4] {
		if text == "" {
			return m, fmt.Errorf("%s is empty", Header[i+1])
		}
	}
	for i, count := range []*int{&m.TensorParallel, &m.Tokens, &m.Sequences, &m.Context} {
		least := 0
		if i < 2 {
			least = 1
		}
		if *count, err = csvrows.Whole(Header[i+4], record[i+4], least, mostCount); err != nil {
			return m, err
		}
	}
	m.Microseconds, err = csvrows.Microseconds(record[8])
	return m, err
}
