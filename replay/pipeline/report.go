package pipeline

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// WriteTable writes results of one model, batch and cell as text: a column of figures for one
// result, one line each for several, and the notes.
func WriteTable(w io.Writer, results []*Result) error {
	if len(results) == 1 {
		return writeOne(w, results[0])
	}
	return Report(results).Text(w)
}

// Report returns a table with a line for each result, and the notes.
func Report(results []*Result) *table.Report {
	first, labels := results[0], SharedLabels(results)
	header := []string{"machine", "schedule", "step p50", "p95", "p99", "TPOT"}
	if first.TTFT > 0 { // all results then have it
		header = append(header, "TTFT")
	}
	t := table.New(append(header, "tokens/s/request", "tokens/s", "exposed transfers", "GPU memory", "does not fit")...)
	t.Title = labels.Title(fmt.Sprintf("%s, batch %d, %s, %s", first.Model, first.Batch, first.work(), text.Count(int(first.Steps), "step")))
	for _, r := range results {
		row := []string{r.Machine, r.ScheduleText(labels), seconds(r.P50), seconds(r.P95), seconds(r.P99), r.tpot()}
		if first.TTFT > 0 {
			row = append(row, r.ttft())
		}
		t.AddTexts(append(row, text.Rate(r.OTPS, 4), text.Rate(r.Tokens, 4), seconds(r.Causes.Transfers()), size(r.Memory.GPU), r.Memory.Verdict))
	}
	for c := 2; c < len(t.Header)-1; c++ {
		t.Right(c)
	}
	return &table.Report{Title: t.Title, Tables: []*table.Table{t}, Footnotes: Notes(results)}
}

func seconds(v float64) string { return hardware.Seconds(v).String() }
func size(v float64) string    { return hardware.Bytes(v).String() }

// work names the priced work: a cell of a replay, or described requests.
func (r *Result) work() string { return cmp.Or(r.Requests, r.Cell.String()) }

func writeOne(w io.Writer, r *Result) error {
	t := table.New()
	t.Title = r.Labels.Title(fmt.Sprintf("%s on %s, batch %d, %s, %s", r.Model, r.Machine, r.Batch, r.Schedule, r.work()))
	line := func(name, format string, args ...any) { t.Add(name, fmt.Sprintf(format, args...)) }
	line("step", "p50 %s  p95 %s  p99 %s  mean %s, of %d steps", seconds(r.P50), seconds(r.P95), seconds(r.P99), seconds(r.Mean), r.Steps)
	line("TPOT", "%s at %g tokens a step", r.tpot(), r.Accept)
	if r.TTFT > 0 {
		line("TTFT", "%s, of all %d requests", r.ttft(), r.Batch)
	}
	line("tokens/s", "%s a request, %s a GPU", text.Rate(r.OTPS, 4), text.Rate(r.Tokens, 4))
	for i, v := range r.Causes {
		if v > 0 {
			line("of it "+schedule.CauseNames[i], "%-9s %5.1f %%", seconds(v), 100*v/r.Mean)
		}
	}
	line("moved a step", "%s to the GPU in %.0f pieces, %s back", size(r.H2D), r.Pieces, size(r.D2H))
	if r.Recomputed > 0 {
		line("recomputed", "%.1f positions of each request", r.Recomputed)
	}
	if r.SSD > 0 {
		line("", "%s from the SSD in %.0f reads", size(r.SSD), r.Reads)
	}
	m := &r.Memory
	line("GPU memory", "%s of %s: weights %s, index %s, cache %s, staging %s, reserve %s", size(m.GPU), size(m.GPUHas), size(m.Weights), size(m.Index), size(m.Cache), size(m.Staging), size(m.Reserve))
	shared := ""
	if m.sharing > 1 && m.Host > 0 {
		shared = fmt.Sprintf(", for the batches of %d GPUs that share it", m.sharing)
	}
	line("host memory", "%s of %s%s", size(m.Host), size(m.HostHas), shared)
	if m.SSD > 0 {
		line("SSD", "%s", size(m.SSD))
	}
	if !r.Fits() {
		line("does not fit", "%s", m.Verdict)
	}
	return (&table.Report{Tables: []*table.Table{t}, Footnotes: Notes([]*Result{r})}).Text(w)
}

// Notes lists each note once. It names the results that have it, unless all do.
func Notes(results []*Result) (lines []string) {
	var all []string
	for _, r := range results {
		all = slice.Add(all, r.Notes...)
	}
	for _, n := range all {
		prefix := "note: "
		about := slice.Filter(slice.Indices(len(results)), func(i int) bool { return slices.Contains(results[i].Notes, n) })
		if len(about) < len(results) {
			prefix += concerned(results, about) + ": "
		}
		lines = append(lines, prefix+n)
	}
	return lines
}

// concerned names some of the results by their machines or by their schedules. It uses both if
// other results share them.
func concerned(results []*Result, some []int) (text string) {
	for _, name := range []func(r *Result) string{
		func(r *Result) string { return r.Machine },
		func(r *Result) string { return shortName(results, r) },
		func(r *Result) string { return r.Machine + " " + shortName(results, r) },
	} {
		var names []string
		for _, i := range some {
			names = slice.Add(names, name(results[i]))
		}
		all := slice.Count(results, func(r *Result) bool { return slices.Contains(names, name(r)) })
		if text = strings.Join(names, ", "); all == len(some) {
			break
		}
	}
	return text
}

// shortName returns a schedule without its options, unless another one differs only in them.
func shortName(results []*Result, one *Result) string {
	name, _, _ := strings.Cut(one.Schedule, ":")
	for _, r := range results {
		if other, _, _ := strings.Cut(r.Schedule, ":"); other == name && r.Schedule != one.Schedule {
			return one.Schedule
		}
	}
	return name
}

// LargestCause returns the cause with the largest part of a step, by its name in CauseNames, and its
// share of the step.
func (r *Result) LargestCause() (name string, share float64) {
	for i, v := range r.Causes {
		if v/r.Mean > share {
			name, share = schedule.CauseNames[i], v/r.Mean
		}
	}
	return name, share
}

// WriteJSON writes the results as an array.
func WriteJSON(w io.Writer, results []*Result) error { return text.WriteJSON(w, results) }

// WriteCSV writes one line per result. Times are seconds, sizes bytes.
func WriteCSV(w io.Writer, results []*Result) error {
	header := []string{"machine", "model", "schedule", "policy", "capacity", "batch", "steps", "tokens_per_step", "step_mean_s", "step_p50_s", "step_p95_s", "step_p99_s", "tpot_s", "tokens_per_s_request", "tokens_per_s_gpu", "tpot_low_s", "tpot_high_s", "ttft_s", "ttft_low_s", "ttft_high_s"}
	for c := range schedule.Causes {
		header = append(header, "exposed_"+c.Key()+"_s")
	}
	header = append(header, "h2d_bytes_per_step", "d2h_bytes_per_step", "ssd_bytes_per_step", "gpu_bytes", "host_bytes", "does_not_fit", "labels", "requests")
	t := table.New(header...)
	text := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	for _, r := range results {
		row := []string{r.Machine, r.Model, r.Schedule, r.Policy, r.Capacity, strconv.Itoa(r.Batch), strconv.Itoa(r.Steps), text(r.Accept)}
		for _, v := range []float64{r.Mean, r.P50, r.P95, r.P99, r.TPOT, r.OTPS, r.Tokens, r.Interval.Low, r.Interval.High} {
			row = append(row, text(v))
		}
		if v := r.TTFTInterval; v != nil {
			row = append(row, text(r.TTFT), text(v.Low), text(v.High))
		} else { // a replay states no prompt
			row = append(row, "", "", "")
		}
		for _, v := range r.Causes {
			row = append(row, text(v))
		}
		for _, v := range []float64{r.H2D, r.D2H, r.SSD, r.Memory.GPU, r.Memory.Host} {
			row = append(row, text(v))
		}
		t.AddTexts(append(row, r.Memory.Verdict, r.Labels.String(), r.Requests))
	}
	return t.CSV(w)
}
