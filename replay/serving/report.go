package serving

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Result is the summary of one system.
type Result struct {
	System string `json:"system"`
	*Summary
	Recorded []Difference `json:"recorded,omitempty"` // next to a recorded run
	Notes    []string     `json:"notes,omitempty"`
	// Seeds are the figures of runs with different draws. Compared has their ratios to those of the
	// first system, paired by seed.
	Seeds    []Seed     `json:"seeds,omitempty"`
	Compared []Compared `json:"compared,omitempty"`
	// Curves has the plotted figures of each seed. It is nil unless a page shows them.
	Curves []Curves `json:"-"`
}

// Curves are the plotted figures of a run: the percentiles of Latency.Percentiles in ns, and the state
// over time.
type Curves struct {
	TTFT, TPOT []int64
	Timeline   *Timeline
}

// Seed has the figures of a run, in the order of SeedFigures. A figure is nil if it is undefined.
type Seed struct {
	Seed    uint64      `json:"seed"`
	Figures [4]*float64 `json:"figures"`
}

// SeedFigures are the names of the figures that are compared. Times are means in seconds.
var SeedFigures = [4]string{"output_tokens_per_s", "ttft_s", "tpot_s", "attainment"}

// NewSeed returns the figures of a summary.
func NewSeed(seed uint64, s *Summary) Seed {
	seeded := Seed{seed, [4]*float64{new(s.Throughput), new(float64(s.TTFT.Mean) / 1e9), nil, s.Attainment.defined()}}
	if s.TPOT != (Spread{}) {
		seeded.Figures[2] = new(float64(s.TPOT.Mean) / 1e9)
	}
	return seeded
}

// Compared is a figure ÷ that of the first system, over all seeds. Low and High are its 95 % interval,
// and P is that of a paired permutation test. They are nil if they are undefined,
// and if a seed lacks the figure.
type Compared struct {
	Figure string   `json:"figure"`
	Ratio  *float64 `json:"ratio"`
	Low    *float64 `json:"low"`
	High   *float64 `json:"high"`
	P      *float64 `json:"p"`
}

// seconds formats ns.
func seconds(ns int64) string { return hardware.Seconds(float64(ns) / 1e9).String() }

// tpot formats times of tokens after the first, which requests of one token lack.
func tpot(s Spread) (p50, p90, p99 string) {
	if s == (Spread{}) {
		return text.None, text.None, text.None
	}
	return seconds(s.P50), seconds(s.P90), seconds(s.P99)
}

// Report returns the tables of results.
func Report(title string, results []*Result) *table.Report {
	header := []string{"system", "tokens/s", "TTFT p50", "p90", "p99", "TPOT p50", "p90", "p99", "meets SLO", "goodput/s", "running", "most", "KV used", "preempted"}
	t := table.New(header...).RightFrom(1)
	t.Title = title
	for _, r := range results {
		meets, goodput := text.Percent(r.Attainment.defined()), text.None
		if r.Goodput != nil {
			goodput = text.Rate(text.RoundDown(*r.Goodput, 3), 3)
		}
		p50, p90, p99 := tpot(r.TPOT)
		t.Add(r.System, text.Rate(r.Throughput, 4), seconds(r.TTFT.P50), seconds(r.TTFT.P90), seconds(r.TTFT.P99),
			p50, p90, p99, meets, goodput,
			fmt.Sprintf("%.1f", r.Running), r.MostRunning, fmt.Sprintf("%.0f %%", 100*r.KV/float64(r.Blocks)), r.Preemptions)
	}
	report := &table.Report{Title: title, Tables: []*table.Table{t}}
	for _, r := range results {
		if r.Recorded != nil {
			report.Tables = append(report.Tables, differences(r))
		}
	}
	if len(results) > 0 && results[0].Seeds != nil {
		report.Tables = append([]*table.Table{means(results)}, report.Tables...)
		t.Title += fmt.Sprintf(", seed %d", results[0].Seeds[0].Seed)
	}
	if len(results) > 1 && results[0].Seeds != nil {
		t := table.New("system", "figure", "ratio", "95 % interval", "p").Right(2, 3, 4)
		t.Title = fmt.Sprintf("Ratio to %s over %d seeds", results[0].System, len(results[0].Seeds))
		for _, r := range results {
			for _, c := range r.Compared {
				t.Add(r.System, c.Figure, number(c.Ratio), number(c.Low)+" to "+number(c.High), number(c.P))
			}
		}
		report.Tables = append(report.Tables, t)
	}
	if t := classes(results); t != nil {
		report.Tables = append(report.Tables, t)
	}
	for _, r := range results {
		report.Footnotes = slice.Add(report.Footnotes, r.Notes...)
	}
	return report
}

// means returns the table of figures over the seeds: the mean, and the least and the largest value.
func means(results []*Result) *table.Table {
	t := table.New("system", "tokens/s", "TTFT mean", "TPOT mean", "meets SLO").RightFrom(1)
	t.Title = fmt.Sprintf("Means over %d seeds, and the least to the largest value", len(results[0].Seeds))
	show := [len(SeedFigures)]func(v float64) string{
		func(v float64) string { return text.Rate(v, 4) },
		func(v float64) string { return hardware.Seconds(v).String() },
		func(v float64) string { return hardware.Seconds(v).String() },
		func(v float64) string { return text.Percent(&v) },
	}
	for _, r := range results {
		line := []any{r.System}
		for i := range SeedFigures {
			var all []float64
			for _, s := range r.Seeds {
				if v := s.Figures[i]; v != nil {
					all = append(all, *v)
				}
			}
			cell := text.None
			if len(all) == len(r.Seeds) {
				cell = fmt.Sprintf("%s (%s to %s)", show[i](mean(all)), show[i](slices.Min(all)), show[i](slices.Max(all)))
			}
			line = append(line, cell)
		}
		t.Add(line...)
	}
	return t
}

// Finding returns a sentence about the system that serves most. It has the largest goodput, or without
// a search for it the largest share of requests within their limits, or without limits the largest
// throughput. With seeds the sentence is about means over them, and says whether the difference to
// the first system is significant. If the first system leads, that is the difference to the next one.
func Finding(results []*Result) string {
	first := results[0]
	seeds := len(first.Seeds)
	of, figure := "throughput", 0
	value := func(r *Result) float64 { return r.Throughput }
	show := func(v float64) string { return text.Rate(v, 4) + " tokens/s" }
	switch {
	case !first.judged():
	case seeds == 0 && slices.ContainsFunc(results, func(r *Result) bool { return r.Goodput != nil }):
		of = "load within the limits"
		value = func(r *Result) float64 { return *r.Goodput }
		show = func(v float64) string { return text.Rate(text.RoundDown(v, 3), 3) + " requests/s" }
	default:
		of, figure = "share of requests within the limits", len(SeedFigures)-1
		show = func(v float64) string { return text.Percent(&v) }
		value = func(r *Result) float64 { return float64(r.Attainment) }
	}
	begin := "The"
	if seeds > 0 {
		begin = fmt.Sprintf("Over %d seeds, the", seeds)
		value = func(r *Result) (mean float64) {
			return slice.Sum(r.Seeds, func(s Seed) float64 { return *s.Figures[figure] / float64(seeds) })
		}
	}
	ranked := slices.Clone(results)
	slices.SortStableFunc(ranked, func(a, b *Result) int { return cmp.Compare(value(b), value(a)) })
	best, names, n := show(value(ranked[0])), ranked[0].System, 1
	for ; n < len(ranked) && show(value(ranked[n])) == best; n++ {
		names += " and " + ranked[n].System
	}
	if n == len(ranked) {
		return fmt.Sprintf("%s %s of %s is %s.", begin, of, names, best)
	}
	text := fmt.Sprintf("%s largest %s is that of %s (%s)", begin, of, names, best)
	if seeds > 0 {
		with := ranked[0]
		if with == first {
			with = ranked[1]
		}
		c, is := &with.Compared[figure], "a significant"
		if c.P == nil || *c.P >= significant {
			is = "no significant"
		}
		text += fmt.Sprintf(", with %s difference between %s and %s (ratio %s, 95 %% interval %s to %s, p %s)",
			is, with.System, first.System, number(c.Ratio), number(c.Low), number(c.High), number(c.P))
	} else {
		text += fmt.Sprintf(", before %s (%s)", ranked[n].System, show(value(ranked[n])))
	}
	return text + "."
}

// significant is the p below which Finding calls a difference significant.
const significant = 0.05

// classes returns the table of classes, nil if there are none.
func classes(results []*Result) *table.Table {
	t := table.New("system", "class", "requests", "queue p99", "TTFT p50", "p99", "TPOT p50", "p99", "meets SLO").RightFrom(2)
	t.Title = "Classes"
	for _, r := range results {
		for _, c := range r.Classes {
			meets := text.Percent(c.Attainment.defined())
			p50, _, p99 := tpot(c.TPOT)
			t.Add(r.System, c.Class, c.Requests, seconds(c.Queue.P99), seconds(c.TTFT.P50), seconds(c.TTFT.P99), p50, p99, meets)
		}
	}
	if len(results) == 0 || len(results[0].Classes) == 0 {
		return nil
	}
	return t
}

// number formats a figure that may be undefined.
func number(v *float64) string {
	if v == nil {
		return text.None
	}
	return fmt.Sprintf("%.4g", *v)
}

func differences(r *Result) *table.Table {
	t := table.New("figure", "unit", "recorded", r.System, "error").Right(2, 3, 4)
	t.Title = "The recorded run and " + r.System
	for _, d := range r.Recorded {
		sign := "%+.1f %%"
		if d.Unit == "mean distance" {
			sign = "%.1f %%"
		}
		t.Add(d.Figure, d.Unit, text.Rate(d.Recorded, 5), text.Rate(d.Modelled, 5), fmt.Sprintf(sign, 100*d.Error))
	}
	return t
}

// WriteCSV writes a line for each result. Times are in ns. With classes, a line for each follows
// those of all requests, without the figures of a whole system.
func WriteCSV(w io.Writer, results []*Result) error {
	header := []string{"system", "requests", "input_tokens", "output_tokens", "reused_tokens", "preemptions", "steps", "duration_ns", "busy_ns",
		"output_tokens_per_s", "requests_per_s", "queue_mean_ns", "queue_p50_ns", "queue_p90_ns", "queue_p99_ns", "ttft_mean_ns", "ttft_p50_ns",
		"ttft_p90_ns", "ttft_p99_ns", "tpot_mean_ns", "tpot_p50_ns", "tpot_p90_ns", "tpot_p99_ns", "attainment", "ttft_attainment", "tpot_attainment",
		"running_mean", "running_max", "waiting_mean", "kv_blocks_mean", "kv_blocks_max", "kv_blocks_capacity", "memory_max_bytes",
		"uncached_mean", "to_gpu_bytes", "to_host_bytes", "goodput_requests_per_s"}
	seeded := len(results) > 0 && results[0].Seeds != nil
	if seeded {
		for _, f := range SeedFigures {
			header = append(header, f+"_ratio", f+"_ratio_low", f+"_ratio_high", f+"_ratio_p")
		}
	}
	classy := slices.ContainsFunc(results, func(r *Result) bool { return r.Classes != nil })
	if classy {
		header = append(header, "class")
	}
	t := table.New(header...)
	for _, r := range results {
		line := []any{r.System, r.Requests, r.InputTokens, r.OutputTokens, r.ReusedTokens, r.Preemptions, r.Steps, r.Duration, r.Busy,
			r.Throughput, table.NonZero(r.Rate)}
		start := len(line)
		line = append(append(line, r.Latency.figures()...),
			r.Running, r.MostRunning, r.Waiting, r.KV, r.MostKV, r.Blocks, r.Memory, r.Uncached, r.ToGPU, r.ToHost, r.Goodput)
		for i := range SeedFigures {
			switch {
			case r.Compared != nil:
				c := &r.Compared[i]
				line = append(line, c.Ratio, c.Low, c.High, c.P)
			case seeded:
				line = append(line, nil, nil, nil, nil)
			}
		}
		if classy {
			line = append(line, nil)
		}
		t.Add(line...)
		for _, c := range r.Classes {
			own := make([]any, len(line))
			own[0], own[1], own[len(own)-1] = r.System, c.Requests, c.Class
			copy(own[start:], c.figures())
			t.Add(own...)
		}
	}
	return t.CSV(w)
}

// figures returns the figures of a line of CSV.
func (l *Latency) figures() (all []any) {
	for _, s := range []Spread{l.Queue, l.TTFT} {
		all = append(all, s.Mean, s.P50, s.P90, s.P99)
	}
	if l.TPOT == (Spread{}) {
		all = append(all, "", "", "", "")
	} else {
		all = append(all, l.TPOT.Mean, l.TPOT.P50, l.TPOT.P90, l.TPOT.P99)
	}
	return append(all, l.Attainment.defined(), l.AttainmentTTFT.defined(), l.AttainmentTPOT.defined())
}

// RequestCSV returns functions that write requests as CSV with the names of JSON as columns. Either all
// requests have a class or none.
func RequestCSV(w io.Writer) Rows {
	const header = "id,arrival_ns,admitted_ns,first_token_ns,finish_ns,input_tokens,output_tokens,preemptions,reused_tokens"
	lines := rowLines{w: w}
	return Rows{Request: func(q *RequestRow) error {
		end, class := "", ""
		if q.Class != "" {
			end, class = ",class", ","+q.Class
		}
		return lines.write(header+end, class, q.ID, q.Arrival, q.Admitted, q.First, q.Finish, int64(q.Input), int64(q.Output), int64(q.Preemptions), int64(q.Reused))
	}}
}

// StepCSV returns functions that write iterations as CSV with the names of JSON as columns.
func StepCSV(w io.Writer) Rows {
	const header = "step,start_ns,end_ns,running,waiting,batch,prefill_tokens,decode_tokens,recomputed_tokens,uncached_1024ths,preempted,kv_blocks," +
		"weights_bytes,activation_bytes,buffer_bytes,kv_bytes,to_gpu_bytes,to_host_bytes"
	lines := rowLines{w: w}
	return Rows{Step: func(s *StepRow) error {
		return lines.write(header, "", s.Number, s.Start, s.End, int64(s.Running), int64(s.Waiting), int64(s.Batch), int64(s.Prefill), int64(s.Decode),
			int64(s.Again), int64(s.Uncached), int64(s.Preempted), int64(s.Blocks), s.Weights, s.Activations, s.Buffers, s.KV, s.ToGPU, s.ToHost)
	}}
}

// rowLines writes lines of CSV after a header.
type rowLines struct {
	w     io.Writer
	begun bool
	line  []byte
}

func (r *rowLines) write(header, class string, values ...int64) error {
	r.line = r.line[:0]
	if !r.begun {
		r.begun = true
		r.line = append(r.line, header+"\n"...)
	}
	for i, v := range values {
		if i > 0 {
			r.line = append(r.line, ',')
		}
		r.line = strconv.AppendInt(r.line, v, 10)
	}
	_, err := r.w.Write(append(append(r.line, class...), '\n'))
	return err
}

// StepEvents returns functions that write the memory and the requests of iterations in the Trace Event
// Format, which ui.perfetto.dev shows.
func StepEvents(w io.Writer) Rows {
	before, end := "[\n", "[]\n" // of the next event, and of the document
	us := func(ns int64) string { return fmt.Sprintf("%d.%03d", ns/1000, ns%1000) }
	return Rows{
		Step: func(s *StepRow) error {
			_, err := fmt.Fprintf(w, `%[1]s{"name":"memory","ph":"C","pid":1,"ts":%[2]s,"args":{"weights":%[3]d,"activations":%[4]d,"buffers":%[5]d,"KV":%[6]d}},
{"name":"requests","ph":"C","pid":1,"ts":%[2]s,"args":{"running":%[7]d,"waiting":%[8]d}},
{"name":"iteration","ph":"X","pid":1,"tid":1,"ts":%[2]s,"dur":%[9]s,"args":{"prefill tokens":%[10]d,"decode tokens":%[11]d,"preempted":%[12]d}}`,
				before, us(s.Start), s.Weights, s.Activations, s.Buffers, s.KV, s.Running, s.Waiting, us(s.End-s.Start), s.Prefill, s.Decode, s.Preempted)
			before, end = ",\n", "\n]\n"
			return err
		},
		End: func() error {
			_, err := io.WriteString(w, end)
			return err
		},
	}
}
