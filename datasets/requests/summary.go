package requests

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Summary is what `kvreplay inspect --format json` prints of a request trace; README.md
// explains the fields.
type Summary struct {
	Kind     string    `json:"kind"` // "requests"
	Path     string    `json:"path"`
	Bytes    int64     `json:"bytes"`
	Format   string    `json:"format"`
	Requests int64     `json:"requests"`
	Arrivals Arrivals  `json:"arrivals"`
	Input    Lengths   `json:"input_tokens"`
	Output   Lengths   `json:"output_tokens"`
	Prefixes *Prefixes `json:"prefixes"` // null where the format has none
}

// Arrivals say when requests came.
type Arrivals struct {
	DurationSeconds float64  `json:"duration_s"`      // from the first to the last
	RatePerSecond   *float64 `json:"rate_per_s"`      // inverse of the mean gap; null without a duration
	PeakPerMinute   int64    `json:"peak_per_minute"` // requests of the busiest minute, counted from the first arrival
	PeakMinute      int64    `json:"peak_minute"`     // its number from 0; the first of equals
	Gap             Spread   `json:"gap_s"`           // seconds from one arrival to the next
	GapCV           *float64 `json:"gap_cv"`          // standard deviation ÷ mean of the gaps: 1 for Poisson arrivals
	Simultaneous    *float64 `json:"gap_zero_share"`  // gaps of 0 ÷ gaps
	minute          int64    // the one that is being counted
	inMinute        int64    // requests in it
	last            time.Duration
	gaps            []float64
}

// Lengths is a distribution of tokens.
type Lengths struct {
	Total int64 `json:"total"`
	Spread
	counts tally
}

// Summarise reads a request trace to its end. Only gaps, the distinct lengths and the
// distinct blocks are held in memory. ctx stops it.
func Summarise(ctx context.Context, path string) (*Summary, error) {
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s := &Summary{Kind: "requests", Path: path, Bytes: r.Bytes(), Format: r.Format().String()}
	if r.Format() == Mooncake {
		s.Prefixes = newPrefixes()
	}
	var q Request
	for {
		err := r.Read(&q)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if s.add(&q); s.Requests%1024 == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("read requests: %s: %w", path, ctx.Err())
		}
	}
	s.finish()
	return s, nil
}

func (s *Summary) add(q *Request) {
	s.Arrivals.add(q.Arrival, s.Requests == 0)
	s.Requests++
	s.Input.add(q.InputTokens)
	s.Output.add(q.OutputTokens)
	if s.Prefixes != nil {
		s.Prefixes.add(q)
	}
}

func (s *Summary) finish() {
	s.Arrivals.finish()
	s.Input.Spread, s.Output.Spread = s.Input.counts.spread(), s.Output.counts.spread()
	if s.Prefixes != nil {
		s.Prefixes.finish(s.Input.Total)
	}
}

func (l *Lengths) add(tokens int) {
	l.Total += int64(tokens)
	l.counts.add(int64(tokens))
}

func (a *Arrivals) add(at time.Duration, first bool) {
	if !first {
		a.gaps = append(a.gaps, float64(at-a.last))
	}
	a.last = at
	if m := int64(at / time.Minute); m != a.minute {
		a.minute, a.inMinute = m, 0
	}
	if a.inMinute++; a.inMinute > a.PeakPerMinute {
		a.PeakPerMinute, a.PeakMinute = a.inMinute, a.minute
	}
}

func (a *Arrivals) finish() {
	a.DurationSeconds = a.last.Seconds()
	if a.last > 0 {
		rate := float64(len(a.gaps)) / a.DurationSeconds
		a.RatePerSecond = &rate
	}
	a.Simultaneous, a.GapCV = zeroShare(a.gaps), variation(a.gaps)
	a.Gap = spread(a.gaps, nil).times(1 / float64(time.Second))
}
