package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// Rows writes the rows for people: one line per row with its counts, hit rate and bytes, and
// warnings as footnotes. If there are tiers below the GPU's cache, lines name their tier and the
// cache above. The table cannot be read back, unlike JSON lines and CSV.
func Rows(w io.Writer, rows []result.Row) error {
	for i := range rows {
		if err := rows[i].Check(); err != nil {
			return fmt.Errorf("write rows: row %d: %w", i+1, err)
		}
	}
	tiers := slices.ContainsFunc(rows, func(r result.Row) bool { return r.Tier > 0 })
	header := []string{"trace", "policy", "capacity", "part"}
	if tiers {
		header = []string{"trace", "above", "tier", "policy", "capacity", "part"}
	}
	t := table.New(append(header, "demand", "hits", "misses", "hit rate", "bytes/step")...).RightFrom(len(header))
	footnotes, notes := rowNotes(rows)
	marks := marksOf(notes, len(footnotes))
	for i := range rows {
		r := &rows[i]
		cells := []string{r.Trace}
		if tiers {
			cells = append(cells, r.Above, tierName(r))
		}
		var perStep *float64
		if r.HostToDeviceBytes != nil {
			perStep = board.Number(text.Ratio(*r.HostToDeviceBytes, r.Steps))
		}
		t.AddTexts(append(cells, r.Policy+marks.text(notes[i]), result.OrDash(r.Capacity), result.PartOf(r).String(), fmt.Sprint(r.Demand), fmt.Sprint(r.Hits),
			fmt.Sprint(r.Misses), percent(text.Ratio(r.Hits, r.Demand)), bytesText(perStep)))
	}
	out := t.Text()
	for _, line := range marks.footnotes(footnotes) {
		out += printable.Line(line) + "\n"
	}
	_, err := io.WriteString(w, printable.Text(out))
	return err
}

// rowNotes returns the rows' warnings as footnotes, and the numbers of each row's, from 1.
func rowNotes(rows []result.Row) (footnotes []string, notes [][]int) {
	return board.Footnotes(slice.Map(rows, func(r result.Row) []string { return r.Warnings }))
}

// tierName returns "dram" for "dram=lru@8x", or "gpu".
func tierName(r *result.Row) string {
	if r.Tier == 0 {
		return "gpu"
	}
	name, _, _ := strings.Cut(strings.Fields(r.Tiers)[r.Tier-1], "=")
	return name
}
