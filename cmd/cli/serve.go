package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/render"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/serving"
	"github.com/kvreplay/kvreplay/replay/serving/experiment"
	"github.com/kvreplay/kvreplay/replay/systems"
)

type serveFlags struct {
	timeFlags
	experiment.Experiment
	machine, folder    string
	memory             int64
	names, traces      []string
	slo, series, write string
	table              policies.Table
}

func serveCommand(known policies.Table) command {
	f := serveFlags{table: known}
	f.Scale, f.Limits = 1, serving.Limits{}
	e := &f.Engine
	return command{
		use:   "serve REQUESTS",
		short: "Model a server that gets the requests of a trace",
		long: `Model a serving engine under load. Requests arrive as in the trace, wait, and run in batches that
change at every iteration. Systems differ in how requests give up GPU memory and come back.
A recorded run is compared with the model. replay/serving/README.md explains the figures.`,
		details: `Systems are those of kvreplay systems --list. Those with selected entries need --traces, whose
misses they take. Their cache is the largest that fits for --cache-batch requests of --context tokens.
Requests without output tokens generate one.`,
		example: `  kvreplay serve azure.csv --hardware a100-80 --model llama-2-13b --slo tpot=50ms,ttft=2s
  kvreplay serve azure.csv --model llama-3.1-8b --scale 0.5x --slo tpot=50ms --goodput 0.9
  kvreplay serve azure.csv --model llama-3.1-8b --slo conv:tpot=50ms --priority code
  kvreplay serve azure.csv --model llama-3.1-8b --format html -o serve.html
  kvreplay serve recorded.csv --hardware rtx4090 --model llama-3.1-8b --systems vllm-recompute`,
		args: exactlyOne("file of requests"),
		flags: func(fl *flagSet) {
			fl.StringVar(&f.machine, "hardware", "h100", "serve on this `MACHINE` of kvreplay hardware list")
			fl.StringVar(&f.model, "model", "", "serve this model: a `SHAPE` of kvreplay hardware list, or a config.json (required)")
			fl.StringSliceVar(&f.names, "systems", []string{"ellm", "vllm-recompute", "vllm-swap", "hcache"}, "compare these `SYSTEMS` of kvreplay systems --list")
			fl.Var(factor(&f.Scale), "scale", "multiply the times between arrivals by this `FACTOR`: 0.5x doubles the load")
			fl.Var(value{"limits", f.limit, func() string { return f.slo }, nil}, "slo", "longest times of a request: `tpot=DURATION,ttft=DURATION`, or one of them, and CLASS:tpot=DURATION for a class (default: none)")
			fl.StringSliceVar(&f.Priority, "priority", nil, "serve requests of these `CLASSES` first, in this order (default: all equal)")
			fl.Float64Var(&f.Goodput, "goodput", 0, "search the largest load at which this `SHARE` of the requests meets --slo (default: no search)")
			fl.StringVar(&f.Lengths, "lengths", "", "draw the tokens of requests from this `FILE` of requests (default: the trace's own)")
			fl.format(&f.format, "", "table", "json", "csv", "markdown", "html")
			fl.out(&f.write, "write the output to this `FILE`")
			fl.more()
			fl.Float64Var(&f.Burstiness, "burstiness", 0, "draw the times between arrivals from a gamma distribution of this `SHAPE` and the trace's mean: 1 is Poisson, less is more bursty (default: the trace's own)")
			fl.IntVar(&f.Repeats, "repeats", 0, "draw --lengths and --burstiness with this `NUMBER` of seeds, and compare the systems with the first one (5 to 1000)")
			fl.StringSliceVar(&f.traces, "traces", nil, "replay these trace `FILES` for systems that select entries")
			fl.IntVar(&f.CacheBatch, "cache-batch", 16, "number of requests for which such a system sizes its cache")
			tokensVar(fl, &f.options.Context, "context", "tokens of context for which it does (default: the model's longest, at most 32K)")
			fl.IntVar(&f.topk, "topk", 0, "tokens that a head of such a system selects, `K` (default: those of the model's indexer, or a 64th of the context)")
			fl.StringVar(&f.series, "series", "", "compare a recorded engine over time with this CSV `FILE`: the column time_s, and then some of running, waiting, kv_blocks and tokens_per_s")
			fl.StringVar(&f.Rows, "rows", "", "write a CSV file of requests and one of iterations for each system to this `FOLDER`")
			fl.StringVar(&f.Timelines, "timelines", "", "write the memory and the iterations of each system to this `FOLDER`, for ui.perfetto.dev")
			fl.IntVar(&e.Budget, "token-budget", 2048, "largest number of tokens of an iteration")
			fl.IntVar(&e.MaxRunning, "max-running", 256, "largest number of requests that run")
			fl.IntVar(&e.BlockTokens, "block-tokens", 16, "number of tokens of a KV block")
			fl.IntVar(&e.Blocks, "kv-blocks", 0, "number of usable KV blocks of a GPU, one less than vLLM logs (default: as many as fit)")
			fl.BoolVar(&e.Elastic, "elastic", false, "give KV the memory that the activations of an iteration do not need (always for ellm)")
			fl.BoolVar(&f.Synchronous, "synchronous", false, "form an iteration after the one before it has ended, not while it runs (always if the GPU waits for the CPU of --engine)")
			fl.BoolVar(&f.NoReuse, "no-prefix-reuse", false, "forget the KV of requests that ended or were preempted (always for ellm)")
			fl.BoolVar(&f.Admission.Batch, "limit-batch", false, "admit requests only while an iteration meets the tpot of --slo (always for ellm)")
			fl.BoolVar(&f.Admission.Literal, "literal", false, "let --limit-batch and ellm use equations 2 to 4 of eLLM as printed, not the operator model")
			memoryVar(fl, &f.memory)
			fl.StringVar(&f.folder, "systems-dir", "", "read further YAML files from this `FOLDER`")
			f.hardware.define(fl.FlagSet)
			f.parts.define(fl)
			fl.IntVar(&f.options.Experts, "expert-gpus", 0, expertGPUs)
			fl.IntVar(&f.options.TensorParallel, "tensor-parallel", 1, "number of GPUs that divide every layer and serve together")
			fl.IntVar(&e.Replicas, "data-parallel", 1, "number of GPUs that divide the requests, as many as --expert-gpus, and start iterations together")
			fl.Float64Var(&f.options.Reserve, "reserve", 0.1, "reserve this `SHARE` of GPU memory, 1 − vLLM's gpu_memory_utilization, at least the CUDA context")
			fl.Uint64Var(&f.options.Seed, "seed", 0, "seed of the draws of --lengths and --burstiness (default 0)")
			fl.StringVar(&f.kernels, "kernels", publishedKernels, "price operators by this `MODEL`: fitted, roofline, or a CSV file of measured kernels")
			f.defineEngine(fl)
			fl.positive("expert-gpus", "token-budget", "max-running", "block-tokens", "kv-blocks", "tensor-parallel", "data-parallel", "cache-batch", "context", "topk")
			fl.goWith("slo", "goodput", "limit-batch")
		},
		run: f.run,
		next: func(c *call) []string {
			return append(append([]string{"serve"}, c.args...), append(c.given("serve", "goodput", "repeats", "format", "rows", "timelines", outFlag), "--rows", "rows")...)
		},
	}
}

// factor is a flag of a positive number and x, as in 0.5x.
func factor(to *float64) value {
	return value{"factor", func(text string) error {
		number, ok := strings.CutSuffix(text, "x")
		v, err := strconv.ParseFloat(number, 64)
		if !ok || err != nil || !(v >= 1e-6 && v <= 1e6) {
			return fmt.Errorf("expected a factor from 1e-6 to 1e6, as in 0.5x")
		}
		*to = v
		return nil
	}, func() string { return strconv.FormatFloat(*to, 'g', -1, 64) + "x" }, nil}
}

// limit reads limits of --slo, for all requests or those of a class.
func (f *serveFlags) limit(text string) error {
	f.slo = text
	var slo serving.SLO
	class, items, own := strings.Cut(text, ":")
	if !own {
		class, items = "", text
	} else if class == "" {
		return errors.New("a class without a name, expected CLASS:tpot=DURATION")
	}
	for item := range strings.SplitSeq(items, ",") {
		name, value, _ := strings.Cut(item, "=")
		limit := map[string]*int64{"tpot": &slo.TPOT, "ttft": &slo.TTFT}[name]
		d, err := time.ParseDuration(value)
		if limit != nil && err == nil && d <= 0 {
			return fmt.Errorf("%s=%s: expected a time above 0", name, value)
		}
		if limit == nil || err != nil {
			return errors.New("expected tpot=DURATION, ttft=DURATION or both, as in tpot=50ms,ttft=2s")
		}
		if *limit > 0 {
			return fmt.Errorf("%s is limited twice: remove one of the limits", name)
		}
		*limit = int64(d)
	}
	if _, twice := f.Limits[class]; twice {
		return errors.New("the requests have limits already: join them with a comma, as in tpot=50ms,ttft=2s")
	}
	f.Limits[class] = slo
	return nil
}

func (f *serveFlags) run(c *call) error {
	if err := f.prepare(c); err != nil {
		return err
	}
	inputs, err := f.inputFiles(append([]string{f.Path, f.Lengths, f.series}, f.traces...), f.folder)
	if err != nil {
		return err
	}
	if err := checkOutput("serve", f.write, inputs); err != nil {
		return err
	}
	library, err := systems.Load(f.folder, f.table)
	if err != nil {
		return err
	}
	list, err := library.Find(f.names, false)
	if err != nil {
		return errUsage{err}
	}
	if err := f.checkEffects(c, list); err != nil {
		return err
	}
	traces, closeTraces, err := openTraces(c.Context(), f.traces)
	defer closeTraces()
	if err != nil {
		return err
	}
	for _, folder := range []string{f.Rows, f.Timelines} {
		if folder != "" {
			if err := files.MakeFolder(folder); err != nil {
				return fmt.Errorf("serve: %w", err)
			}
		}
	}
	f.Traces, f.Progress = traces, c.bar.add
	total := int64(unknown) // the search for goodput may end early
	if f.Goodput == 0 {
		total = int64(f.Requests) * int64(len(list)*max(1, f.Repeats))
	}
	c.bar.start(total, "serve", "requests")
	results, err := f.Run(c.Context(), list)
	if err != nil {
		return err
	}
	c.bar.close()
	for _, folder := range []string{f.Rows, f.Timelines} {
		if folder != "" {
			c.wrote(folder)
		}
	}
	report := f.report(results)
	if f.write == "" {
		return f.print(c, results, report, inputs)
	}
	if err := files.WriteBy(f.write, func(w io.Writer) error {
		c.stdout = w
		return f.print(c, results, report, inputs)
	}); err != nil {
		return err
	}
	c.wrote(f.write)
	return nil
}

// mostBudget bounds --token-budget.
const mostBudget = 1 << 20

// prepare reads all that the systems share.
func (f *serveFlags) prepare(c *call) error {
	f.schedules, f.selection, f.entry = []string{"dense"}, "auto", "auto"
	f.options.Fragments, f.options.Batch = 1, 1
	f.Path, f.Plots = c.args[0], f.format == "html"
	switch {
	case c.changed("goodput") && !(f.Goodput > 0 && f.Goodput <= 1):
		return usagef("--goodput %g: expected a share above 0, at most 1", f.Goodput)
	case c.changed("repeats") && (f.Repeats < board.MinRequests || f.Repeats > 1000):
		return usagef("--repeats %d: expected %d to 1000", f.Repeats, board.MinRequests)
	case c.changed("burstiness") && !(f.Burstiness >= 0.01 && f.Burstiness <= 1000):
		return usagef("--burstiness %g: expected a shape from 0.01 to 1000", f.Burstiness)
	case f.Repeats > 0 && f.Lengths == "" && f.Burstiness == 0:
		return usagef("--repeats needs --lengths or --burstiness, because nothing else is drawn")
	case f.Admission.Batch && f.Limits.TPOT() == 0:
		return usagef("--limit-batch needs a tpot in --slo, as in tpot=50ms")
	case f.Replicas > 1 && f.Replicas != f.options.Experts:
		return usagef("--data-parallel %d needs --expert-gpus %d: only GPUs that share experts wait for each other", f.Replicas, f.Replicas)
	case f.Budget > mostBudget:
		return usagef("--token-budget %d: expected 1 to %d", f.Budget, mostBudget)
	case serving.PrefixTokens%f.BlockTokens != 0:
		return usagef("--block-tokens %d: expected a divisor of %d", f.BlockTokens, serving.PrefixTokens)
	}
	if err := f.checkOne(c, f.machine, f.memory); err != nil {
		return err
	}
	if err := f.findModel(f.model); err != nil {
		return err
	}
	f.Engine.Options, f.Selection = f.options, systems.Question{Table: f.table, TopK: f.topk}
	if err := f.Read(c.Context()); err != nil {
		return err
	}
	if f.Gap == 0 && (f.Burstiness > 0 || f.Goodput > 0) {
		return usagef("--goodput and --burstiness need times between arrivals, but all requests of %s arrive at once", f.Path)
	}
	for i, name := range f.Priority {
		if slices.Contains(f.Priority[:i], name) {
			return usagef("--priority names %q twice: remove one", name)
		}
	}
	for _, name := range slices.Concat(f.Priority, slices.Collect(maps.Keys(f.Limits))) {
		if name != "" && !slices.Contains(f.Classes, name) {
			return usagef("class %q of --slo or --priority: %s has %s", name, f.Path, cmp.Or(strings.Join(f.Classes, ", "), "no classes"))
		}
	}
	if f.series == "" {
		return nil
	}
	if f.Scale != 1 || f.Burstiness > 0 || f.Lengths != "" {
		return usagef("--series needs the requests as they were recorded: remove --scale, --burstiness and --lengths")
	}
	text, err := files.Read(c.Context(), f.series)
	if err != nil {
		return err
	}
	f.Series, err = serving.ReadSeries(bytes.NewReader(text), f.series)
	return err
}

// checkEffects refuses flags that no system uses.
func (f *serveFlags) checkEffects(c *call, list []*systems.System) error {
	selects := slices.ContainsFunc(list, experiment.Selects)
	for _, name := range []string{"traces", "cache-batch", "context", "topk"} {
		if c.changed(name) && !selects {
			return usagef("--%s has no effect, because no system of --systems selects entries: remove it", name)
		}
	}
	if c.changed("seed") && !selects && f.Lengths == "" && f.Burstiness == 0 {
		return usagef("--seed has no effect without --lengths or --burstiness, because nothing is drawn: remove it")
	}
	if f.Admission.Literal && !f.Admission.Batch && !slices.ContainsFunc(list, experiment.Partial) {
		return usagef("--literal has no effect without the system ellm or --limit-batch: remove it")
	}
	return nil
}

// report returns the tables of results, with notes.
func (f *serveFlags) report(results []*serving.Result) *table.Report {
	rate := "all at once"
	if results[0].Rate > 0 {
		rate = text.Rate(results[0].Rate, 3) + " per second"
	}
	report := serving.Report(fmt.Sprintf("%s on %s, %s, %s", f.shape.Name, f.options.Machine.Name, count(results[0].Requests, "request"), rate), results)
	note := func(format string, args ...any) {
		report.Footnotes = append(report.Footnotes, fmt.Sprintf(format, args...))
	}
	if f.Empty > 0 {
		note("Requests without output tokens, which generate one: %d", f.Empty)
	}
	if most := int64(f.shape.Context.Value); f.Longest > most {
		note("The longest request has %d tokens, more than the context of %s, %d", f.Longest, f.shape.Name, most)
	}
	if f.Replicas > 1 {
		note("Data parallelism: %d GPUs divide the requests. An iteration takes as long as on the slowest of them. Requests, tokens/s and KV are those of all", f.Replicas)
	}
	if f.Burstiness > 0 {
		note("The times between arrivals are drawn from a gamma distribution of shape %g", f.Burstiness)
	}
	return report
}

func (f *serveFlags) print(c *call, results []*serving.Result, report *table.Report, inputs []string) error {
	var figures []render.PageFigure
	switch f.format {
	case "csv":
		return serving.WriteCSV(c.stdout, results)
	case "html":
		var width int64
		figures, width = experiment.Plots(results)
		report.Footnotes = append(report.Footnotes, fmt.Sprintf("Points over time stand for spans of %s: means of requests, and the largest memory", hardware.Seconds(float64(width)/1e9)))
		if f.Repeats > 0 {
			report.Footnotes = append(report.Footnotes, fmt.Sprintf("Lines of plots are means over %d seeds, with the smallest and the largest value. The second table is of seed %d", f.Repeats, f.options.Seed))
		}
		if err := addSums(c.Context(), report, inputs); err != nil {
			return err
		}
	}
	return c.report(f.format, results, serving.Finding(results), report, figures...)
}
