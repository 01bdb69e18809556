package board

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// BenchmarkRows measures the parts of a leaderboard over 10,800 rows by request, per row: reading
// JSON lines, and the board with its intervals and letters. "collect" reads rows one at a time, and
// holds held-B/row of memory at the end.
func BenchmarkRows(b *testing.B) {
	rows := result.MergeRows(rowstest.SyntheticOf(200), nil)
	var lines bytes.Buffer
	fatal.If(b, result.WriteJSONL(&lines, rows))
	perRow := func(name string, run func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fatal.If(b, run())
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
	path := filepath.Join(b.TempDir(), "rows.jsonl")
	fatal.If(b, os.WriteFile(path, lines.Bytes(), 0o600))
	b.Run("collect", func(b *testing.B) {
		b.ReportAllocs()
		before, c := heap(), new(Collector)
		for b.Loop() {
			c = new(Collector)
			rows, err := result.NewFiles(path)
			fatal.If(b, err)
			fatal.If(b, rows.Each(c.Add))
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(rows)), "ns/row")
		b.ReportMetric((heap()-before)/float64(len(rows)), "held-B/row")
		if len(c.rows) == 0 {
			b.Fatal("no rows")
		}
	})
}

// heap returns the bytes of memory in use.
func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
