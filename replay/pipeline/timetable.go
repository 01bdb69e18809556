package pipeline

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
)

// Timetable is a Computer of measured times: each operator over a grid of query tokens of
// the batch and mean context, with linear interpolation between the points, as ESS's
// simulator has it (section 4.1). Operators that the table leaves out are another
// Computer's, and Notes name them.
type Timetable struct {
	grids       map[string]*grid
	rest        Computer
	extrapolate bool
	notes       []string
	beyond      bool // extrapolation was noted
}

// ErrBeyond says that a table has no points around what was asked for.
var ErrBeyond = errors.New("outside the table")

// grid is a function of query tokens and context, at the crossings of both.
type grid struct {
	queries, context []float64   // ascending
	seconds          [][]float64 // by query, then context
}

// operatorNames are the operators of a table, in the order of Operators.
var operatorNames = []string{"project", "select", "pre", "attend", "post", "lookup_gpu", "lookup_cpu", "update", "attend_all", "output"}

var tableHeader = []string{"operator", "query_tokens", "context_tokens", "time_us"}

// ReadTimetable reads CSV with the columns operator, query_tokens, context_tokens, time_us:
// the time of one layer's operator for that many query tokens in all, each with a context
// of that many tokens. Each operator's points must fill a grid. With extrapolate, points
// outside continue its outer pieces; otherwise they are errors.
func ReadTimetable(r io.Reader, name string, rest Computer, extrapolate bool) (*Timetable, error) {
	reader := csv.NewReader(r)
	reader.FieldsPerRecord = len(tableHeader)
	header, err := reader.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: is empty, expected the columns %s", name, strings.Join(tableHeader, ","))
	case err != nil:
		return nil, fmt.Errorf("%s: %w; expected the columns %s", name, err, strings.Join(tableHeader, ","))
	}
	if !slices.Equal(header, tableHeader) {
		return nil, fmt.Errorf("%s:1: columns %s, expected %s", name, strings.Join(header, ","), strings.Join(tableHeader, ","))
	}
	points := map[string][]gridPoint{}
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		line, _ := reader.FieldPos(0)
		p, err := parsePoint(record)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		points[record[0]] = append(points[record[0]], p)
	}
	t := &Timetable{grids: map[string]*grid{}, rest: rest, extrapolate: extrapolate}
	var missing []string
	for _, op := range operatorNames {
		if len(points[op]) == 0 {
			missing = append(missing, op)
			continue
		}
		if t.grids[op], err = newGrid(points[op]); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", name, op, err)
		}
	}
	if len(t.grids) == 0 {
		return nil, fmt.Errorf("%s has no rows, expected times of some of %s", name, strings.Join(operatorNames, ", "))
	}
	if len(missing) > 0 {
		t.notes = append(t.notes, fmt.Sprintf("%s has no times of %s: those are the roofline's", name, strings.Join(missing, ", ")))
	}
	return t, nil
}

// gridPoint is a row.
type gridPoint struct{ queries, context, seconds float64 }

func parsePoint(record []string) (p gridPoint, err error) {
	if !slices.Contains(operatorNames, record[0]) {
		return p, fmt.Errorf("operator %q, expected one of %s%s", record[0], strings.Join(operatorNames, ", "), names.Nearest(record[0], operatorNames))
	}
	for i, v := range []*float64{&p.queries, &p.context, &p.seconds} {
		x, err := strconv.ParseFloat(strings.TrimSpace(record[i+1]), 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
			return p, fmt.Errorf("%s is %q, expected a number of at least 0", tableHeader[i+1], record[i+1])
		}
		*v = x
	}
	p.seconds *= 1e-6
	return p, nil
}

// newGrid arranges points; each crossing must be there once.
func newGrid(points []gridPoint) (*grid, error) {
	g := &grid{}
	for _, p := range points {
		g.queries = append(g.queries, p.queries)
		g.context = append(g.context, p.context)
	}
	slices.Sort(g.queries)
	slices.Sort(g.context)
	g.queries, g.context = slices.Compact(g.queries), slices.Compact(g.context)
	known := map[[2]float64]float64{}
	for _, p := range points {
		at := [2]float64{p.queries, p.context}
		if _, twice := known[at]; twice {
			return nil, fmt.Errorf("%g query tokens at context %g are there twice", p.queries, p.context)
		}
		known[at] = p.seconds
	}
	for _, q := range g.queries {
		var row []float64
		for _, c := range g.context {
			seconds, ok := known[[2]float64{q, c}]
			if !ok {
				return nil, fmt.Errorf("a hole: no time for %g query tokens at context %g; the points must fill the grid of all %d × %d values", q, c, len(g.queries), len(g.context))
			}
			row = append(row, seconds)
		}
		g.seconds = append(g.seconds, row)
	}
	return g, nil
}

// at interpolates; ok is false outside the grid. A grid of one value along an axis is the
// same everywhere along it.
func (g *grid) at(queries, context float64) (seconds float64, ok bool) {
	i, a, ok1 := between(g.queries, queries)
	j, b, ok2 := between(g.context, context)
	along := func(row []float64) float64 {
		if len(row) == 1 {
			return row[0]
		}
		return row[j] + b*(row[j+1]-row[j])
	}
	seconds = along(g.seconds[i])
	if len(g.seconds) > 1 {
		seconds += a * (along(g.seconds[i+1]) - seconds)
	}
	return seconds, ok1 && ok2
}

// between finds the piece of an axis that x lies in, and where in it.
func between(axis []float64, x float64) (i int, share float64, inside bool) {
	if len(axis) == 1 {
		return 0, 0, true
	}
	i, _ = slices.BinarySearch(axis, x)
	i = min(max(i-1, 0), len(axis)-2)
	return i, (x - axis[i]) / (axis[i+1] - axis[i]), x >= axis[0] && x <= axis[len(axis)-1]
}

// Notes say what is not the table's.
func (t *Timetable) Notes() []string { return append(slices.Clone(t.notes), t.rest.Notes()...) }

// look replaces a time by the table's where it has one.
func (t *Timetable) look(name string, queries, context float64, v *float64) error {
	g := t.grids[name]
	if g == nil || queries == 0 {
		return nil
	}
	seconds, inside := g.at(queries, context)
	if !inside && !t.extrapolate {
		return fmt.Errorf("%s: %g query tokens at context %.0f lie %w, %g to %g at %g to %g; measure there, or extrapolate", name, queries, context, ErrBeyond,
			g.queries[0], g.queries[len(g.queries)-1], g.context[0], g.context[len(g.context)-1])
	}
	if !inside && !t.beyond {
		t.beyond = true
		t.notes = append(t.notes, fmt.Sprintf("times were extrapolated, first of %s to %g query tokens at context %.0f", name, queries, context))
	}
	*v = max(0, seconds)
	return nil
}

// Layer is the table's, the rest's where it has none.
func (t *Timetable) Layer(layer int, l *Load) (o Operators, err error) {
	if o, err = t.rest.Layer(layer, l); err != nil {
		return o, err
	}
	context := 0.
	if l.Requests > 0 {
		context = l.Context / l.Requests
	}
	for i, v := range []*float64{&o.Project, &o.Select, &o.Pre, &o.Attend, &o.Post, &o.LookupGPU, &o.LookupCPU, &o.Update, &o.AttendAll} {
		if err := t.look(operatorNames[i], l.Queries, context, v); err != nil {
			return o, err
		}
	}
	return o, nil
}

// Output is the table's, or the rest's.
func (t *Timetable) Output(queries float64) (float64, error) {
	seconds, err := t.rest.Output(queries)
	if err != nil {
		return 0, err
	}
	if g := t.grids["output"]; g != nil {
		err = t.look("output", queries, g.context[0], &seconds)
	}
	return seconds, err
}
