package advice

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/plan"
)

// Answer is the advice for one or several machines.
type Answer struct {
	// Version is Version.
	Version int `json:"advice_version"`
	// Machine is the advised one: that with the lowest price of a token if all prices are known, else
	// that with most tokens/s per GPU.
	Machine string `json:"machine"`
	// Why says how Machine was chosen, empty for a single machine.
	Why    string    `json:"why,omitempty"`
	Advice []*Advice `json:"advice"`
	// Refused lists the machines for which nothing fits and meets the SLO.
	Refused []Refusal `json:"refused"`
	// Trace is the replayed trace, and Steps the number of decode steps that were priced.
	Trace string `json:"trace"`
	Steps int    `json:"steps"`
}

// Refusal is a machine without advice.
type Refusal struct {
	Machine string `json:"machine"`
	Reason  string `json:"reason"`
}

// Choose sets the advised machine. There must be advice for at least one.
func (r *Answer) Choose() {
	best, priced := r.Advice[0], true
	for _, a := range r.Advice {
		priced = priced && a.DollarsPerMillion != nil
	}
	for _, a := range r.Advice[1:] {
		if priced && *a.DollarsPerMillion < *best.DollarsPerMillion || !priced && a.Advised.Tokens > best.Advised.Tokens {
			best = a
		}
	}
	r.Machine = best.Machine
	if len(r.Advice)+len(r.Refused) < 2 {
		return
	}
	r.Why = "it has the most tokens/s per GPU"
	without := slice.Filter(r.Advice, func(a *Advice) bool { return a.DollarsPerMillion == nil })
	switch {
	case priced:
		r.Why = "its tokens cost least"
	case len(without) < len(r.Advice):
		r.Why += fmt.Sprintf(", because %s has no price", without[0].Machine)
	}
	if near := slice.Filter(r.Advice, func(a *Advice) bool { return a != best && a.overlaps(best) }); near != nil {
		machines := slice.Map(near, func(a *Advice) string { return a.Machine })
		r.Why += fmt.Sprintf(", but the errors of the model may hide the difference to %s", english.WordSeries(machines, "and"))
	}
}

// overlaps reports whether the ranges of tokens per second, or of prices, of two machines overlap. The
// models of two machines have errors of their own.
func (a *Advice) overlaps(b *Advice) bool {
	scale := func(x *Advice) float64 {
		if a.DollarsPerMillion != nil && b.DollarsPerMillion != nil {
			return 1 / (*x.DollarsPerMillion * x.Advised.Tokens) // tokens per dollar, but for a factor
		}
		return 1
	}
	low := func(x *Advice) float64 { return scale(x) * x.Advised.Tokens * x.Advised.TPOT / x.Advised.High }
	high := func(x *Advice) float64 {
		return scale(x) * x.Advised.Tokens * x.Advised.TPOT / max(x.Advised.Low, math.SmallestNonzeroFloat64)
	}
	return low(a) <= high(b) && low(b) <= high(a)
}

// WriteText writes a line for each of several machines. A paragraph about the advised one follows, then
// the options of the engines and the confidence.
func (r *Answer) WriteText(w io.Writer) error {
	var b strings.Builder
	if len(r.Advice)+len(r.Refused) > 1 {
		r.writeMachines(&b)
	}
	a := r.Advice[slices.IndexFunc(r.Advice, func(a *Advice) bool { return a.Machine == r.Machine })]
	b.WriteString(strings.Join(table.Wrap(a.Labels.Title(a.paragraph()), width), "\n") + "\n\n")
	for _, e := range a.Engines {
		fmt.Fprintf(&b, "%s: %s\n", e.Name, cmp.Or(e.Config, "nothing to set"))
		for _, n := range e.Notes {
			fmt.Fprintf(&b, "  note: %s\n", n)
		}
		fmt.Fprintf(&b, "  names from %s\n", strings.Join(e.Sources, " "))
	}
	fmt.Fprintf(&b, "\nConfidence: %s, because\n", a.Confidence)
	for _, reason := range a.Reasons {
		fmt.Fprintf(&b, "- %s\n", reason)
	}
	fmt.Fprintf(&b, "Trace: %s, %s priced. kvreplay plan prints all configurations, and --format json all notes.\n", r.Trace, english.Plural(r.Steps, "step", ""))
	_, err := io.WriteString(w, printable.Text(b.String()))
	return err
}

func (r *Answer) writeMachines(b *strings.Builder) {
	t := table.New("machine", "GPUs", "cache", "policy", "batch", "TPOT", "tokens/s/GPU", "$/million tokens", "bound by").Right(1, 4, 5, 6, 7)
	for _, a := range r.Advice {
		c, price := &a.Advised, "-"
		if a.DollarsPerMillion != nil {
			price = fmt.Sprintf("%.3g", *a.DollarsPerMillion)
		}
		t.Add(a.Machine, max(1, c.Experts), cmp.Or(c.Capacity, "all"), cmp.Or(c.Policy, "-"), c.Batch, c.tpot(), number(c.Tokens), price, c.Limit)
	}
	b.WriteString(t.Text())
	for _, f := range r.Refused {
		fmt.Fprintf(b, "%s: %s\n", f.Machine, f.Reason)
	}
	fmt.Fprintf(b, "Advised: %s, because %s.\n\n", r.Machine, r.Why)
}

// paragraph answers in words.
func (a *Advice) paragraph() string {
	c := &a.Advised
	var s []string
	add := func(format string, args ...any) { s = append(s, fmt.Sprintf(format, args...)) }
	slo := ""
	if a.SLO != nil {
		slo = fmt.Sprintf(" and a TPOT of at most %s", hardware.Seconds(*a.SLO))
	}
	add("%s on %s (%s) with a context of %s tokens%s:", a.Model, a.Machine, pipeline.SharedBy(c.Experts), humanize.Comma(a.Context), slo)
	if c.Policy == "" {
		add("keep all KV on the GPU, without offloading, at a batch of %d.", c.Batch)
	} else {
		add("keep %s (%s a request), evict by %s, and run a batch of %d with schedule %s.",
			a.cache(), hardware.Bytes(c.Bytes), c.Policy, c.Batch, scheduleName(c.Schedule))
	}
	add("This gives %s tokens/s per GPU at a TPOT of %s.", number(c.Tokens), c.tpot())
	if a.SLO != nil && c.High > *a.SLO {
		add("The errors of the model allow up to %s, beyond that limit.", hardware.Seconds(c.High))
	}
	limit := string(c.Limit)
	if c.Limit == plan.BindsSLO {
		limit = "the SLO"
	}
	add("A larger batch is limited by %s, and the largest part of a step is %s (%.0f %%).", limit, c.Cause, 100*c.CauseShare)
	if a.DollarsPerMillion != nil {
		add("A million tokens cost $%.3g.", *a.DollarsPerMillion)
	}
	if a.Gain != nil {
		add("%s", a.Gain.sentence())
	}
	if len(a.Tied) > 0 {
		add("As fast, within the errors of the model: %s.", listCells(a.Tied))
	}
	switch served := a.Served; {
	case c.Policy == "":
	case served == nil:
		add("SGLang, TensorRT-LLM and vLLM evict by LRU and fetch before attention, and so cannot be advised: %s.", a.Refused)
	default:
		add("SGLang, TensorRT-LLM and vLLM evict by LRU and fetch before attention: at %s and a batch of %d that is %s tokens/s at a TPOT of %s.", served.Capacity, served.Batch, number(served.Tokens), served.tpot())
	}
	if all := a.Resident; all != nil && c.Policy != "" {
		add("With all KV on the GPU it is %s tokens/s, at a batch of %d.", number(all.Tokens), all.Batch)
	}
	if d := a.Dense; d != nil {
		add("Attention over the whole context, which gives other answers, reaches %s tokens/s on the GPU.", number(d.Tokens))
	}
	return strings.Join(s, " ")
}

// cache describes the advised cache.
func (a *Advice) cache() string {
	c := &a.Advised
	multiple, tokens := strings.TrimSuffix(c.Capacity, "x")+" × K", humanize.Comma(int64(c.Entries))
	if int64(c.Entries) == a.Context {
		return fmt.Sprintf("the whole context of %s tokens of each request and layer on the GPU, which %s reach", tokens, multiple)
	}
	return fmt.Sprintf("%s = %s tokens of each request and layer on the GPU, %.3g %% of the context", multiple, tokens, 100*c.Share)
}

// sentence states what the policy buys over LRU.
func (g *Gain) sentence() string {
	ratio := fmt.Sprintf("%.3g × its tokens/s [%.3g, %s]", g.Tokens, g.Low, end(g.High))
	if g.Misses != nil {
		ratio += fmt.Sprintf(" and %.3g × its misses", g.Misses.Value)
		if g.Misses.Bounded() {
			ratio += fmt.Sprintf(" [%.3g, %s]", *g.Misses.Low, end(g.Misses.High))
		}
		ratio += fmt.Sprintf(" over %s", english.Plural(g.Requests, "request", ""))
	}
	if g.Better {
		return fmt.Sprintf("%s is better than LRU: %s.", g.Policy, ratio)
	}
	return fmt.Sprintf("No other policy is known to be better than LRU: %s has %s, but %s.", g.Policy, ratio, g.Reason)
}

// end formats the upper end of an interval.
func end(v *float64) string {
	if v == nil {
		return "∞"
	}
	return fmt.Sprintf("%.3g", *v)
}

func (c *Choice) tpot() string {
	return fmt.Sprintf("%.3g ms ±%.0f %%", 1e3*c.TPOT, 100*(&pipeline.Interval{Low: c.Low, High: c.High}).HalfWidth(c.TPOT))
}

// number formats a figure with three digits.
func number(v float64) string {
	if v < 1000 {
		return fmt.Sprintf("%.3g", v)
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-2)
	return humanize.Comma(int64(math.Round(v/unit) * unit))
}

// listCells names the first of several cells.
func listCells(cells []pipeline.Cell) string {
	const most = 6
	var names []string
	for i, c := range cells {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(cells)-i))
			break
		}
		names = append(names, c.String())
	}
	return english.WordSeries(names, "and")
}

// width is that of a line of the paragraph.
const width = 100
