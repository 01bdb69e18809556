package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/cmd/cli"
	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
	"github.com/kvreplay/kvreplay/policies/all"
)

// BenchmarkLeaderboard measures the time of a whole board with times, per row by request: of the processors,
// and of the clock.
func BenchmarkLeaderboard(b *testing.B) {
	for _, size := range []struct {
		name             string
		copies, requests int
	}{{"traces=2/requests=200", 1, 200}, {"traces=40/requests=10", 20, 10}, {"traces=40/requests=200", 20, 200}} {
		var rows []result.Row
		for i := range size.copies {
			for _, r := range rowstest.SyntheticOf(size.requests) {
				r.Trace, r.TraceDigest, r.Model = fmt.Sprintf("%02d-%s", i, r.Trace), fmt.Sprintf("%s-%d", r.TraceDigest, i), "smollm2-135m"
				rows = append(rows, r)
			}
		}
		rows = result.MergeRows(rows, nil)
		var lines bytes.Buffer
		fatal.If(b, result.WriteJSONL(&lines, rows))
		path := filepath.Join(b.TempDir(), "rows.jsonl")
		fatal.If(b, os.WriteFile(path, lines.Bytes(), 0o600))
		n := float64(len(rows))
		rows, lines = nil, bytes.Buffer{} // which no leaderboard holds
		for _, model := range []string{"smollm2-135m", "llama-3.1-8b"} {
			b.Run(size.name+"/model="+model, func(b *testing.B) {
				before := processorTime(b)
				for b.Loop() {
					if code := cli.Main(all.Table(), []string{"leaderboard", path, "--model", model}, io.Discard, os.Stderr); code != 0 {
						b.Fatalf("exit code %d", code)
					}
				}
				b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/(float64(b.N)*n), "cpu-ns/row")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/(float64(b.N)*n), "ns/row")
			})
		}
	}
}

// processorTime returns the processor time of this process.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var used syscall.Rusage
	fatal.If(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
