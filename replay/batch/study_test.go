package batch

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/table"
)

var update = flag.Bool("update", false, "write the table of the simulation to README.md")

// studyPlan returns a plan of 1,000 traces of 10 TB in all, as long corpora have them: their sizes
// are log-normal. Each trace has 3,200 cells.
func studyPlan(hours float64) *Plan {
	const traces, mean, sigma, cells = 1000, 10e9, 1.0, 3200
	const bytesPerIndex, rate = 2.06, 3.0 // of a DeepSeek-V3.2 trace and of 18 policies, measured on one core
	r := rand.New(rand.NewPCG(1, 1))
	sizes, sum := make([]float64, traces), 0.0
	for i := range sizes {
		sizes[i] = math.Exp(sigma * r.NormFloat64())
		sum += sizes[i]
	}
	p := &Plan{Batch: &Batch{}, Rate: rate}
	var chunks [][]int64
	for i, size := range sizes {
		size *= mean * traces / sum
		list := make([]int64, int(size/bytesPerIndex)>>20+1)
		for u := range list {
			list[u] = cells << 20
		}
		chunks = append(chunks, list)
		p.Traces = append(p.Traces, Trace{Path: fmt.Sprint(i), Bytes: int64(size), Chunks: len(list), Cells: cells, Work: sumOf(list)})
	}
	p.Shards = cut(p.Traces, chunks, int64(hours*3600e9/p.Rate))
	return p
}

// The table of README.md is the simulation of the study's workload. 1,000 tasks reach 90 %.
func TestREADMESimulation(t *testing.T) {
	rows := table.New("hours per shard", "shards", "tasks", "a task is lost every", "makespan", "efficiency").RightFrom(0)
	for _, c := range []struct {
		hours, lost float64
		workers     int
	}{{2, 0, 10}, {2, 0, 100}, {2, 0, 1000}, {0.5, 0, 1000}, {2, 8, 1000}, {20, 0, 1000}} {
		p, cluster := studyPlan(c.hours), DefaultCluster()
		cluster.Workers, cluster.Lost = c.workers, c.lost
		s := p.Simulate(cluster)
		lost := "never"
		if c.lost > 0 {
			lost = fmt.Sprintf("%g h", c.lost)
		}
		rows.Add(c.hours, len(p.Shards), c.workers, lost, fmt.Sprintf("%.1f h", s.Makespan), fmt.Sprintf("%.0f %%", 100*s.Efficiency()))
		if c.hours <= 2 && c.lost == 0 && s.Efficiency() < 0.9 {
			t.Errorf("%+v: efficiency %.3f, expected at least 0.9", c, s.Efficiency())
		}
	}
	const begin, end = "<!-- simulation: go test ./replay/batch -run README -update -->\n", "<!-- end of simulation -->"
	text, err := os.ReadFile("README.md")
	fatal.If(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("README.md has lost the marks of its simulation")
	}
	made := before + begin + rows.Markdown() + end + after
	if *update {
		fatal.If(t, os.WriteFile("README.md", []byte(made), 0o644))
	} else if made != string(text) {
		t.Error("README.md is out of date: run go test ./replay/batch -run README -update")
	}
}
