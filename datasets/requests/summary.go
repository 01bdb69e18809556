package requests

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/gonum/stat"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/internal/text"
)

// Summary is the output of `kvreplay inspect --format json` for a request trace. README.md explains
// the fields.
type Summary struct {
	Kind     string    `json:"kind"` // "requests"
	Path     string    `json:"path"`
	Bytes    int64     `json:"bytes"`
	Format   string    `json:"format"`
	Requests int64     `json:"requests"`
	Arrivals Arrivals  `json:"arrivals"`
	Input    Lengths   `json:"input_tokens"`
	Output   Lengths   `json:"output_tokens"`
	Prefixes *Prefixes `json:"prefixes"` // null if the format has none
}

// Arrivals describe when requests arrive.
type Arrivals struct {
	DurationSeconds float64  `json:"duration_s"`      // from the first to the last
	RatePerSecond   *float64 `json:"rate_per_s"`      // inverse of the mean gap, null without a duration
	PeakPerMinute   int64    `json:"peak_per_minute"` // requests of the busiest minute, counted from the first arrival
	PeakMinute      int64    `json:"peak_minute"`     // its number from 0, the first if several are equal
	Gap             Spread   `json:"gap_s"`           // seconds from one arrival to the next
	GapCV           *float64 `json:"gap_cv"`          // standard deviation ÷ mean of the gaps: 1 for Poisson arrivals
	Simultaneous    *float64 `json:"gap_zero_share"`  // gaps of 0 ÷ gaps
	minute          int64    // the minute that is being counted
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
		s.Prefixes = &Prefixes{BlockTokens: BlockTokens, blocks: make(map[int64]block)}
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
	a := &s.Arrivals
	a.DurationSeconds = a.last.Seconds()
	if a.last > 0 {
		a.RatePerSecond = new(float64(len(a.gaps)) / a.DurationSeconds)
	}
	a.Simultaneous, a.GapCV = zeroShare(a.gaps), variation(a.gaps)
	a.Gap = spread(a.gaps, nil).times(1 / float64(time.Second))
	s.Input.Spread, s.Output.Spread = s.Input.counts.spread(), s.Output.counts.spread()
	if s.Prefixes != nil {
		s.Prefixes.finish(s.Input.Total)
	}
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

// Spread is a distribution. A quantile is the smallest value that at least the share of all values
// does not exceed. All fields are null if no value exists.
type Spread struct {
	Min  *float64 `json:"min"`
	Mean *float64 `json:"mean"`
	P50  *float64 `json:"p50"`
	P90  *float64 `json:"p90"`
	P99  *float64 `json:"p99"`
	Max  *float64 `json:"max"`
}

// spread returns the distribution of values, which it sorts. Weights, if any, belong to ascending
// values.
func spread(values, weights []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	if weights == nil {
		slices.Sort(values)
	}
	at := func(p float64) *float64 { return new(stat.Quantile(p, stat.Empirical, values, weights)) }
	return Spread{Min: new(values[0]), Mean: new(stat.Mean(values, weights)), P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: new(values[len(values)-1])}
}

func (s Spread) times(factor float64) Spread {
	for _, v := range []**float64{&s.Min, &s.Mean, &s.P50, &s.P90, &s.P99, &s.Max} {
		if *v != nil {
			*v = new(**v * factor)
		}
	}
	return s
}

// variation returns the standard deviation divided by the mean, or null if either is undefined.
func variation(values []float64) *float64 {
	if len(values) < 2 {
		return nil
	}
	mean, deviation := stat.MeanStdDev(values, nil)
	if mean == 0 {
		return nil
	}
	return new(deviation / mean)
}

// zeroShare returns the share of values that are 0.
func zeroShare(values []float64) *float64 {
	zeros := slice.Count(values, func(v float64) bool { return v == 0 })
	return text.Share(int64(zeros), int64(len(values)))
}

// tally counts values.
type tally map[int64]int64

func (t *tally) add(value int64) {
	if *t == nil {
		*t = tally{}
	}
	(*t)[value]++
}

// spread returns the distribution of the counted values.
func (t tally) spread() Spread {
	var values, weights []float64
	for _, v := range slices.Sorted(maps.Keys(t)) {
		values, weights = append(values, float64(v)), append(weights, float64(t[v]))
	}
	return spread(values, weights)
}

// Prefixes describe the blocks that prompts share: the hits of each arriving prompt in an unbounded
// KV cache. The cache is kept from the first request on and filled at once.
type Prefixes struct {
	BlockTokens int   `json:"block_tokens"`
	Blocks      int64 `json:"blocks"`   // of all prompts
	Distinct    int64 `json:"distinct"` // distinct blocks
	// SeenShare is the share of all blocks that an earlier request had.
	SeenShare *float64 `json:"seen_share"`
	// HitTokens are the tokens in the leading blocks of prompts that earlier requests had. HitShare is
	// their share of all input tokens.
	HitTokens int64    `json:"hit_tokens"`
	HitShare  *float64 `json:"hit_share"`
	// HitRequests is the number of requests that found at least one block. FullRequests is the number
	// of requests that found all of their blocks.
	HitRequests  int64 `json:"hit_requests"`
	FullRequests int64 `json:"full_requests"`
	// Uses is the distribution of requests per distinct block.
	Uses Spread `json:"uses"`
	// UsedOnceShare is the share of the distinct blocks that one request has.
	UsedOnceShare *float64 `json:"used_once_share"`
	// Displaced is the number of blocks that were seen before behind another block, or in the same
	// prompt. A block's id stands for its whole prefix, so there should be none. They end the hit.
	Displaced int64 `json:"displaced"`

	seen     int64
	requests int64 // so far
	blocks   map[int64]block
}

// block is the state of a block.
type block struct {
	before      int64 // the block before it, noBlock at the beginning of a prompt
	first, last int64 // requests that have it, by number
	uses        int64 // requests that have it
}

const noBlock = -1

func (p *Prefixes) add(q *Request) {
	p.requests++
	before, hit, leading := int64(noBlock), 0, true
	for _, id := range q.PrefixBlocks {
		b, known := p.blocks[id]
		switch {
		case !known:
			b, leading = block{before: before, first: p.requests}, false
		case b.before != before || b.last == p.requests:
			p.Displaced++
			leading = false
		}
		if b.first < p.requests {
			p.seen++
		}
		if leading {
			hit++
		}
		if b.last < p.requests {
			b.uses++
		}
		b.last = p.requests
		p.blocks[id] = b
		before = id
	}
	p.Blocks += int64(len(q.PrefixBlocks))
	p.HitTokens += int64(min(hit*BlockTokens, q.InputTokens))
	if hit > 0 {
		p.HitRequests++
		if hit == len(q.PrefixBlocks) {
			p.FullRequests++
		}
	}
}

func (p *Prefixes) finish(inputTokens int64) {
	var uses tally
	for _, b := range p.blocks {
		uses.add(b.uses)
	}
	p.Distinct = int64(len(p.blocks))
	p.SeenShare, p.HitShare = text.Share(p.seen, p.Blocks), text.Share(p.HitTokens, inputTokens)
	p.Uses, p.UsedOnceShare = uses.spread(), text.Share(uses[1], p.Distinct)
}

// Text writes the summary for people.
func (s *Summary) Text(w io.Writer) error {
	parts := []string{printable.Line(s.Path) + "\n" + s.facts(), s.spreads()}
	if s.Prefixes != nil {
		parts = append(parts, fmt.Sprintf("Shared prefixes: blocks of %d tokens, unbounded cache\n%s", s.Prefixes.BlockTokens, s.Prefixes.text(s.Requests)))
	}
	_, err := io.WriteString(w, strings.Join(parts, "\n"))
	return err
}

func (s *Summary) facts() string {
	a := &s.Arrivals
	return pairs([][]any{
		{"format", s.Format},
		{"bytes", humanize.Comma(s.Bytes)},
		{"requests", humanize.Comma(s.Requests)},
		{"first to last", a.last.String()},
		{"arrivals per second", text.Number(a.RatePerSecond, 3)},
		{"busiest minute", fmt.Sprintf("%s requests, from %v on", humanize.Comma(a.PeakPerMinute), time.Duration(a.PeakMinute)*time.Minute)},
		{"gaps: standard deviation ÷ mean", text.Number(a.GapCV, 2)},
		{"gaps of zero", text.Percent(a.Simultaneous)},
	})
}

// pairs formats names and values in two columns.
func pairs(rows [][]any) string {
	t := table.New()
	for _, row := range rows {
		t.Add(row...)
	}
	return t.Text()
}

func (s *Summary) spreads() string {
	t := table.New("", "min", "mean", "p50", "p90", "p99", "max", "total").RightFrom(1)
	row := func(name string, s Spread, digits, meanDigits int, total ...any) {
		row := []any{name, text.Number(s.Min, digits), text.Number(s.Mean, meanDigits)}
		for _, v := range []*float64{s.P50, s.P90, s.P99, s.Max} {
			row = append(row, text.Number(v, digits))
		}
		t.Add(append(row, total...)...)
	}
	row("gap between arrivals, ms", s.Arrivals.Gap.times(1000), 3, 3)
	row("input tokens", s.Input.Spread, 0, 1, humanize.Comma(s.Input.Total))
	row("output tokens", s.Output.Spread, 0, 1, humanize.Comma(s.Output.Total))
	return t.Text()
}

func (p *Prefixes) text(requests int64) string {
	u := &p.Uses
	rows := [][]any{
		{"blocks", humanize.Comma(p.Blocks)},
		{"distinct blocks", humanize.Comma(p.Distinct)},
		{"seen before, of all blocks", text.Percent(p.SeenShare)},
		{"prefix-hit tokens", humanize.Comma(p.HitTokens)},
		{"  of all input tokens", text.Percent(p.HitShare)},
		{"requests with a hit", text.Percent(text.Share(p.HitRequests, requests))},
		{"requests hit to their end", text.Percent(text.Share(p.FullRequests, requests))},
		{"requests that have a block: mean p50 p90 p99 max",
			strings.Join([]string{text.Number(u.Mean, 2), text.Number(u.P50, 0), text.Number(u.P90, 0),
				text.Number(u.P99, 0), text.Number(u.Max, 0)}, " ")},
		{"blocks that one request has", text.Percent(p.UsedOnceShare)},
	}
	if p.Displaced > 0 {
		rows = append(rows, []any{"blocks seen before behind another block, or twice in a prompt (contradictory)", humanize.Comma(p.Displaced)})
	}
	return pairs(rows)
}
