package inspect

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/trace/locality"
)

// mostRequests is the largest number of requests in the text.
const mostRequests = 20

// Text writes the report as text.
func (r *Report) Text(w io.Writer) error {
	parts := []string{printable.Line(r.Path) + "\n" + r.facts(), r.requests(),
		fmt.Sprintf("Locality of the demand: first K = %d of each list, counted steps\n%s", r.TopK, r.whole())}
	if r.Locality.ByLayer != nil {
		parts = append(parts, "By layer\n"+r.byLayer())
	}
	_, err := io.WriteString(w, strings.Join(parts, "\n"))
	return err
}

// facts returns metadata and extent, one field per row.
func (r *Report) facts() string {
	m := &r.Metadata
	t := table.New()
	row := func(name, value string) {
		if value != "" {
			t.Add(name, value)
		}
	}
	row("bytes", fmt.Sprintf("%s (%.2f per index)", humanize.Comma(r.Bytes), float64(r.Bytes)/float64(max(1, r.Indices))))
	digest := "not stated"
	if r.Digest != nil {
		digest = *r.Digest
	}
	row("digest", digest)
	row("order, K, M", fmt.Sprintf("%s, %d, %d", m.Order, m.TopK, m.Candidates))
	row("list length", r.List.String())
	row("block_tokens", strconv.Itoa(m.BlockTokens))
	row("sink, local", optional(m.Sink)+", "+optional(m.Local))
	if m.EntryBytes > 0 {
		row("entry_bytes", strconv.Itoa(m.EntryBytes))
	}
	for _, f := range [][2]string{{"selector", m.Selector}, {"reducer", m.Reducer}, {"score_kind", m.ScoreKind}, {"model", m.Model},
		{"generator", m.Generator}, {"decoding", m.Decoding}, {"licence", m.Licence}} {
		row(f[0], f[1])
	}
	row("columns", strings.Join(r.Columns, ", "))
	row("streams, rows", humanize.Comma(int64(r.Streams))+", "+humanize.Comma(r.Rows))
	row("indices", humanize.Comma(r.Indices))
	row("layers", ranges(r.Layers))
	row("heads", cmp.Or(ranges(r.Heads), "shared by the layer"))
	row("steps, windows", r.Steps.String()+", "+r.Windows.String()+" per stream")
	row("prompt_len", r.PromptLen.String())
	for _, k := range slices.Sorted(maps.Keys(m.Notes)) {
		row("note "+k, m.Notes[k])
	}
	return t.Text()
}

func (r *Report) requests() string {
	t := table.New("request", "prompt_len", "streams", "steps", "windows").RightFrom(1)
	for i, q := range r.Requests {
		if i == mostRequests {
			t.Add(fmt.Sprintf("… and %d more", len(r.Requests)-i))
			break
		}
		t.Add(q.ID, q.PromptLen, q.Streams, q.Steps, q.Windows)
	}
	return t.Text()
}

// whole returns the pooled locality, one figure per row.
func (r *Report) whole() string {
	s := &r.Locality.Summary
	t := table.New()
	t.Add("blocks demanded per step", text.Number(s.DemandMean, 1))
	t.Add("of them pinned (sink, local)", text.Percent(s.PinnedShare))
	t.Add("overlap with the step before", text.Percent(s.Overlap))
	t.Add("Jaccard index of consecutive steps", text.Number(s.Jaccard, 3))
	t.Add("first seen, of the demand", text.Percent(s.FirstSeenShare))
	t.Add("first seen, of the blocks that enter", text.Percent(s.FirstSeenOfEntries))
	t.Add("distinct blocks of a stream", text.Number(s.DistinctMean, 1))
	for _, w := range s.WorkingSet {
		t.Add(fmt.Sprintf("working set of %d step(s)", w.Steps), text.Number(w.Mean, 1))
	}
	t.Add("reuse distance p50, p90, p99 (blocks)", quantiles(s.Reuse))
	t.Add("  of re-entries", quantiles(s.Reentry))
	t.Add("re-entry gap p50, p90, p99 (steps)", quantiles(s.Gap))
	return t.Text()
}

func (r *Report) byLayer() string {
	header := []string{"layer", "demand", "pinned", "overlap", "Jaccard", "first seen", "distinct"}
	for _, w := range locality.Windows[1:] {
		header = append(header, fmt.Sprintf("set %d", w))
	}
	t := table.New(append(header, "reuse p50 p90 p99", "gap p50 p90 p99")...).Right(0)
	for i := range r.Locality.ByLayer {
		l := &r.Locality.ByLayer[i]
		row := []any{l.Layer, text.Number(l.DemandMean, 1), text.Percent(l.PinnedShare), text.Percent(l.Overlap),
			text.Number(l.Jaccard, 3), text.Percent(l.FirstSeenShare), text.Number(l.DistinctMean, 1)}
		for _, w := range l.WorkingSet[1:] {
			row = append(row, text.Number(w.Mean, 1))
		}
		t.Add(append(row, quantiles(l.Reuse), quantiles(l.Gap))...)
	}
	return t.Text()
}

// String returns "5" or "5 to 9".
func (e Extent) String() string {
	if e.Min == e.Max {
		return strconv.FormatInt(e.Min, 10)
	}
	return fmt.Sprintf("%d to %d", e.Min, e.Max)
}

func quantiles(q locality.Quantiles) string {
	return strings.Join([]string{text.Number(q.P50, 0), text.Number(q.P90, 0), text.Number(q.P99, 0)}, " ")
}

func optional(v *int) string {
	if v == nil {
		return "not stated"
	}
	return strconv.Itoa(*v)
}

func ranges(numbers []int32) string { return strings.Join(text.Ranges(numbers), ", ") }
