package advice

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// The levels of confidence. Low: the selections are not those of the model, or one request or a random
// process gave them. Medium: another reason limits the figures. High: none but that times are modelled.
const (
	high = iota
	medium
	low
)

var levels = [...]string{"high", "medium", "low"}

// fewRequests is the number of requests below which board.Compare tests nothing.
const fewRequests = 6

// confidence returns the level and the reasons for it, the graver ones first.
func (q *Question) confidence(p *pipeline.Profile, a *Advice) (level string, reasons []string) {
	worst := high
	add := func(level int, format string, args ...any) {
		reasons = append(reasons, fmt.Sprintf(format, args...))
		worst = max(worst, level)
	}
	has := func(label string) bool {
		return slices.ContainsFunc(a.Labels, func(l string) bool { return strings.HasPrefix(l, label) })
	}
	if has(result.LabelSynthetic) {
		add(low, "the trace is synthetic: a random process drew its selections")
	}
	switch n := len(p.Requests); {
	case n == 1:
		add(low, "the trace has one request, so nothing is known about others")
	case n < fewRequests:
		add(medium, "the trace has only %d requests", n)
	}
	if own := p.Meta.Model; own == "" {
		add(low, "the trace does not state its model")
	} else if !sameModel(own, a.Model) {
		source := "the trace"
		if q.Bundled {
			source = "the bundled trace, because --trace names none,"
		}
		add(low, "%s has %s of %s, not of %s", source, english.Plural(len(p.Requests), "request", ""), own, a.Model)
	}
	if q.Model.Indexer == nil {
		add(low, "%s has no Top-K attention of its own: a selector changes its answers", a.Model)
	}
	for _, l := range a.Labels {
		if strings.HasPrefix(l, "K scaled") || strings.HasPrefix(l, "heads scaled") {
			add(medium, "%s", l)
		}
	}
	if has(result.LabelStretched) {
		add(medium, "%s of the trace stand for the %g of the model", english.Plural(len(p.Layers), "layer", ""), q.Model.Layers.Value)
	}
	if own := Share(p); own > 0 {
		if mine := float64(a.TopK) / float64(a.Context); own > 1.5*mine || mine > 1.5*own {
			add(medium, "K is %.1f %% of the context, in the trace %.1f %%", 100*mine, 100*own)
		}
	}
	if q.Model.FromConfig() {
		add(medium, "the model's shape is derived from its config.json")
	}
	if q.Machine.Note != "" {
		add(medium, "parts of the machine are assumed")
	}
	add(high, "times are modelled: ± has the errors of the model, no deployment was measured")
	return levels[worst], reasons
}

// Share returns K ÷ the prompt of the first request of a profile, 0 if it is not known.
func Share(p *pipeline.Profile) float64 {
	first := p.Requests[0].Steps[0]
	if len(first) == 0 || first[0].Prompt < 1 {
		return 0
	}
	unit := max(1, p.Meta.ListTokens)
	if p.Meta.ListTokens == 0 {
		unit = max(1, p.Meta.BlockTokens)
	}
	return float64(p.Meta.TopK*unit) / float64(first[0].Prompt)
}

// sameModel reports whether a trace's model is the priced one, whatever case, owner and ending.
func sameModel(trace, model string) bool {
	trace = strings.ToLower(trace[strings.LastIndex(trace, "/")+1:])
	return strings.HasPrefix(trace, strings.ToLower(model))
}
