package trtllm

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

const head = `# TensorRT-LLM's published results

This reference is a comparison of ` + "`kvreplay serve`" + ` with throughputs and latencies that [NVIDIA](https://github.com/NVIDIA/TensorRT-LLM/blob/258c7540c03517def55d9a5aadfa9288af474e1b/docs/source/performance/perf-overview.md) publishes for TensorRT-LLM. It is for users who ask how far modelled servers are from real ones. ` + "`kvreplay reproduce trtllm --format markdown`" + ` prints it, and a test holds it current. With ` + "`--format csv`" + ` it prints the published and the modelled figures, with the limits of each run.

No constant was fitted to these results. An error is modelled ÷ printed − 1. Below 0 the modelled figure is too small. Throughputs are the generated tokens per second of all GPUs together.

- The system is ` + "`tensorrt-llm`" + `: a request starts once KV of its prompt and its whole answer fits. So none is preempted. The engine is ` + "`trtllm`" + `, whose CPU takes no time. Scheduling is otherwise that of [serve](README.md#the-engine).
- "4 × h100" are four GPUs with tensor parallelism, and ` + "`dgx-h200`" + ` is one H200 of a DGX. "128 + 2048" are the tokens of the prompt and the answer.
- NVIDIA prints no result for an empty cell.

The first errors were blind. kvreplay then had no system without preemption, so the system was ` + "`vllm-recompute`" + `. At most 2,048 requests and 8,192 tokens were in an iteration. The median |error| of throughputs was 8.3 %, the 95th percentile 28.5 %, and the worst 43.9 %. Afterwards kvreplay got NVIDIA's policy and limits, from NVIDIA's page and code. The errors below are those of today.

Errors are large in these cases:

- Weights fill most of the memory, as with llama-3.1-70b on one H100. A small error of the room for KV is then a large one of the requests that run.
- GPUs exchange over PCIe. Several L40S are modelled too slow, and one L40S too fast. The causes are unknown.
- The load is near the most that the GPUs can serve, as with llama-3.1-70b at 32 requests/s. There a small error of the throughput is a large one of the latency.
- ITL is too short in most runs. The CPU and the HTTP server take time that kvreplay does not count, which is a part of the cause.

`

// render writes the page: a summary, then the errors of each section.
func render(w io.Writer, r *reproduce.Reproduced, markdown bool) error {
	var b strings.Builder
	write := func(t *table.Table) {
		if markdown {
			b.WriteString(t.RawMarkdown() + "\n")
		} else {
			b.WriteString(t.Text() + "\n")
		}
	}
	title := "\n%s\n\n"
	if markdown {
		b.WriteString(head)
		title = "\n## %s\n\n"
	}
	fmt.Fprintf(&b, title[1:], "Summary")
	write(summary(r))
	b.WriteString("The signed median keeps the signs of errors. The other columns are the median, the 95th percentile and the largest |error|.\n")
	for i := range r.Sections {
		s := &r.Sections[i]
		fmt.Fprintf(&b, title, s.Title)
		fmt.Fprintf(&b, "%s\n\n", s.Method)
		for _, a := range s.Assumptions {
			fmt.Fprintf(&b, "- %s\n", a)
		}
		b.WriteString("\n")
		for _, t := range errorTables(s) {
			write(t)
		}
	}
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

// parts divides the item of a line: model and GPUs, then the rest.
func parts(l *reproduce.Line) []string { return strings.SplitN(l.Item, ", ", 3) }

// errorTables have a row for each model and GPU, and a column for each setting. Times have a table each.
func errorTables(s *reproduce.Section) (tables []*table.Table) {
	var columns, rows, kinds []string
	cells := map[[3]string]string{}
	for i := range s.Lines {
		l := &s.Lines[i]
		p := parts(l)
		column, kind, _ := strings.Cut(p[2], ": ")
		row := p[0] + ", " + p[1]
		if lengths, at, ok := strings.Cut(column, ", "); ok {
			row, column = row+", "+lengths, at
		}
		columns, rows, kinds = slice.Add(columns, column), slice.Add(rows, row), slice.Add(kinds, kind)
		cells[[3]string{row, column, kind}] = strings.Replace(fmt.Sprintf("%+.0f %%", math.Round(100*float64(l.Error))+0), "+0 ", "0 ", 1)
	}
	for _, kind := range kinds {
		t := table.New(append([]string{strings.TrimSpace(kind + " of model, GPUs")}, columns...)...).RightFrom(1)
		for _, row := range rows {
			line := []string{row}
			for _, column := range columns {
				line = append(line, cells[[3]string{row, column, kind}])
			}
			t.AddTexts(line)
		}
		tables = append(tables, t)
	}
	return tables
}

// summary has the errors of throughputs by GPU and by whether layers are divided, and those of latencies.
func summary(r *reproduce.Reproduced) *table.Table {
	t := table.New("figure", "GPUs", "results", "signed median", "median", "95th", "worst").RightFrom(2)
	for i := range r.Sections {
		s := &r.Sections[i]
		var keys [][2]string
		of := map[[2]string][]float64{}
		for _, whole := range []bool{false, true} { // all GPUs together come last
			for k := range s.Lines {
				l := &s.Lines[k]
				p := parts(l)
				key := [2]string{"throughput", "all"}
				if _, kind, ok := strings.Cut(p[2], ": "); ok {
					key[0] = kind
				}
				if gpus, machine, _ := strings.Cut(p[1], " × "); !whole {
					key[1] = machine
					if gpus != "1" {
						key[1] = "several " + machine
					}
				}
				keys, of[key] = slice.Add(keys, key), append(of[key], float64(l.Error))
			}
		}
		for _, key := range keys {
			t.AddTexts(append([]string{key[0], key[1]}, distribution(of[key])...))
		}
	}
	return t
}

// distribution returns the cells of the summary for some errors.
func distribution(errors []float64) []string {
	slices.Sort(errors)
	sizes := make([]float64, len(errors))
	for i, e := range errors {
		sizes[i] = math.Abs(e)
	}
	slices.Sort(sizes)
	cells := []string{fmt.Sprint(len(errors)), fmt.Sprintf("%+.1f %%", 100*slice.Quantile(errors, 0.5))}
	for _, share := range []float64{0.5, 0.95, 1} {
		cells = append(cells, fmt.Sprintf("%.1f %%", 100*slice.Quantile(sizes, share)))
	}
	return cells
}
