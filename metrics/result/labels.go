package result

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// Labels are the conditions that limit the figures of a row, a table or a plot. Every title states
// them in brackets. Each text has one spelling, given by the constants and functions below, and a
// set keeps their order.
type Labels []string

// The labels without a number.
const (
	// LabelSynthetic: the lists were drawn from a random process, without a model.
	LabelSynthetic = "synthetic trace"
	// LabelOneRequest: the figures rest on one request, so they have no intervals.
	LabelOneRequest = "1 request"
	// LabelStretched: profiled layers are used for other layers of the model.
	LabelStretched = "layers stretched"
	// LabelLossyEntries: K and V on the GPU are not those of the model.
	LabelLossyEntries = "lossy entries"
	// LabelReadAhead: the share of SSD reads that are named ahead is assumed.
	LabelReadAhead = "read-ahead assumed"
	// LabelOracleSchedule: the schedule predicts more misses than the profile measured.
	LabelOracleSchedule = "oracle schedule"
	// LabelOraclePolicy: the policy sees the future.
	LabelOraclePolicy = "oracle policy"
	// LabelFitted: a constant of a price was fitted to measurements, it was not measured.
	LabelFitted = "fitted constant"
	// LabelConfig: the shape of the model was derived from a config.json.
	LabelConfig = "derived from config.json"
)

// The labels that end in a factor.
const (
	scaledK     = "K scaled ×"
	scaledHeads = "heads scaled ×"
)

// LabelScaledK says that counts were scaled to another K by a factor.
func LabelScaledK(factor float64) string { return fmt.Sprintf("%s%.3g", scaledK, factor) }

// LabelScaledHeads says that the counts of a layer were scaled to more or fewer heads.
func LabelScaledHeads(factor float64) string { return fmt.Sprintf("%s%.3g", scaledHeads, factor) }

// labelOrder is the order of labels in a title, by how they begin.
var labelOrder = []string{LabelSynthetic, LabelOneRequest, scaledK, scaledHeads, LabelStretched, LabelLossyEntries, LabelReadAhead, LabelOracleSchedule, LabelOraclePolicy, LabelFitted, LabelConfig}

func labelRank(label string) int {
	i := slices.IndexFunc(labelOrder, func(begin string) bool { return strings.HasPrefix(label, begin) })
	if i < 0 {
		return len(labelOrder)
	}
	return i
}

// With returns the union of l and more, in the order of titles.
func (l Labels) With(more ...string) Labels {
	all := append(slices.Clone(l), more...)
	slices.SortFunc(all, func(a, b string) int {
		if d := labelRank(a) - labelRank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(all)
}

// Without returns the labels that others lacks.
func (l Labels) Without(others Labels) Labels {
	return slices.DeleteFunc(slices.Clone(l), func(label string) bool { return slices.Contains(others, label) })
}

const labelSeparator = ", "

// String joins the labels with commas, as in a row.
func (l Labels) String() string { return strings.Join(l, labelSeparator) }

// ParseLabels parses the output of String.
func ParseLabels(text string) Labels {
	if text == "" {
		return nil
	}
	return strings.Split(text, labelSeparator)
}

// Title puts the labels in brackets before a title: "[synthetic trace, 1 request] Title".
func (l Labels) Title(title string) string {
	if len(l) == 0 {
		return title
	}
	return "[" + l.String() + "] " + title
}

// SharedLabels returns the labels of several things together. A label that only some of them have
// states its share: "synthetic trace: 2 of 7 traces". The plural names the things.
func SharedLabels(of []Labels, plural string) (shared Labels) {
	var all Labels
	for _, l := range of {
		all = all.With(l...)
	}
	for _, label := range all {
		n := slice.Count(of, func(l Labels) bool { return slices.Contains(l, label) })
		if n < len(of) {
			label = fmt.Sprintf("%s: %d of %d %s", label, n, len(of), plural)
		}
		shared = append(shared, label)
	}
	return shared
}

// TraceLabels returns the row's labels that hold for every policy on its trace.
func (r *Row) TraceLabels() Labels {
	return ParseLabels(r.Labels).Without(Labels{LabelOraclePolicy})
}
