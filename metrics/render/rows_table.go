package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// Rows writes the rows for people: one line per row with its counts, hit rate
// and bytes, and their warnings as footnotes. Where there are tiers below the GPU's
// cache, lines say which they are of and what is above. It cannot be read back; JSON
// lines and CSV can.
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
	t := newTable(append(header, "demand", "hits", "misses", "hit rate", "bytes/step")...)
	t.rightFrom(len(header))
	footnotes, notes := rowNotes(rows)
	marks := marksOf(notes, len(footnotes))
	for i := range rows {
		r := &rows[i]
		cells := []string{r.Trace}
		if tiers {
			cells = append(cells, r.Above, tierName(r))
		}
		t.add(append(cells, r.Policy+marks.text(notes[i]), result.OrDash(r.Capacity), result.PartOf(r).String(), fmt.Sprint(r.Demand), fmt.Sprint(r.Hits),
			fmt.Sprint(r.Misses), percent(board.Ratio(r.Hits, r.Demand)), bytesText(rowBytesPerStep(r)))...)
	}
	text := t.text()
	for i, note := range footnotes {
		text += printable.Line(marks.footnote(i+1, note)) + "\n"
	}
	_, err := io.WriteString(w, printable.Text(text))
	return err
}

// rowNotes are the rows' warnings as footnotes, and the numbers of each row's, from 1.
func rowNotes(rows []result.Row) (footnotes []string, notes [][]int) {
	var texts []string
	for i := range rows {
		texts = append(texts, rows[i].Warnings...)
	}
	footnotes, of := board.MergeNotes(texts)
	notes = make([][]int, len(rows))
	for i := range rows {
		for _, text := range rows[i].Warnings {
			notes[i] = append(notes[i], slices.Index(footnotes, of[text])+1)
		}
		slices.Sort(notes[i])
		notes[i] = slices.Compact(notes[i])
	}
	return footnotes, notes
}

// tierName is "dram" of "dram=lru@8x", or "gpu".
func tierName(r *result.Row) string {
	if r.Tier == 0 {
		return "gpu"
	}
	name, _, _ := strings.Cut(strings.Fields(r.Tiers)[r.Tier-1], "=")
	return name
}

func rowBytesPerStep(r *result.Row) *float64 {
	if r.HostToDeviceBytes == nil {
		return nil
	}
	return board.Number(board.Ratio(*r.HostToDeviceBytes, r.Steps))
}
