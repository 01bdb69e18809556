package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/metrics/render"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/systems"
)

type systemsFlags struct {
	timeFlags
	machine, folder string
	timelines       string
	memory          int64 // of the GPU, 0: the machine's
	slo             time.Duration
	names           []string
	ablate, list    bool
	turn            int
	recall          float64
	table           policies.Table
}

func systemsCommand(known policies.Table) command {
	f := systemsFlags{table: known}
	return command{
		use:   "systems TRACE... | --list",
		short: "Rank published systems on a machine at equal GPU memory",
		long: `Rank published systems on a machine. Each gets the largest cache that fits into the GPU next to its
weights, indices and buffers, replays the traces of its selector, and is priced as in kvreplay time.
Dense, sparse and lossy attention answer differently, so each of the three has a table.
replay/systems/README.md explains the columns.`,
		details: `A system is a file. --list prints all of them, and --systems-dir reads more from a folder. A system
whose selector recorded no trace replays lists of the exact Top-K. Such departures are printed below
the tables. Systems share a rank if the model's errors may hide their difference.`,
		example: `  kvreplay systems sel_*.parquet --hardware rtx4090 --model llama-3-8b --context 122880 --batch 4
  kvreplay systems sel_*.parquet --systems kvdrive,shadowkv --ablate --model llama-3-8b
  kvreplay systems --list`,
		args: f.tracesOrList,
		flags: func(fl *flagSet) {
			fl.StringVar(&f.machine, "hardware", "h100", "compare on this `MACHINE` of kvreplay hardware list")
			fl.StringSliceVar(&f.names, "systems", []string{"all"}, "compare these `SYSTEMS` of --list, each NAME or NAME/ABLATION, or all")
			f.defineCommon(fl)
			fl.Lookup("model").Usage = "compare on this model: a `SHAPE` of kvreplay hardware list, or a config.json (required)"
			fl.Lookup("topk").Usage = "tokens that a head selects, `K` (default: those of the model's indexer, or a 64th of the context)"
			fl.Lookup("context").Usage = "tokens of context per request (default: the model's longest)"
			fl.Lookup("layer-map").Usage = "map profiled layers to the model's: nearest, stretch or `MODEL=PROFILED,...` (default: stretch)"
			fl.IntVar(&f.options.Batch, "batch", 1, "number of requests on each GPU, drawn from the traces")
			memoryVar(fl, &f.memory)
			f.defineExperts(fl)
			fl.slo(&f.slo, "mark systems with a longer time per output token")
			fl.Float64Var(&f.recall, "recall", 0, "select as many tokens as a selector needs for this `SHARE` of the exact Top-K (default: K tokens)")
			fl.BoolVar(&f.ablate, "ablate", false, "add the ablations of each system")
			fl.BoolVar(&f.list, "list", false, "list the systems with sources and ablations")
			fl.format(&f.format, "", "table", "markdown", "latex", "json", "csv", "html")
			fl.more()
			fl.StringVar(&f.timelines, "timelines", "", "write the median step of each system to this `FOLDER`, for ui.perfetto.dev")
			fl.StringVar(&f.folder, "systems-dir", "", "read further YAML files from this `FOLDER`")
			fl.IntVar(&f.options.Positions, "mtp", 1, "decode this many consecutive positions per step and join their demands")
			fl.Float64Var(&f.options.Accept, "accept", 0, "tokens that a step yields (required with --mtp above 1)")
			fl.IntVar(&f.turn, "turn", 512, "number of tokens that a request generates before it is preempted, if not all fit")
			f.defineParts(fl)
			fl.positive("topk", "context", "batch", "turn", "mtp", "accept")
			fl.goWith("mtp", "accept")
		},
		run: f.run,
		next: func(c *call) []string {
			if f.list {
				return []string{"systems", "datasets/corpus/selectors_*.parquet", "--model", "llama-3-8b", "--context", "122880"}
			}
			return append(append([]string{"systems"}, c.args...), append(c.given("systems", "ablate", "format"), "--ablate")...)
		},
	}
}

// tracesOrList checks the arguments: traces, or --list without any.
func (f *systemsFlags) tracesOrList(c *cobra.Command, args []string) error {
	if !f.list {
		return atLeast(1, "trace")(c, args)
	}
	if len(args) > 0 {
		return usagef("--list needs no trace: remove %s", args[0])
	}
	return onlyWith(c, "list", "systems-dir")
}

// onlyWith rejects the flags of a call that have no effect with a flag: all except those named.
func onlyWith(c *cobra.Command, flag string, except ...string) (err error) {
	c.Flags().Visit(func(fl *pflag.Flag) {
		if err == nil && fl.Name != flag && !slices.Contains(except, fl.Name) {
			err = usagef("--%s with --%s has no effect: remove it", fl.Name, flag)
		}
	})
	return err
}

func (f *systemsFlags) run(c *call) error {
	library, err := systems.Load(f.folder, f.table)
	if err != nil {
		return err
	}
	if f.list {
		listSystems(c.stdout, library)
		return nil
	}
	list, err := library.Find(f.names, f.ablate)
	if err != nil {
		return errUsage{err}
	}
	if c.changed("recall") && !(f.recall > 0 && f.recall <= 1) {
		return usagef("--recall %g: expected a share above 0, at most 1", f.recall)
	}
	q, err := f.question(c)
	if err != nil {
		return err
	}
	if err := checkNames(c.args, "into a folder"); err != nil {
		return err
	}
	traces, closeTraces, err := openTraces(c.Context(), c.args)
	defer closeTraces()
	if err != nil {
		return err
	}
	q.Progress = c.bar.counts("compare", "systems")
	rows, err := q.Compare(c.Context(), list, traces)
	if err != nil {
		return err
	}
	c.bar.close()
	if f.timelines != "" {
		if err := writeTimelines(c, f.timelines, rows); err != nil {
			return err
		}
	}
	if why := reasonOfAll(rows); why != "" && f.format == "table" { // a table of dashes says no more
		return fmt.Errorf("no system has times: %s", why)
	}
	switch f.format {
	case "csv":
		err = q.WriteCSV(c.stdout, rows)
	case "html":
		err = f.page(c, q, rows)
	case "table":
		err = q.WriteTable(c.stdout, rows)
	default:
		err = c.report(f.format, rows, "", q.Report(rows))
	}
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(rows, (*systems.Row).Fits) {
		return errors.New("no system has times: the last column says why")
	}
	return nil
}

// reasonOfAll returns the reason that no row has times, if all rows have the same. Otherwise it returns "".
func reasonOfAll(rows []*systems.Row) string {
	if len(rows) == 0 || slices.ContainsFunc(rows, func(r *systems.Row) bool { return r.Verdict != rows[0].Verdict }) {
		return ""
	}
	return rows[0].Verdict
}

// page writes the page of a comparison. If no system fits, it has no plot.
func (f *systemsFlags) page(c *call, q *systems.Question, rows []*systems.Row) error {
	var figures []render.PageFigure
	if d, err := pareto(rows); err == nil {
		figures = []render.PageFigure{{Title: "GPU memory against time per output token, with the Pareto front of each kind", Drawing: d}}
	}
	report := q.Report(rows)
	inputs, err := f.inputFiles(c.args, f.folder)
	if err != nil {
		return err
	}
	if err := addSums(c.Context(), report, inputs); err != nil {
		return err
	}
	return c.page("systems", systems.Finding(rows), report, figures...)
}

// writeTimelines writes a file for each system that has times.
func writeTimelines(c *call, folder string, rows []*systems.Row) error {
	if err := files.MakeFolder(folder); err != nil {
		return fmt.Errorf("timelines: %w", err)
	}
	for _, r := range rows {
		if !r.Fits() {
			continue
		}
		path := filepath.Join(folder, strings.ReplaceAll(r.Name, "/", "-")+".json")
		if err := files.WriteBy(path, func(w io.Writer) error { return r.WriteTimeline(c.Context(), w) }); err != nil {
			return fmt.Errorf("timelines: %w", err)
		}
	}
	c.wrote(folder)
	return nil
}

// question turns the flags into the facts that all systems share.
func (f *systemsFlags) question(c *call) (*systems.Question, error) {
	f.schedules, f.selection, f.entry, f.options.Fragments = []string{"dense"}, "auto", "auto", 1
	if err := f.checkOne(c, f.machine, f.memory); err != nil {
		return nil, err
	}
	if err := f.findModel(f.model); err != nil {
		return nil, err
	}
	if f.options.Context == 0 {
		f.options.Context = int64(f.shape.Context.Value)
	}
	if n := f.options.Positions; (n > 1 || c.changed("accept")) && !(f.options.Accept >= 1 && f.options.Accept <= float64(n)) {
		return nil, usagef("--accept %g: state the tokens that a step of %d positions yields, 1 to %d", f.options.Accept, n, n)
	}
	return &systems.Question{Options: f.options, Table: f.table, TopK: f.topk, LayerMap: f.layerMap, SLO: f.slo.Seconds(), Recall: f.recall, Turn: f.turn}, nil
}

// listSystems prints each system with its source, ablations and departures.
func listSystems(w io.Writer, library *systems.Library) {
	t := table.New("system", "lists", "policy", "schedule", "ablations", "source")
	for _, s := range library.All() {
		t.Add(s.Name, cmp.Or(s.Select.Lists, "-"), cmp.Or(s.Keep.Policy, "-"), s.Schedule, cmp.Or(strings.Join(s.AblationNames(), ", "), "-"), s.Source)
	}
	fmt.Fprint(w, t.Text())
	for _, s := range library.All() {
		for _, a := range s.Approximates {
			fmt.Fprintf(w, "%s: %s\n", s.Name, a)
		}
	}
}
