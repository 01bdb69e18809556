package systems

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// Row is a system with its figures. Figures that a system has none of are nil.
type Row struct {
	Name   string `json:"system"`
	Title  string `json:"title"`
	Source string `json:"source"`
	Kind   Kind   `json:"kind"`
	// Traces are the names of the replayed traces.
	Traces []string `json:"traces"`
	// Requests is the number of requests in these traces.
	Requests int    `json:"requests,omitempty"`
	Policy   string `json:"policy,omitempty"`
	// K is the tokens that a head selects in a step. Scale is K ÷ the K of the traces.
	K     int     `json:"topk,omitempty"`
	Scale float64 `json:"scale,omitempty"`
	// Capacity is the tokens of the context that a stream keeps, without pinned ones. Multiple is
	// Capacity ÷ K.
	Capacity *float64 `json:"capacity_tokens"`
	Multiple *float64 `json:"capacity_x"`
	// Recall is the share of the exact Top-K that a step attends to: SelectorRecall, multiplied with Kept
	// if entries are dropped.
	Recall *float64 `json:"recall"`
	// SelectorRecall is the share of the exact Top-K that the selector found. Mass is the attention mass of
	// its Top-K ÷ that of the exact one, nil if entries are dropped. Both are means over the traces,
	// measured at capture.
	SelectorRecall *float64 `json:"selector_recall"`
	Mass           *float64 `json:"selector_mass"`
	// Kept is the share of the demand that a lossy policy had not dropped.
	Kept *float64 `json:"kept"`
	// HitRate is the share of the demanded blocks that were on the GPU.
	HitRate *float64 `json:"hit_rate"`
	// TimesOPT is misses ÷ those of the optimum at this capacity.
	TimesOPT *float64 `json:"times_opt"`
	// Running is the number of requests that decode at once. The others wait.
	Running int `json:"running,omitempty"`
	// TPOT is the time per output token of a request, in seconds, with its interval. It includes the
	// wait of preempted requests. P50 and P99 are percentiles of the steps, 0 if requests wait.
	TPOT     float64           `json:"tpot_s,omitzero"`
	Interval pipeline.Interval `json:"tpot_interval,omitzero"`
	P50      float64           `json:"tpot_p50_s,omitzero"`
	P99      float64           `json:"tpot_p99_s,omitzero"`
	// Tokens is the tokens per second of all requests on one GPU.
	Tokens float64 `json:"tokens_per_s_gpu,omitzero"`
	// Gain is Tokens ÷ those of the fastest system with dense attention that fits.
	Gain *float64 `json:"gain"`
	// Rank is the place among the rows of its kind, "1=" in a tie. It is "-" without times.
	Rank string `json:"rank"`
	// Pareto is true if no system of this kind has a shorter TPOT in as little GPU memory.
	Pareto bool `json:"pareto"`
	// MissesSLO is true if TPOT exceeds the SLO.
	MissesSLO bool `json:"misses_slo"`
	// H2D is the bytes from the host to the GPU in a step. It is nil without times.
	H2D    *float64        `json:"h2d_bytes_per_step,omitempty"`
	Memory pipeline.Memory `json:"memory"`
	Labels result.Labels   `json:"labels"`
	// Verdict is the reason that the system has no times. It is empty if everything fits.
	Verdict      string   `json:"verdict,omitempty"`
	Approximates []string `json:"approximates"`
	Notes        []string `json:"notes"`

	context int64
	priced  priced
}

func newRow(s *System) *Row {
	return &Row{Name: s.Name, Title: s.Title, Source: s.Source, Policy: s.Keep.Policy,
		Traces: []string{}, Approximates: slices.Clone(append([]string{}, s.Approximates...)), Notes: []string{}}
}

// Fits reports whether the row has times.
func (r *Row) Fits() bool { return r.Verdict == "" }

// set takes the figures of a price.
func (r *Row) set(p *pipeline.Result) {
	r.Memory, r.Labels, r.Notes = p.Memory, p.Labels, p.Notes
	if !p.Fits() {
		r.Verdict = blame(&p.Memory)
		return
	}
	r.Verdict, r.Running = "", p.Batch
	r.TPOT, r.Interval, r.Tokens, r.H2D = p.TPOT, p.Interval, p.Tokens, new(p.H2D)
	r.P50, r.P99 = p.P50/p.Accept, p.P99/p.Accept
}

// refuse sets the reason that the row has no times, and drops those that it has.
func (r *Row) refuse(why string) {
	r.Verdict = why
	r.TPOT, r.P50, r.P99, r.Tokens, r.H2D, r.Running, r.Interval = 0, 0, 0, 0, nil, 0, pipeline.Interval{}
}

// take takes the figures of a measurement. cached is false if the policy only stands for a demand.
func (r *Row) take(m *measured, cached bool) {
	r.set(m.Result)
	r.priced = m.priced
	if !cached {
		return
	}
	if m.demand > 0 {
		rate := 1 - float64(m.misses+m.lost)/float64(m.demand)
		if m.lossy {
			r.Kept, r.Mass = &rate, nil
			r.Recall = m.recall(r.SelectorRecall)
		} else {
			r.HitRate = &rate
		}
	}
	if m.entries > 0 && r.K > 0 {
		tokens := min(float64(m.entries)*r.Scale, float64(r.context))
		multiple := tokens / float64(r.K)
		r.Capacity, r.Multiple = &tokens, &multiple
	}
}

// preempt changes the times of p, which has fewer requests than batch. All requests take turns: each
// generates turn tokens, then leaves the GPU, waits and comes back. That takes the GPU's time, too.
// hosted are the bytes that host memory holds for all requests.
func (r *Row) preempt(p *pipeline.Result, batch, turn int, resume *pipeline.Resumed, hosted float64) {
	step, back := p.TPOT/float64(p.Batch), resume.Seconds/float64(turn) // of the GPU for one token
	r.TPOT, r.Tokens = (step+back)*float64(batch), 1/(step+back)
	r.P50, r.P99 = 0, 0 // steps are shorter than a token takes
	r.Interval = p.Interval.Plus(&resume.Interval, step*float64(batch), back*float64(batch))
	*r.H2D += resume.Bytes * float64(p.Batch) / float64(turn)
	if r.Memory.Host += hosted; r.Memory.Host > r.Memory.HostHas {
		r.refuse(r.Memory.HostVerdict(r.priced.options.Machine))
		return
	}
	r.Notes = append(r.Notes, fmt.Sprintf("%d of %d requests run at once; each leaves the GPU after %d tokens and comes back in %s", p.Batch, batch, turn, hardware.Seconds(resume.Seconds)))
}

// At prices the decode steps of the row at another batch and context, with the misses of its
// replay. A context shorter than K is selected as a whole. Goroutines may call it at the same time.
func (r *Row) At(ctx context.Context, batch int, tokens int64) (*pipeline.Result, error) {
	if !r.Fits() {
		return nil, fmt.Errorf("system %s does not fit: %s", r.Name, r.Verdict)
	}
	o := r.priced.options
	o.Batch, o.Context, o.Scaling = max(batch, o.Schedule.Parts()), tokens, o.Scaling.Within(tokens)
	return pipeline.Price(ctx, r.priced.profile, o)
}

// WriteTimeline writes the median step of a row in the Trace Event Format, as `kvreplay time` does. A
// row without times has none.
func (r *Row) WriteTimeline(ctx context.Context, w io.Writer) error {
	if !r.Fits() {
		return fmt.Errorf("system %s has no times: %s", r.Name, r.Verdict)
	}
	return pipeline.WriteTimeline(ctx, w, r.priced.profile, r.priced.options)
}

// judge compares the rows with each other.
func (q *Question) judge(rows []*Row) {
	best := 0.
	for _, r := range rows {
		if r.Fits() && r.Kind == Dense {
			best = max(best, r.Tokens)
		}
	}
	for _, r := range rows {
		if !r.Fits() {
			continue
		}
		if best > 0 {
			gain := r.Tokens / best
			r.Gain = &gain
		}
		r.MissesSLO = q.SLO > 0 && r.TPOT > q.SLO
	}
	MarkFront(rows)
	for _, k := range kinds {
		of, places := ranked(rows, k)
		for i, r := range of {
			r.Rank = places[i]
		}
	}
}

// MarkFront sets Pareto of the rows, compared with each other.
func MarkFront(rows []*Row) {
	for _, r := range rows {
		r.Pareto = r.Fits() && !slices.ContainsFunc(rows, func(o *Row) bool {
			return o.Fits() && o.Kind == r.Kind && o.TPOT <= r.TPOT && o.Memory.GPU <= r.Memory.GPU && (o.TPOT < r.TPOT || o.Memory.GPU < r.Memory.GPU)
		})
	}
}

// kinds are the kinds in the order of tables.
var kinds = []Kind{Dense, Sparse, Lossy, Oracle}

// ByKind returns the rows in the order of the kinds, and otherwise in their own.
func ByKind(rows []*Row) []*Row {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b *Row) int { return slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind) })
	return rows
}

// ranked returns the rows of a kind by rank, and then by tokens/s. Those without times follow, in the
// order of the list. They and oracles have the rank "-".
func ranked(rows []*Row, k Kind) (of []*Row, places []string) {
	all := slice.Filter(rows, func(r *Row) bool { return r.Kind == k })
	slices.SortStableFunc(all, func(a, b *Row) int { return cmp.Compare(b.Tokens, a.Tokens) })
	fit := slices.IndexFunc(all, func(r *Row) bool { return !r.Fits() })
	if fit < 0 {
		fit = len(all)
	}
	order, places := pipeline.Places(fit, func(first, later int) bool {
		return all[first].Interval.Hides(&all[later].Interval, all[first].Tokens, all[later].Tokens)
	})
	of = append(slice.Map(order, func(i int) *Row { return all[i] }), all[fit:]...)
	for i := range of {
		if i >= fit {
			places = append(places, "-")
		} else if k == Oracle {
			places[i] = "-"
		}
	}
	return of, places
}

var headings = map[Kind]string{
	Dense:  "dense attention",
	Sparse: "sparse attention, every entry can come back",
	Lossy:  "lossy: entries are dropped or lose precision",
	Oracle: "oracles know more than a real system: not ranked",
}

// Report returns a table for each kind. Approximations and common notes follow.
func (q *Question) Report(rows []*Row) *table.Report {
	k := fmt.Sprintf("K = %d tokens", q.TopK)
	if q.Recall > 0 {
		k = fmt.Sprintf("K for a recall of %.6g %% of the exact Top-%d", 100*q.Recall, q.TopK)
	}
	setting := fmt.Sprintf("%s on %s (%s): batch %d of each GPU, context %d, %s, GPU memory %s", q.Model.Name, q.Machine.Name, pipeline.SharedBy(q.expertGPUs()), q.Batch, q.Context, k, q.Machine.GPU.Memory.Value)
	report := &table.Report{Title: setting}
	for _, k := range kinds {
		of, places := ranked(rows, k)
		if len(of) == 0 {
			continue
		}
		t := table.New("#", "system", "K", "capacity", "recall", "mass", "hits, kept", "× OPT", "bytes/step", "TPOT", "p99", "tokens/s", "gain", "GPU", "index", "host", "remark")
		t.Title = headings[k]
		for i, rank := range places {
			t.AddTexts(of[i].cells(rank, q.Batch))
		}
		report.Tables = append(report.Tables, t.Right(2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15))
	}
	said := map[string]bool{} // an ablation repeats the departures of its system
	for _, r := range rows {
		base, _, _ := strings.Cut(r.Name, "/")
		for _, a := range r.Approximates {
			if !said[base+a] {
				report.Footnotes = append(report.Footnotes, fmt.Sprintf("%s: %s", r.Name, a))
			}
			said[base+a] = true
		}
	}
	if slices.ContainsFunc(rows, func(r *Row) bool { return r.Fits() && r.Kept != nil && q.Recall == 0 }) {
		report.Footnotes = append(report.Footnotes, "note: lossy systems attend to all that they keep, so a larger cache is slower (--recall gives each the least that suffices)")
	}
	for _, n := range common(rows) {
		report.Footnotes = append(report.Footnotes, "note: "+n)
	}
	return report
}

// Finding names the fastest systems of each kind, in one sentence.
func Finding(rows []*Row) string {
	var parts []string
	for _, k := range kinds {
		of, places := ranked(rows, k)
		var best []string
		for i, place := range places {
			if strings.TrimSuffix(place, "=") == "1" {
				best = append(best, of[i].Name)
			}
		}
		switch {
		case len(best) == 1:
			parts = append(parts, fmt.Sprintf("%s is the fastest %s system (%s per token)", best[0], k, hardware.Seconds(of[0].TPOT)))
		case len(best) > 1:
			parts = append(parts, fmt.Sprintf("%s tie as the fastest %s systems (%s per token)", strings.Join(best, ", "), k, hardware.Seconds(of[0].TPOT)))
		}
	}
	if parts == nil {
		return "No system fits."
	}
	return strings.Join(parts, ", ") + "."
}

// WriteTable writes the setting, and the report as text.
func (q *Question) WriteTable(w io.Writer, rows []*Row) error {
	report := q.Report(rows)
	if _, err := fmt.Fprintf(w, "%s\n\n", printable.Line(report.Title)); err != nil {
		return err
	}
	return report.Text(w)
}

// cells are the texts of the row in its table.
func (r *Row) cells(rank string, batch int) []string {
	share := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%.1f %%", 100*(*v))
	}
	times := func(v *float64, format string) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf(format, *v)
	}
	k := "-"
	if r.K > 0 {
		k = strconv.Itoa(r.K)
	}
	cells := []string{rank, r.Name, k, "-", share(r.Recall), share(r.Mass), "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", r.Verdict}
	if !r.Fits() {
		return cells
	}
	p99 := "-"
	if r.P99 > 0 {
		p99 = hardware.Seconds(r.P99).String()
	}
	var remarks []string
	if r.MissesSLO {
		remarks = append(remarks, "misses the SLO")
	}
	if r.Running < batch {
		remarks = append(remarks, fmt.Sprintf("%d at once", r.Running))
	}
	if r.Pareto {
		remarks = append(remarks, "Pareto")
	}
	return append(cells[:3], times(r.Multiple, "%.3g×K"), cells[4], cells[5], share(cmp.Or(r.Kept, r.HitRate)), times(r.TimesOPT, "%.2f"), hardware.Bytes(*r.H2D).String(),
		fmt.Sprintf("%s ±%.0f %%", hardware.Seconds(r.TPOT), 100*r.Interval.HalfWidth(r.TPOT)), p99, text.Rate(r.Tokens, 4),
		times(r.Gain, "%.2f"), hardware.Bytes(r.Memory.GPU).String(), hardware.Bytes(r.Memory.Index).String(), hardware.Bytes(r.Memory.Host).String(), strings.Join(remarks, ", "))
}

// common returns the notes of all rows that have notes. It also returns the replayed requests, the
// selections and the scales of some rows, with the names of their systems. Other notes are in the JSON form.
func common(rows []*Row) (notes []string) {
	with := slice.Filter(rows, func(r *Row) bool { return len(r.Notes) > 0 })
	of := map[string][]string{} // names of systems
	var order []string
	for _, r := range with {
		for _, n := range slices.Concat(r.replayed(), r.Notes) {
			if of[n] == nil {
				order = append(order, n)
			}
			of[n] = append(of[n], r.Name)
		}
	}
	for _, n := range order {
		kind, _, _ := strings.Cut(n, ": ")
		switch {
		case len(of[n]) == len(with):
			notes = append(notes, n)
		case slices.Contains([]string{"replayed", "selection", "scaled"}, kind):
			notes = append(notes, n+" ("+firstOf(of[n])+")")
		}
	}
	return notes
}

// replayed names the traces of a row and counts their requests.
func (r *Row) replayed() []string {
	if r.Requests == 0 {
		return nil
	}
	return []string{fmt.Sprintf("replayed: %s of %s", english.Plural(r.Requests, "request", ""), firstOf(r.Traces))}
}

// firstOf joins the first of several names.
func firstOf(names []string) string {
	const most = 3
	if len(names) > most+1 {
		names = append(slices.Clone(names[:most]), fmt.Sprintf("%d more", len(names)-most))
	}
	return strings.Join(names, ", ")
}

// ReadJSON reads the rows of a JSON file that kvreplay systems printed. Rows without a name, or with times or memory
// that cannot be, are errors.
func ReadJSON(file string, text []byte) (rows []*Row, err error) {
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, fmt.Errorf("%s: %w: expected an output of kvreplay systems --format json", file, err)
	}
	for i, r := range rows {
		switch {
		case r == nil || r.Name == "" || !slices.Contains(kinds, r.Kind):
			return nil, fmt.Errorf("%s: system %d has no name or kind: expected an output of kvreplay systems --format json", file, i+1)
		case r.Fits() && !(r.TPOT > 0 && r.Memory.GPU > 0 && r.Interval.Low <= r.TPOT && r.Interval.High >= r.TPOT && r.Interval.Low > 0):
			return nil, fmt.Errorf("%s: system %q: a time of %g s in [%g, %g] and %g bytes: expected more than 0", file, r.Name, r.TPOT, r.Interval.Low, r.Interval.High, r.Memory.GPU)
		}
	}
	return rows, nil
}

// WriteCSV writes a line for each row, with its setting. Times are seconds, sizes bytes, shares of 1.
// Figures that a system has none of are empty.
func (q *Question) WriteCSV(w io.Writer, rows []*Row) error {
	t := table.New("system", "kind", "rank", "machine", "model", "context", "batch", "expert_gpus", "traces", "requests", "policy", "topk", "capacity_tokens", "recall", "selector_recall", "selector_mass", "kept", "hit_rate", "times_opt",
		"running", "tpot_s", "tpot_low_s", "tpot_high_s", "tpot_p50_s", "tpot_p99_s", "tokens_per_s_gpu", "gain", "pareto", "misses_slo", "h2d_bytes_per_step",
		"weights_bytes", "index_bytes", "cache_bytes", "staging_bytes", "reserve_bytes", "gpu_bytes", "host_bytes", "ssd_bytes", "verdict", "approximates")
	for _, r := range rows {
		m := &r.Memory
		bytes := func(v float64) any {
			if m.GPUHas == 0 { // no replay tells the memory
				return nil
			}
			return v
		}
		t.Add(r.Name, r.Kind, strings.Trim(r.Rank, "-"), q.Machine.Name, q.Model.Name, q.Context, q.Batch, q.expertGPUs(), strings.Join(r.Traces, " "), table.NonZero(r.Requests), r.Policy, table.NonZero(r.K), r.Capacity, r.Recall, r.SelectorRecall, r.Mass, r.Kept, r.HitRate, r.TimesOPT,
			table.NonZero(r.Running), table.NonZero(r.TPOT), table.NonZero(r.Interval.Low), table.NonZero(r.Interval.High), table.NonZero(r.P50), table.NonZero(r.P99), table.NonZero(r.Tokens), r.Gain, r.Pareto, r.MissesSLO, r.H2D,
			bytes(m.Weights), bytes(m.Index), bytes(m.Cache), bytes(m.Staging), bytes(m.Reserve), bytes(m.GPU), bytes(m.Host), bytes(m.SSD), r.Verdict, strings.Join(r.Approximates, "; "))
	}
	return t.CSV(w)
}

// expertGPUs returns the number of GPUs that share routed experts.
func (q *Question) expertGPUs() int {
	return cmp.Or(q.Experts, pipeline.ExpertGPUs(q.Model, q.Machine.GPU, q.Machine.Stated))
}
