package board

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

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

// manyCells returns the cells of 27 policies at 5 capacities, of rows by request.
func manyCells(tb testing.TB, traces, requests int) []*cell {
	tb.Helper()
	const policies, capacities = 27, 5
	amounts, places := likeMisses(rand.New(rand.NewPCG(1, 2)), policies, traces, capacities, requests)
	for k := range places { // OPT has the fewest misses of each request
		for r := range requests {
			least := slices.MinFunc(amounts, func(a, b [][]float64) int { return cmp.Compare(a[k][r], b[k][r]) })[k][r]
			amounts[0][k][r] = least
		}
	}
	var c Collector
	for i := range policies {
		policy := fmt.Sprintf("policy-%02d", i)
		if i < 2 {
			policy = []string{OptPolicy, LRUPolicy}[i]
		}
		for k, place := range places {
			for r, n := range amounts[i][k] {
				row := rowstest.ForRequest(rowstest.Row(place.trace, policy, fmt.Sprintf("%dx", 1+k%capacities), int64(n)), fmt.Sprintf("r%03d", r))
				row.Demand, row.Hits = 1e6, 1e6-row.Misses
				fatal.If(tb, c.Add(&row, r > 0))
			}
		}
	}
	fatal.If(tb, c.finish())
	sortCells(c.top)
	return c.top
}

// BenchmarkBoard measures a board of 27 policies at 5 capacities, per row by request. It adds most-B/row
// to the memory of the cells.
func BenchmarkBoard(b *testing.B) {
	for _, size := range []struct{ traces, requests int }{{8, 60}, {64, 60}, {30, 8}} {
		b.Run(fmt.Sprintf("%dx%d", size.traces, size.requests), func(b *testing.B) {
			cells := manyCells(b, size.traces, size.requests)
			rows := len(cells) * size.requests
			b.ReportAllocs()
			before, most := heap(), watchHeap()
			for b.Loop() {
				_, err := newBoard(cells, nil, Options{})
				fatal.If(b, err)
			}
			b.ReportMetric((most()-before)/float64(rows), "most-B/row")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
		})
	}
}

// watchHeap returns a function that returns the most bytes of memory in use until its call.
func watchHeap() (most func() float64) {
	done, bytes := make(chan bool), 0.0
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				bytes = max(bytes, float64(m.HeapAlloc))
			}
		}
	})
	return func() float64 {
		close(done)
		wait.Wait()
		return bytes
	}
}
