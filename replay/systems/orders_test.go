package systems

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
)

var update = flag.Bool("update", false, "write ORDERS.md")

// statement is an entry of orders.yaml.
type statement struct {
	Source, Says, Hardware, Model string
	Context                       int64
	TopK, Batch                   int
	Cells                         [][2]int // context and batch
	Memory                        float64  // GB
	Experts, MTP                  int
	Accept                        float64
	Order, Fails, Than            []string
	Faster                        string
	Printed                       float64
	Why                           string
}

// settings returns a statement for each of the cells.
func (s *statement) settings() (all []*statement) {
	if len(s.Cells) == 0 {
		return []*statement{s}
	}
	for _, c := range s.Cells {
		one := *s
		one.Context, one.Batch = int64(c[0]), c[1]
		all = append(all, &one)
	}
	return all
}

// text describes the setting.
func (s *statement) text() string {
	t := fmt.Sprintf("%s, %s, %d tokens", s.Hardware, s.Model, s.Context)
	for _, part := range []struct {
		given bool
		text  string
	}{{s.Batch > 0, fmt.Sprintf("batch %d", s.Batch)}, {s.Memory > 0, fmt.Sprintf("%g GB", s.Memory)}, {s.Experts > 0, fmt.Sprintf("%d GPUs for experts", s.Experts)}, {s.MTP > 0, fmt.Sprintf("MTP %d", s.MTP)}} {
		if part.given {
			t += ", " + part.text
		}
	}
	return t
}

// pairs returns the slower and the faster system of each comparison.
func (s *statement) pairs() (all [][2]string) {
	for _, slow := range s.Than {
		all = append(all, [2]string{slow, s.Faster})
	}
	for i := 1; i < len(s.Order); i++ {
		all = append(all, [2]string{s.Order[i-1], s.Order[i]})
	}
	return all
}

// orderCommand prints the tokens/s of a line of the page.
const orderCommand = "kvreplay systems datasets/corpus/systems_*.parquet --systems shadowkv/sequential,kvdrive --hardware l20 --model llama-3-8b-1048k --context 61440 --batch 8 --format csv"

// ORDERS.md compares the statements of orders.yaml with the systems on the traces of the corpus.
func TestOrders(t *testing.T) {
	if testing.Short() {
		t.Skip("replays every system of the statements")
	}
	text, err := os.ReadFile("orders.yaml")
	fatal.If(t, err)
	var statements []statement
	fatal.If(t, strictly(text, &statements))
	lib, err := hardware.Load("")
	fatal.If(t, err)
	engine, err := operator.ParseEngine(operator.DefaultEngine) // as the command has
	fatal.If(t, err)
	traces := open(t, "systems_*.parquet")
	own := load(t, "")
	results := table.New("source", "setting", "slower", "faster", "tokens/s", "ratio", "printed", "holds")
	var departures, reasons []string
	approximations := map[string][]string{} // that the traces cause, with their systems
	var settings []*statement
	for i := range statements {
		settings = append(settings, statements[i].settings()...)
	}
	for _, s := range settings {
		machine, err := lib.Machine(s.Hardware)
		fatal.If(t, err)
		if s.Memory > 0 {
			less := *machine.GPU
			less.Memory.Value = hardware.Bytes(s.Memory * 1e9)
			machine.GPU = &less
		}
		model, err := lib.Model(s.Model)
		fatal.If(t, err)
		known := map[string]*Row{}
		run := func(name string) *Row {
			if r := known[name]; r != nil {
				return r
			}
			system, at, _ := strings.Cut(name, "@")
			batch := s.Batch
			if at != "" {
				if batch, err = strconv.Atoi(at); err != nil {
					t.Fatal(err)
				}
			}
			list, err := own.Find([]string{system}, false)
			fatal.If(t, err)
			q := &Question{Options: pipeline.Options{Machine: machine, Model: model, Context: s.Context, Batch: batch, Kernels: kernel.Fitted(lib), Network: pipeline.Networks(lib),
				Engine: engine, Experts: s.Experts, Positions: s.MTP, Accept: s.Accept},
				Table: all.Table(), TopK: s.TopK, Turn: 512}
			rows, err := q.Compare(t.Context(), list, traces)
			if err != nil {
				t.Fatalf("%s: %s: %v", s.Source, name, err)
			}
			for _, a := range rows[0].Approximates {
				if !slices.Contains(list[0].Approximates, a) {
					approximations[a] = append(approximations[a], system)
				}
			}
			known[name] = rows[0]
			return rows[0]
		}
		setting := s.text()
		for _, p := range s.pairs() {
			slow, fast := run(p[0]), run(p[1])
			printed := "-"
			if s.Printed > 0 {
				printed = fmt.Sprintf("%.2f", s.Printed)
			}
			if !slow.Fits() || !fast.Fits() {
				results.Add(s.Source, setting, p[0], p[1], "-", "-", printed, "no figures")
				departures = append(departures, fmt.Sprintf("%s, %s and %s: %s", s.Source, p[0], p[1], strings.TrimPrefix(slow.Verdict+"; "+fast.Verdict, "; ")))
				continue
			}
			ratio := fast.Tokens / slow.Tokens
			verdict := "yes"
			switch {
			case slow.Interval.Hides(&fast.Interval, slow.Tokens, fast.Tokens) && fast.Interval.Hides(&slow.Interval, fast.Tokens, slow.Tokens):
				verdict = "a tie"
			case ratio < 1:
				verdict = "no"
			case ratio < s.Printed:
				verdict = "less"
			}
			if verdict != "yes" {
				if s.Why == "" {
					t.Errorf("%s, %s and %s: %s without a reason: add why to orders.yaml", s.Source, p[0], p[1], verdict)
				}
				reasons = append(reasons, fmt.Sprintf("%s: %s. %s.", s.Source, s.Says, s.Why))
			}
			results.Add(s.Source, setting, p[0], p[1], fmt.Sprintf("%.4g and %.4g", slow.Tokens, fast.Tokens), fmt.Sprintf("%.2f", ratio), printed, verdict)
		}
		for _, name := range s.Fails {
			verdict := "yes"
			if r := run(name); r.Memory.GPU <= r.Memory.GPUHas && r.Memory.Host <= r.Memory.HostHas { // Verdict may have another reason
				t.Errorf("%s, %s: %q, expected too little memory", s.Source, name, r.Verdict)
				verdict = "no"
			}
			results.Add(s.Source, setting, name, "does not fit", "-", "-", "-", verdict)
		}
	}
	var page strings.Builder
	page.WriteString(`# Published orders of systems

This page compares statements of papers with ` + "`kvreplay systems`" + `. [README.md](README.md) explains the figures. The statements are in [orders.yaml](orders.yaml), and a test keeps the page current.

*Ratio* is tokens/s of the faster system ÷ those of the slower one, and *printed* the least ratio of the paper. *Holds* is *yes*, or *less* if the order holds but the ratio is below the printed one. *A tie* is a difference that the errors of the time model may hide. The traces are those of a small model, scaled, so hits are not those of the papers.

The figures are those of the traces ` + "`datasets/corpus/systems_*.parquet`" + `, one request of 7,500 tokens for each selector. Other traces, such as ` + "`selectors_qa_text`" + `, give other figures. This command prints the third line, and its flags are those of the column *setting*. A name NAME@N has ` + "`--batch N`" + `:

` + "```console\n$ " + orderCommand + "\n```" + `

`)
	page.WriteString(results.Markdown())
	if len(reasons) > 0 {
		page.WriteString("\nStatements that do not hold everywhere, with the reason:\n\n")
		for _, r := range slices.Compact(reasons) {
			page.WriteString("- " + r + "\n")
		}
	}
	if len(approximations) > 0 {
		page.WriteString("\nApproximations because of the traces, besides those of the systems' files:\n\n")
		for _, a := range slices.Sorted(maps.Keys(approximations)) {
			names := approximations[a]
			slices.Sort(names)
			page.WriteString("- " + a + ": " + strings.Join(slices.Compact(names), ", ") + "\n")
		}
	}
	if len(departures) > 0 {
		page.WriteString("\nWithout figures:\n\n")
		for _, d := range departures {
			page.WriteString("- " + d + "\n")
		}
	}
	if *update {
		fatal.If(t, os.WriteFile("ORDERS.md", []byte(page.String()), 0o666))
	}
	want, err := os.ReadFile("ORDERS.md")
	if err != nil || string(want) != page.String() {
		t.Errorf("ORDERS.md is out of date (%v): go test ./replay/systems -run Orders -update", err)
	}
}
