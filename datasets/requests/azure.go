package requests

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// azureHeader is the first line of the Azure traces of 2023.
const azureHeader = "TIMESTAMP,ContextTokens,GeneratedTokens"

// azureTimes are the layouts of TIMESTAMP; a fraction of a second, of which the traces
// have seven digits, is allowed after either. The zone of the traces is not stated;
// differences do not depend on it.
var azureTimes = []string{"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00"}

// azureRows are the lines of the CSV.
type azureRows struct {
	csv    *csv.Reader
	line   int
	layout string // of the timestamps, by the first
	first  time.Time
}

// newAzureRows reads the header.
func newAzureRows(r io.Reader) (*azureRows, error) {
	a := &azureRows{csv: csv.NewReader(r), line: 1}
	a.csv.ReuseRecord = true
	a.csv.FieldsPerRecord = -1 // counted here, with the line
	header, err := a.csv.Read()
	if err != nil {
		return nil, csvCause(err)
	}
	if got := strings.Join(header, ","); got != azureHeader {
		return nil, fmt.Errorf("the header is %q, expected %s", got, azureHeader)
	}
	return a, nil
}

func (a *azureRows) next(q *Request) (int, error) {
	a.line++
	fields, err := a.csv.Read()
	if err != nil {
		return a.line, csvCause(err)
	}
	if line, _ := a.csv.FieldPos(0); line != a.line {
		return a.line, errors.New("empty line, expected a request")
	}
	if len(fields) != 3 {
		return a.line, fmt.Errorf("%d fields, expected 3: %s", len(fields), azureHeader)
	}
	if q.Arrival, err = a.arrival(fields[0]); err != nil {
		return a.line, err
	}
	if q.InputTokens, err = tokens("ContextTokens", fields[1]); err != nil {
		return a.line, err
	}
	q.OutputTokens, err = tokens("GeneratedTokens", fields[2])
	q.PrefixBlocks = nil
	return a.line, err
}

// arrival is the time since the first timestamp.
func (a *azureRows) arrival(text string) (time.Duration, error) {
	if a.layout == "" {
		return 0, a.begin(text)
	}
	t, err := time.Parse(a.layout, text)
	if err != nil {
		return 0, fmt.Errorf("TIMESTAMP %q, expected one as %s, like the first", text, a.layout)
	}
	d := t.Sub(a.first)
	if d == math.MaxInt64 {
		return 0, fmt.Errorf("TIMESTAMP %q is centuries after the first", text)
	}
	return d, nil
}

// begin takes the first timestamp.
func (a *azureRows) begin(text string) error {
	for _, layout := range azureTimes {
		if t, err := time.Parse(layout, text); err == nil {
			a.layout, a.first = layout, t
			return nil
		}
	}
	return fmt.Errorf("TIMESTAMP %q, expected one as 2023-11-16 18:17:03.9799600", text)
}

// tokens reads a length.
func tokens(name, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxTokens {
		return 0, fmt.Errorf("%s %q, expected a whole number from 0 to %d", name, text, maxTokens)
	}
	return n, nil
}

// csvCause drops the line number, which the caller knows.
func csvCause(err error) error {
	var syntax *csv.ParseError
	if errors.As(err, &syntax) {
		return syntax.Err
	}
	return err
}
