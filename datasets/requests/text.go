package requests

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/trace/inspect"
)

// Text writes the summary for people.
func (s *Summary) Text(w io.Writer) error {
	parts := []string{printable.Line(s.Path) + "\n" + s.facts(), s.spreads()}
	if s.Prefixes != nil {
		parts = append(parts, fmt.Sprintf("Shared prefixes: blocks of %d tokens, cache without bound\n%s", s.Prefixes.BlockTokens, s.Prefixes.text(s.Requests)))
	}
	var b strings.Builder
	for line := range strings.SplitSeq(strings.Join(parts, "\n\n"), "\n") {
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// facts are what came when.
func (s *Summary) facts() string {
	a := &s.Arrivals
	t := inspect.PlainTable()
	t.AppendRow(table.Row{"format", s.Format})
	t.AppendRow(table.Row{"bytes", humanize.Comma(s.Bytes)})
	t.AppendRow(table.Row{"requests", humanize.Comma(s.Requests)})
	t.AppendRow(table.Row{"first to last", a.last.String()})
	t.AppendRow(table.Row{"arrivals a second", number(a.RatePerSecond, 3)})
	t.AppendRow(table.Row{"busiest minute", fmt.Sprintf("%s requests, from %v on", humanize.Comma(a.PeakPerMinute), time.Duration(a.PeakMinute)*time.Minute)})
	t.AppendRow(table.Row{"gaps: standard deviation ÷ mean", number(a.GapCV, 2)})
	t.AppendRow(table.Row{"gaps of zero", percent(a.Simultaneous)})
	return t.Render()
}

// spreads are the distributions, one a row.
func (s *Summary) spreads() string {
	t := inspect.PlainTable("", "min", "mean", "p50", "p90", "p99", "max", "total")
	var columns []table.ColumnConfig
	for c := range 7 {
		columns = append(columns, table.ColumnConfig{Number: c + 2, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	gap := func(v *float64) string {
		if v == nil {
			return none
		}
		return strconv.FormatFloat(1000**v, 'f', 3, 64)
	}
	length := func(v *float64) string { return number(v, 0) }
	a, i, o := &s.Arrivals.Gap, &s.Input, &s.Output
	t.AppendRow(table.Row{"gap between arrivals, ms", gap(a.Min), gap(a.Mean), gap(a.P50), gap(a.P90), gap(a.P99), gap(a.Max)})
	for _, l := range []struct {
		name string
		*Lengths
	}{{"input tokens", i}, {"output tokens", o}} {
		t.AppendRow(table.Row{l.name, length(l.Min), number(l.Mean, 1), length(l.P50), length(l.P90), length(l.P99), length(l.Max), humanize.Comma(l.Total)})
	}
	return t.Render()
}

func (p *Prefixes) text(requests int64) string {
	t := inspect.PlainTable()
	t.AppendRow(table.Row{"blocks", humanize.Comma(p.Blocks)})
	t.AppendRow(table.Row{"distinct blocks", humanize.Comma(p.Distinct)})
	t.AppendRow(table.Row{"seen before, of all blocks", percent(p.SeenShare)})
	t.AppendRow(table.Row{"prefix-hit tokens", humanize.Comma(p.HitTokens)})
	t.AppendRow(table.Row{"  of all input tokens", percent(p.HitShare)})
	t.AppendRow(table.Row{"requests with a hit", percent(share(p.HitRequests, requests))})
	t.AppendRow(table.Row{"requests hit to their end", percent(share(p.FullRequests, requests))})
	u := &p.Uses
	t.AppendRow(table.Row{"requests that have a block: mean p50 p90 p99 max",
		strings.Join([]string{number(u.Mean, 2), number(u.P50, 0), number(u.P90, 0), number(u.P99, 0), number(u.Max, 0)}, " ")})
	t.AppendRow(table.Row{"blocks that one request has", percent(p.UsedOnceShare)})
	if p.Displaced > 0 {
		t.AppendRow(table.Row{"blocks seen before behind another block, or twice in a prompt (contradictory)", humanize.Comma(p.Displaced)})
	}
	return t.Render()
}

const none = "–" // no value: nothing to divide by

func number(v *float64, digits int) string {
	if v == nil {
		return none
	}
	return strconv.FormatFloat(*v, 'f', digits, 64)
}

func percent(v *float64) string {
	if v == nil {
		return none
	}
	return strconv.FormatFloat(100**v, 'f', 1, 64) + " %"
}
