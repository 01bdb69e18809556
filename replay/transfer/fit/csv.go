package fit

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/csvrows"
	"github.com/kvreplay/kvreplay/internal/names"
)

// columns are the columns of a points file. The first two are required, and one of the four for
// time or rate.
var columns = []string{"block_bytes", "blocks", "launches", "seconds", "microseconds", "bytes_per_second", "gigabytes_per_second", "series"}

// timeColumns convert a value and a row's bytes to a time.
var timeColumns = map[string]func(value, bytes float64) float64{
	"seconds":              func(v, _ float64) float64 { return v },
	"microseconds":         func(v, _ float64) float64 { return v * 1e-6 },
	"bytes_per_second":     func(v, bytes float64) float64 { return bytes / v },
	"gigabytes_per_second": func(v, bytes float64) float64 { return bytes / (v * 1e9) },
}

// Group holds the points of one series, in the order of the file.
type Group struct {
	Series string // "" if the file has no such column
	Points []Point
}

// ReadCSV reads measured points: a header line, then one line per point. Sizes are bytes, rates are
// of payload. Lines that begin with # are ignored. Errors name file and line.
func ReadCSV(r io.Reader, name string) (groups []Group, err error) {
	const expected = "a header with block_bytes, blocks and seconds or bytes_per_second"
	_, err = csvrows.ReadBy(r, name, expected, func(header []string) (func([]string, int) (Point, error), error) {
		t, err := newReading(header)
		return func(record []string, line int) (Point, error) {
			p, err := t.point(record)
			if err != nil {
				return p, err
			}
			series, at := "", 0
			if i, ok := t.at["series"]; ok {
				series = strings.TrimSpace(record[i])
			}
			if at = slices.IndexFunc(groups, func(g Group) bool { return g.Series == series }); at < 0 {
				at, groups = len(groups), append(groups, Group{Series: series})
			}
			p.Line = line
			groups[at].Points = append(groups[at].Points, p)
			return p, nil
		}, err
	})
	return groups, err
}

// reading reads records by the columns of a header.
type reading struct {
	at     map[string]int
	timing string // column with the time or rate
}

func newReading(header []string) (*reading, error) {
	t := &reading{at: map[string]int{}}
	for i, name := range header {
		name = strings.TrimSpace(name)
		if !slices.Contains(columns, name) {
			return nil, fmt.Errorf("unknown column %.60q%s; known: %s", name, names.Nearest(name, columns), names.Some(columns))
		}
		if _, ok := t.at[name]; ok {
			return nil, fmt.Errorf("column %s appears twice", name)
		}
		t.at[name] = i
		if timeColumns[name] != nil {
			if t.timing != "" {
				return nil, fmt.Errorf("columns %s and %s both state a time or rate, expected one", t.timing, name)
			}
			t.timing = name
		}
	}
	for _, name := range columns[:2] {
		if _, ok := t.at[name]; !ok {
			return nil, fmt.Errorf("column %s is missing", name)
		}
	}
	if t.timing == "" {
		return nil, errors.New("no column states a time or rate, expected one of " + strings.Join(columns[3:7], ", "))
	}
	return t, nil
}

// Bounds of a measured time, in seconds. Others are mistakes, and a fit to them has no meaning.
const (
	leastTime = 1e-12
	mostTime  = 1e6
)

func (t *reading) point(record []string) (p Point, err error) {
	block, err1 := t.whole(record, "block_bytes", 0)
	blocks, err2 := t.whole(record, "blocks", 0)
	launches, err3 := t.whole(record, "launches", 1)
	value, err4 := t.number(record, t.timing)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return p, errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if block > math.MaxInt64/blocks {
		return p, fmt.Errorf("%d blocks of %d bytes, expected less than 8 EiB", blocks, block)
	}
	seconds := timeColumns[t.timing](value, float64(block*blocks))
	if seconds < leastTime || seconds > mostTime {
		return p, fmt.Errorf("%s %g gives a time of %g s, expected %g to %g s", t.timing, value, seconds, leastTime, mostTime)
	}
	return Point{Request: requestFor(block, blocks, launches), Seconds: seconds}, nil
}

// whole reads a positive integer. missing is the value of an absent column, 0 if it is required.
func (t *reading) whole(record []string, name string, missing int64) (int64, error) {
	i, ok := t.at[name]
	if !ok && missing > 0 {
		return missing, nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(record[i]), 10, 64)
	if err != nil || n < 1 {
		return 1, fmt.Errorf("%s %q, expected a whole number of at least 1", name, record[i])
	}
	return n, nil
}

func (t *reading) number(record []string, name string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(record[t.at[name]]), 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return 1, fmt.Errorf("%s %q, expected a number above 0", name, record[t.at[name]])
	}
	return v, nil
}
