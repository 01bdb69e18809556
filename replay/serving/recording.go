package serving

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/csvrows"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// Recorded is a request of a recorded run. Times are in ns since the first arrival.
type Recorded struct {
	Arrival, First, Last int64
	Output               int
}

// Series is the state of a recorded engine over time.
type Series struct {
	Columns []string // some of running, waiting, kv_blocks and tokens_per_s
	Samples []Sample // in order of time
}

// Sample is the state at a time, with a value for each column of the Series.
type Sample struct {
	Time   int64 // ns
	Values []float64
}

// state is a column of a Series. of returns that of an iteration. It is nil for the rate of generated
// tokens, which is a mean since the sample before.
type state struct {
	column, figure string
	of             func(*StepRow) int
}

// states are the columns of a Series.
var states = []state{
	{"running", "running requests", func(r *StepRow) int { return r.Running }},
	{"waiting", "waiting requests", func(r *StepRow) int { return r.Waiting }},
	{"kv_blocks", "KV blocks in use", func(r *StepRow) int { return r.Blocks }},
	{"tokens_per_s", "tokens/s over time", nil},
}

// seriesColumns describes the columns of a file of a Series.
const seriesColumns = "time_s and then some of running, waiting, kv_blocks, tokens_per_s"

// ReadSeries reads a CSV file of a Series.
func ReadSeries(r io.Reader, name string) (s Series, err error) {
	last := int64(-1)
	parse := func(record []string, _ int) (Sample, error) {
		var values []float64
		for i, text := range record {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil || !(v >= 0 && v <= 1e9) {
				return Sample{}, fmt.Errorf("%s %.60q, expected a number from 0 to a billion", slices.Concat([]string{"time_s"}, s.Columns)[i], text)
			}
			values = append(values, v)
		}
		sample := Sample{nanoseconds(values[0]), values[1:]}
		if sample.Time <= last {
			return sample, fmt.Errorf("time_s %s, expected more than on the line before: sort the lines by time", record[0])
		}
		last = sample.Time
		return sample, nil
	}
	s.Samples, err = csvrows.ReadBy(r, name, seriesColumns, func(header []string) (func([]string, int) (Sample, error), error) {
		if len(header) < 2 || header[0] != "time_s" {
			return nil, fmt.Errorf("columns %.200s, expected %s", strings.Join(header, ","), seriesColumns)
		}
		s.Columns = header[1:]
		for i, column := range s.Columns {
			if slices.Contains(s.Columns[:i], column) || !slices.ContainsFunc(states, func(of state) bool { return of.column == column }) {
				return nil, fmt.Errorf("column %.60q is unknown or comes twice, expected %s", column, seriesColumns)
			}
		}
		return parse, nil
	})
	return s, err
}

// values returns the values of a column.
func (s *Series) values(column string) (all []float64) {
	i := slices.Index(s.Columns, column)
	for k := range s.Samples {
		if i >= 0 {
			all = append(all, s.Samples[k].Values[i])
		}
	}
	return all
}

// Difference is a figure of a recorded run next to the modelled one.
type Difference struct {
	Figure   string  `json:"figure"`
	Unit     string  `json:"unit"`
	Recorded float64 `json:"recorded"`
	Modelled float64 `json:"modelled"`
	Error    float64 `json:"error"` // modelled ÷ recorded − 1, or the mean distance ÷ the recorded mean
}

// Comparison collects a run to compare it with a recorded one.
type Comparison struct {
	Requests []Recorded
	Series   Series
	rows     []RequestRow // by ID
	steps    []StepRow
}

// Rows returns functions that collect.
func (c *Comparison) Rows() Rows {
	return Rows{
		Request: func(r *RequestRow) error {
			for int64(len(c.rows)) <= r.ID {
				c.rows = append(c.rows, RequestRow{})
			}
			c.rows[r.ID] = *r
			return nil
		},
		Step: func(r *StepRow) error { c.steps = append(c.steps, *r); return nil },
	}
}

// Differences returns the figures of a run that has ended.
func (c *Comparison) Differences() (all []Difference) {
	var times [4][]float64 // TPOT and TTFT, recorded and modelled
	for i, q := range c.Requests {
		r := &c.rows[i]
		if q.Output > 1 {
			times[0] = append(times[0], float64(q.Last-q.First)/float64(q.Output-1)/1e6)
			times[1] = append(times[1], float64(r.Finish-r.First)/float64(q.Output-1)/1e6)
		}
		times[2] = append(times[2], float64(q.First-q.Arrival)/1e9)
		times[3] = append(times[3], float64(r.TTFT())/1e9)
	}
	add := func(figure, unit string, recorded, modelled float64) {
		d := Difference{figure, unit, recorded, modelled, 0}
		if recorded != 0 {
			d.Error = modelled/recorded - 1
		}
		all = append(all, d)
	}
	for i, of := range []struct{ name, unit string }{{"TPOT", "ms"}, {"TTFT", "s"}} {
		recorded, modelled := times[2*i], times[2*i+1]
		if len(recorded) == 0 {
			continue
		}
		slices.Sort(recorded)
		slices.Sort(modelled)
		add(of.name+" mean", of.unit, mean(recorded), mean(modelled))
		for _, q := range []float64{0.5, 0.9, 0.99} {
			add(of.name+" p"+strconv.Itoa(int(100*q)), of.unit, slice.Quantile(recorded, q), slice.Quantile(modelled, q))
		}
	}
	if blocks := c.Series.values("kv_blocks"); blocks != nil {
		most := 0
		for i := range c.steps {
			most = max(most, c.steps[i].Blocks)
		}
		add("KV blocks", "most in use", slices.Max(blocks), float64(most))
	}
	for _, of := range states {
		recorded := c.Series.values(of.column)
		if recorded == nil {
			continue
		}
		modelled := c.modelled(of)
		distance := 0.
		for i, v := range recorded {
			distance += math.Abs(v-modelled[i]) / float64(len(recorded))
		}
		d := Difference{of.figure, "mean distance", mean(recorded), mean(modelled), 0}
		if d.Recorded > 0 {
			d.Error = distance / d.Recorded
		}
		all = append(all, d)
		if of.of == nil {
			add("last token", "s", c.lastToken(recorded), float64(c.steps[len(c.steps)-1].End)/1e9)
		}
	}
	return all
}

// modelled returns a state of the model at the times of the samples.
func (c *Comparison) modelled(of state) []float64 {
	all := make([]float64, len(c.Series.Samples))
	next, before := 0, int64(0) // the first iteration that ends after the sample before, and its time
	for i, s := range c.Series.Samples {
		tokens := 0
		for ; next < len(c.steps) && c.steps[next].End <= s.Time; next++ {
			tokens += c.steps[next].Generated
		}
		switch {
		case of.of == nil && s.Time > before:
			all[i] = float64(tokens) / (float64(s.Time-before) / 1e9)
		case of.of == nil: // the first sample, before any time has passed
		default:
			at, found := next, next < len(c.steps) && c.steps[next].Start <= s.Time
			if next > 0 && c.steps[next-1].End == s.Time {
				at, found = next-1, true
			}
			if found {
				all[i] = float64(of.of(&c.steps[at]))
			}
		}
		before = s.Time
	}
	return all
}

// lastToken returns the time of the last sample with a rate above 0, in seconds.
func (c *Comparison) lastToken(rates []float64) float64 {
	for i := len(rates) - 1; i >= 0; i-- {
		if rates[i] > 0 {
			return float64(c.Series.Samples[i].Time) / 1e9
		}
	}
	return 0
}

func mean(list []float64) (sum float64) {
	return slice.Sum(list, func(v float64) float64 { return v / float64(len(list)) })
}
