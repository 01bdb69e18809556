package serving

import (
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/kvreplay/kvreplay/internal/csvrows"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// Recorded is a request of a recorded run. Times are in ns since the first arrival.
type Recorded struct {
	Arrival, First, Last int64
	Output               int
}

// Sample is the state of a recorded engine at a time.
type Sample struct {
	Time             int64 // ns
	Running, Waiting int
	Blocks           int // of KV in use
}

// sampleColumns are the columns of a file of samples.
var sampleColumns = []string{"time_s", "running", "waiting", "kv_blocks"}

// ReadSamples reads a CSV file of samples in order of time.
func ReadSamples(r io.Reader, name string) ([]Sample, error) {
	return csvrows.Read(r, name, sampleColumns, func(record []string, _ int) (s Sample, err error) {
		seconds, err := strconv.ParseFloat(record[0], 64)
		if err != nil {
			return s, err
		}
		s.Time = nanoseconds(seconds)
		for i, v := range []*int{&s.Running, &s.Waiting, &s.Blocks} {
			if *v, err = strconv.Atoi(record[i+1]); err != nil {
				return s, err
			}
		}
		return s, nil
	})
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
	Samples  []Sample
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

// Differences returns the figures of a run that has ended. capacity is its number of blocks.
func (c *Comparison) Differences(capacity int) (all []Difference) {
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
	if len(c.Samples) == 0 {
		return all
	}
	most := 0
	for _, s := range c.Samples {
		most = max(most, s.Blocks)
	}
	add("KV blocks", "most in use, modelled: capacity", float64(most), float64(capacity))
	for _, of := range []struct {
		name, unit string
		sample     func(Sample) int
		step       func(StepRow) int
	}{
		{"running requests", "mean distance", func(s Sample) int { return s.Running }, func(r StepRow) int { return r.Running }},
		{"waiting requests", "mean distance", func(s Sample) int { return s.Waiting }, func(r StepRow) int { return r.Waiting }},
		{"KV blocks in use", "mean distance", func(s Sample) int { return s.Blocks }, func(r StepRow) int { return r.Blocks }},
	} {
		d := Difference{Figure: of.name, Unit: of.unit}
		distance := 0.
		for _, s := range c.Samples {
			recorded, modelled := float64(of.sample(s)), 0.
			i, _ := slices.BinarySearchFunc(c.steps, s.Time, func(r StepRow, t int64) int { return int(min(1, max(-1, r.End-t))) })
			if i < len(c.steps) && c.steps[i].Start <= s.Time {
				modelled = float64(of.step(c.steps[i]))
			}
			d.Recorded += recorded / float64(len(c.Samples))
			d.Modelled += modelled / float64(len(c.Samples))
			distance += math.Abs(recorded-modelled) / float64(len(c.Samples))
		}
		d.Error = distance / d.Recorded
		all = append(all, d)
	}
	return all
}

func mean(list []float64) (sum float64) {
	return slice.Sum(list, func(v float64) float64 { return v / float64(len(list)) })
}
