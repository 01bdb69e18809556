package board

import (
	"bytes"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// BenchmarkRows measures the parts of a leaderboard over 10,800 rows by request, per row: reading
// JSON lines, and the board with its intervals and letters.
func BenchmarkRows(b *testing.B) {
	rows := rowstest.SyntheticOf(200)
	var lines bytes.Buffer
	if err := result.WriteJSONL(&lines, rows); err != nil {
		b.Fatal(err)
	}
	perRow := func(name string, run func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := run(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(rows)), "ns/row")
		})
	}
	perRow("read", func() error {
		_, err := result.DecodeRows(bytes.NewReader(lines.Bytes()), "rows")
		return err
	})
	perRow("board", func() error {
		_, err := NewBoard(rows, Options{})
		return err
	})
}
