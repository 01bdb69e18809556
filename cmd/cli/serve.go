package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kvreplay/kvreplay/datasets/requests"
	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/render"
	"github.com/kvreplay/kvreplay/metrics/render/figure"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/serving"
	"github.com/kvreplay/kvreplay/replay/systems"
)

type serveFlags struct {
	timeFlags
	machine, folder string
	memory          int64
	names           []string
	scale           float64
	slo             slos
	priority        []string
	classes         map[string]bool // of the requests
	goodput         float64
	lengths, series string
	out             string
	burstiness      float64
	gap             float64 // mean between arrivals, in ns
	repeats         int
	traces          []string
	cacheBatch      int
	rows, timelines string
	limit, literal  bool
	engine          serving.Engine
	waits, noReuse  bool
	table           policies.Table
	recorded        []serving.Recorded
	samples         []serving.Sample
	drawn           [][2]int // lengths of --lengths
	empty           int      // requests without output tokens
	longest         int64    // tokens of the longest request
}

func serveCommand(known policies.Table) command {
	f := serveFlags{table: known, scale: 1}
	e := &f.engine
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
			fl.Var(factor(&f.scale), "scale", "multiply the times between arrivals by this `FACTOR`: 0.5x doubles the load")
			fl.Var(value{"limits", f.slo.read, func() string { return f.slo.text }, nil}, "slo", "longest times of a request: `tpot=DURATION,ttft=DURATION`, or one of them, and CLASS:tpot=DURATION for a class (default: none)")
			fl.StringSliceVar(&f.priority, "priority", nil, "serve requests of these `CLASSES` first, in this order (default: all equal)")
			fl.Float64Var(&f.goodput, "goodput", 0, "search the largest load at which this `SHARE` of the requests meets --slo (default: no search)")
			fl.StringVar(&f.lengths, "lengths", "", "draw the tokens of requests from this `FILE` of requests (default: the trace's own)")
			fl.format(&f.format, "", "table", "json", "csv", "markdown", "html")
			fl.out(&f.out, "write the output to this `FILE`")
			fl.more()
			fl.Float64Var(&f.burstiness, "burstiness", 0, "draw the times between arrivals from a gamma distribution of this `SHAPE` and the trace's mean: 1 is Poisson, less is more bursty (default: the trace's own)")
			fl.IntVar(&f.repeats, "repeats", 0, "draw --lengths and --burstiness with this `NUMBER` of seeds, and compare the systems with the first one (5 to 1000)")
			fl.StringSliceVar(&f.traces, "traces", nil, "replay these trace `FILES` for systems that select entries")
			fl.IntVar(&f.cacheBatch, "cache-batch", 16, "number of requests for which such a system sizes its cache")
			tokensVar(fl, &f.options.Context, "context", "tokens of context for which it does (default: the model's longest, at most 32K)")
			fl.IntVar(&f.topk, "topk", 0, "tokens that a head of such a system selects, `K` (default: those of the model's indexer, or a 64th of the context)")
			fl.StringVar(&f.series, "series", "", "compare the state of a recorded engine over time, from this `FILE`")
			fl.StringVar(&f.rows, "rows", "", "write a CSV file of requests and one of iterations for each system to this `FOLDER`")
			fl.StringVar(&f.timelines, "timelines", "", "write the memory and the iterations of each system to this `FOLDER`, for ui.perfetto.dev")
			fl.IntVar(&e.Budget, "token-budget", 2048, "largest number of tokens of an iteration")
			fl.IntVar(&e.MaxRunning, "max-running", 256, "largest number of requests that run")
			fl.IntVar(&e.BlockTokens, "block-tokens", 16, "number of tokens of a block of KV")
			fl.IntVar(&e.Blocks, "kv-blocks", 0, "number of usable blocks of KV on a GPU, one less than vLLM logs (default: as many as fit)")
			fl.BoolVar(&e.Elastic, "elastic", false, "give KV the memory that the activations of an iteration do not need (always for ellm)")
			fl.BoolVar(&f.waits, "synchronous", false, "form an iteration after the one before it has ended, not while it runs")
			fl.BoolVar(&f.noReuse, "no-prefix-reuse", false, "forget the KV of requests that ended or were preempted (always for ellm)")
			fl.BoolVar(&f.limit, "limit-batch", false, "admit requests only while an iteration meets the tpot of --slo (always for ellm)")
			fl.BoolVar(&f.literal, "literal", false, "let --limit-batch and ellm use equations 2 to 4 of eLLM as printed, not the operator model")
			memoryVar(fl, &f.memory)
			fl.StringVar(&f.folder, "systems-dir", "", "read further YAML files from this `FOLDER`")
			f.hardware.define(fl.FlagSet)
			f.parts.define(fl)
			fl.IntVar(&f.options.Experts, "expert-gpus", 0, expertGPUs)
			fl.IntVar(&f.options.TensorParallel, "tensor-parallel", 1, "number of GPUs that divide every layer and serve together")
			fl.Float64Var(&f.options.Reserve, "reserve", 0.1, "reserve this `SHARE` of GPU memory, 1 − vLLM's gpu_memory_utilization")
			fl.Uint64Var(&f.options.Seed, "seed", 0, "seed of the draws of --lengths and --burstiness (default 0)")
			fl.StringVar(&f.kernels, "kernels", publishedKernels, "price operators by this `MODEL`: fitted, roofline, or a CSV file of measured kernels")
			fl.StringVar(&f.timeFlags.engine, "engine", pipeline.DefaultEngine, "add the overhead of this `ENGINE` to kernels: graphs, eager, pytorch, transformers or none")
			fl.positive("expert-gpus", "token-budget", "max-running", "block-tokens", "kv-blocks", "tensor-parallel", "cache-batch", "context", "topk")
			fl.goWith("slo", "goodput", "limit-batch")
		},
		run: f.run,
		next: func(c *call) []string {
			return append(append([]string{"serve"}, c.args...), append(c.given("serve", "goodput", "repeats", "format", "rows", "timelines", outFlag), "--rows", "rows")...)
		},
	}
}

// factor is a flag of a positive number, with or without x.
func factor(to *float64) value {
	return value{"factor", func(text string) error {
		v, err := strconv.ParseFloat(strings.TrimSuffix(text, "x"), 64)
		if err != nil || !(v >= 1e-6 && v <= 1e6) {
			return fmt.Errorf("expected a factor from 1e-6 to 1e6, as in 0.5x")
		}
		*to = v
		return nil
	}, func() string { return strconv.FormatFloat(*to, 'g', -1, 64) + "x" }, nil}
}

// slos are the longest times of a request. Those of classes are given one by one.
type slos struct {
	serving.SLO
	classes map[string]serving.SLO
	text    string
}

// tpot returns the shortest limit of a token, in ns, 0 for none.
func (s *slos) tpot() int64 {
	least := s.TPOT
	for _, c := range s.classes {
		if c.TPOT > 0 && (least == 0 || c.TPOT < least) {
			least = c.TPOT
		}
	}
	return least
}

func (s *slos) read(text string) error {
	var slo serving.SLO
	s.text = text
	class, own := "", false
	if before, after, found := strings.Cut(text, ":"); found {
		class, text, own = before, after, true
	}
	for item := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(item, "=")
		limit := map[string]*int64{"tpot": &slo.TPOT, "ttft": &slo.TTFT}[name]
		d, err := time.ParseDuration(value)
		if limit == nil || err != nil || d <= 0 {
			return fmt.Errorf("%q, expected tpot=DURATION, ttft=DURATION or both, as in tpot=50ms,ttft=2s", item)
		}
		if *limit > 0 {
			return fmt.Errorf("%s is limited twice: remove one of the limits", name)
		}
		*limit = int64(d)
	}
	if _, twice := s.classes[class]; twice || !own && s.SLO != (serving.SLO{}) {
		return errors.New("the requests have limits already: join them with a comma, as in tpot=50ms,ttft=2s")
	}
	switch {
	case !own:
		s.SLO = slo
	case s.classes == nil:
		s.classes = map[string]serving.SLO{class: slo}
	default:
		s.classes[class] = slo
	}
	return nil
}

func (f *serveFlags) run(c *call) error {
	if err := f.prepare(c); err != nil {
		return err
	}
	inputs, err := f.inputFiles(append([]string{c.args[0], f.lengths, f.series}, f.traces...), f.folder)
	if err != nil {
		return err
	}
	if err := checkOutput("serve", f.out, inputs); err != nil {
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
	for _, folder := range []string{f.rows, f.timelines} {
		if folder != "" {
			if err := files.MakeFolder(folder); err != nil {
				return fmt.Errorf("serve: %w", err)
			}
		}
	}
	results, err := f.serveAll(c.Context(), c.args[0], list)
	if err != nil {
		return err
	}
	if f.repeats > 0 {
		f.compare(results)
	}
	rate := "all at once"
	if results[0].Rate > 0 {
		rate = text.Rate(results[0].Rate, 3) + " per second"
	}
	title := fmt.Sprintf("%s on %s, %s, %s", f.shape.Name, f.options.Machine.Name, count(results[0].Requests, "request"), rate)
	report := serving.Report(title, results, f.slo.SLO)
	if f.empty > 0 {
		report.Footnotes = append(report.Footnotes, fmt.Sprintf("Requests without output tokens, which generate one: %d", f.empty))
	}
	if most := int64(f.shape.Context.Value); f.longest > most {
		report.Footnotes = append(report.Footnotes, fmt.Sprintf("The longest request has %d tokens, more than the context of %s, %d", f.longest, f.shape.Name, most))
	}
	if f.burstiness > 0 {
		report.Footnotes = append(report.Footnotes, fmt.Sprintf("The times between arrivals are drawn from a gamma distribution of shape %g", f.burstiness))
	}
	if f.out == "" {
		return f.write(c, results, report, inputs)
	}
	return files.WriteBy(f.out, func(w io.Writer) error {
		c.stdout = w
		return f.write(c, results, report, inputs)
	})
}

// serveAll runs the systems. A failure stops those that come later, so the error is always that of the
// first system that fails.
func (f *serveFlags) serveAll(ctx context.Context, path string, list []*systems.System) ([]*serving.Result, error) {
	results, failures := make([]*serving.Result, len(list)), make([]error, len(list))
	own, stop := make([]context.Context, len(list)), make([]context.CancelFunc, len(list))
	for i := range list {
		own[i], stop[i] = context.WithCancel(ctx)
		defer stop[i]()
	}
	var group sync.WaitGroup
	for i, s := range list {
		group.Go(func() {
			if results[i], failures[i] = f.serve(own[i], path, s); failures[i] != nil {
				for _, later := range stop[i+1:] {
					later()
				}
			}
		})
	}
	group.Wait()
	for i, err := range failures {
		if err != nil {
			return nil, fmt.Errorf("serve %s with %s: %w", path, list[i].Name, err)
		}
	}
	return results, nil
}

// checkEffects refuses flags that no system uses.
func (f *serveFlags) checkEffects(c *call, list []*systems.System) error {
	selects, partial := false, false
	for _, s := range list {
		if schedule, err := pipeline.ParseSchedule(s.Schedule); err == nil {
			_, is := schedule.(*pipeline.ELLM)
			selects, partial = selects || !pipeline.AttendsDensely(schedule), partial || is
		}
	}
	for _, name := range []string{"traces", "cache-batch", "context", "topk"} {
		if c.changed(name) && !selects {
			return usagef("--%s has no effect, because no system of --systems selects entries: remove it", name)
		}
	}
	if c.changed("seed") && !selects && f.lengths == "" && f.burstiness == 0 {
		return usagef("--seed has no effect without --lengths or --burstiness, because nothing is drawn: remove it")
	}
	if f.literal && !partial && !f.limit {
		return usagef("--literal has no effect without the system ellm or --limit-batch: remove it")
	}
	return nil
}

func (f *serveFlags) write(c *call, results []*serving.Result, report *table.Report, inputs []string) error {
	switch f.format {
	case "json":
		return serving.WriteJSON(c.stdout, results)
	case "csv":
		return serving.WriteCSV(c.stdout, results)
	case "markdown":
		return report.Markdown(c.stdout)
	case "html":
		return f.page(c, results, report, inputs)
	}
	return report.Text(c.stdout)
}

// page writes the page of the results. Points over time stand for spans of equal width.
func (f *serveFlags) page(c *call, results []*serving.Result, report *table.Report, inputs []string) error {
	width := int64(0)
	for _, r := range results {
		for _, run := range r.Curves {
			width = max(width, run.Timeline.Width)
		}
	}
	plots := [4]*figure.Lines{}
	var figures []render.PageFigure
	for i, p := range [4][3]string{
		{"Time to the first token", "share of requests (%)", "TTFT at most (s)"}, {"Time per output token", "share of requests (%)", "TPOT at most (ms)"},
		{"Running requests", "time (s)", "running requests, mean"}, {"Waiting requests", "time (s)", "waiting requests, mean"},
	} {
		plots[i] = &figure.Lines{X: p[1], Y: p[2]}
		figures = append(figures, render.PageFigure{Title: p[0], Drawing: plots[i]})
	}
	for _, r := range results {
		var ttft, tpot [][]int64
		var spans [][]serving.Span
		most := 0
		for _, run := range r.Curves {
			ttft = append(ttft, run.TTFT)
			if run.TPOT != nil {
				tpot = append(tpot, run.TPOT)
			}
			run.Timeline.Widen(width)
			spans = append(spans, run.Timeline.Spans())
			most = max(most, len(spans[len(spans)-1]))
		}
		if len(tpot) < len(ttft) { // plots are means over all seeds
			tpot = nil
		}
		// over returns a value over time. A run that has ended has only the weights.
		over := func(at func(s *serving.Span) float64) func(seed, i int) (x, y float64) {
			return func(seed, i int) (x, y float64) {
				s := &serving.Span{Memory: [len(serving.Pools)]int64{spans[seed][0].Memory[0]}}
				if i < len(spans[seed]) {
					s = &spans[seed][i]
				}
				return (float64(i) + 0.5) * float64(width) / 1e9, at(s)
			}
		}
		memory := &figure.Lines{X: "time (s)", Y: "memory of a GPU, largest (GB)"}
		for i, p := range [4]struct {
			runs, points int
			at           func(seed, i int) (x, y float64)
		}{
			{len(ttft), 99, func(seed, i int) (x, y float64) { return float64(i + 1), float64(ttft[seed][i]) / 1e9 }},
			{len(tpot), 99, func(seed, i int) (x, y float64) { return float64(i + 1), float64(tpot[seed][i]) / 1e6 }},
			{len(spans), most, over(func(s *serving.Span) float64 { return s.Running })},
			{len(spans), most, over(func(s *serving.Span) float64 { return s.Waiting })},
		} {
			if p.runs > 0 {
				plots[i].Lines = append(plots[i].Lines, meanLine(r.System, p.runs, p.points, p.at))
			}
		}
		for k, pool := range serving.Pools {
			memory.Lines = append(memory.Lines, meanLine(pool, len(spans), most, over(func(s *serving.Span) float64 { return float64(s.Memory[k]) / 1e9 })))
		}
		figures = append(figures, render.PageFigure{Title: "GPU memory of " + r.System, Drawing: memory})
	}
	figures = slices.DeleteFunc(figures, func(p render.PageFigure) bool { return len(p.Drawing.(*figure.Lines).Lines) == 0 })
	report.Footnotes = append(report.Footnotes, fmt.Sprintf("Points over time stand for spans of %s: means of requests, and the largest memory", hardware.Seconds(float64(width)/1e9)))
	if f.repeats > 0 {
		report.Footnotes = append(report.Footnotes, fmt.Sprintf("Lines of plots are means over %d seeds, with the smallest and the largest value. The first table is of seed %d", f.repeats, f.options.Seed))
	}
	if err := addDigests(c.Context(), report, inputs); err != nil {
		return err
	}
	return c.page("serve", serving.Finding(results), report, figures...)
}

// meanLine returns the mean over seeds at each point, with the smallest and the largest value.
func meanLine(name string, seeds, points int, at func(seed, i int) (x, y float64)) figure.Line {
	l := figure.Line{Name: name, Bare: true}
	for i := range points {
		p := figure.Point{Low: math.Inf(1), High: math.Inf(-1)}
		for seed := range seeds {
			x, y := at(seed, i)
			p.X, p.Y, p.Low, p.High = x, p.Y+y/float64(seeds), min(p.Low, y), max(p.High, y)
		}
		l.Points = append(l.Points, p)
	}
	return l
}

// compare compares all systems with the first one over the seeds. Requests are the same for all, so
// that a figure is undefined for all systems or none. A figure that some seed lacks is not compared.
func (f *serveFlags) compare(results []*serving.Result) {
	for i, name := range serving.SeedFigures {
		all := make([][]float64, len(results))
		for k, r := range results {
			for _, s := range r.Seeds {
				if v := s.Figures[i]; v != nil {
					all[k] = append(all[k], *v)
				}
			}
		}
		pairs := make([]board.Pair, len(results)-1)
		if len(all[0]) == len(results[0].Seeds) {
			pairs = board.Pairs(all[0], all[1:], f.options.Seed)
		}
		for k, p := range pairs {
			results[k+1].Compared = append(results[k+1].Compared, serving.Compared{Figure: name, Ratio: p.Ratio, Low: p.Low, High: p.High, P: p.P})
		}
	}
}

// prepare reads all that the systems share.
func (f *serveFlags) prepare(c *call) error {
	f.schedules, f.selection, f.entry = []string{"dense"}, "auto", "auto"
	f.options.Fragments, f.options.Batch = 1, 1
	if c.changed("goodput") && !(f.goodput > 0 && f.goodput <= 1) {
		return usagef("--goodput %g: expected a share above 0, at most 1", f.goodput)
	}
	if c.changed("repeats") && (f.repeats < board.MinRequests || f.repeats > 1000) {
		return usagef("--repeats %d: expected %d to 1000", f.repeats, board.MinRequests)
	}
	if c.changed("burstiness") && !(f.burstiness >= 0.01 && f.burstiness <= 1000) {
		return usagef("--burstiness %g: expected a shape from 0.01 to 1000", f.burstiness)
	}
	if f.repeats > 0 && f.lengths == "" && f.burstiness == 0 {
		return usagef("--repeats needs --lengths or --burstiness, because nothing else is drawn")
	}
	if f.limit && f.slo.tpot() == 0 {
		return usagef("--limit-batch needs a tpot in --slo, as in tpot=50ms")
	}
	if serving.PrefixTokens%f.engine.BlockTokens != 0 {
		return usagef("--block-tokens %d: expected a divisor of %d", f.engine.BlockTokens, serving.PrefixTokens)
	}
	if f.options.Reserve == 0 {
		return usagef("--reserve 0: expected a share above 0, because a driver needs memory: remove the flag for 0.1")
	}
	if err := f.checkOne(c, f.machine, f.memory); err != nil {
		return err
	}
	if err := f.findModel(f.model); err != nil {
		return err
	}
	if err := f.readRequests(c.Context(), c.args[0]); err != nil {
		return err
	}
	if f.series == "" {
		return nil
	}
	if f.recorded == nil {
		return usagef("--series needs a recorded run, but %s states no times of tokens: remove the flag", c.args[0])
	}
	r, err := files.Open(c.Context(), f.series)
	if err != nil {
		return err
	}
	defer r.Close()
	f.samples, err = serving.ReadSamples(r, f.series)
	return err
}

// readRequests reads the requests once, so that errors come early, and the lengths of --lengths.
func (f *serveFlags) readRequests(ctx context.Context, path string) error {
	each := func(path string, do func(q *requests.Request)) error {
		r, err := requests.Open(path)
		if err != nil {
			return err
		}
		defer r.Close()
		var q requests.Request
		for n := 1; ; n++ {
			switch err := r.Read(&q); {
			case err == io.EOF:
				return nil
			case err != nil:
				return err
			case n%1024 == 0 && ctx.Err() != nil:
				return ctx.Err()
			case q.InputTokens == 0:
				return fmt.Errorf("serve: request %d of %s has no input tokens, expected at least 1: leave it out", n, path)
			}
			do(&q)
		}
	}
	if f.lengths != "" {
		if err := each(f.lengths, func(q *requests.Request) {
			f.drawn = append(f.drawn, [2]int{q.InputTokens, q.OutputTokens})
			f.longest = max(f.longest, int64(q.InputTokens)+int64(q.OutputTokens))
		}); err != nil {
			return err
		}
	}
	f.classes = map[string]bool{}
	read, last := 0, 0.
	err := each(path, func(q *requests.Request) {
		read, last = read+1, float64(q.Arrival)
		if q.Class != "" && len(f.classes) <= mostClasses {
			f.classes[q.Class] = true
		}
		if f.drawn == nil {
			f.longest = max(f.longest, int64(q.InputTokens)+int64(q.OutputTokens))
			if q.OutputTokens == 0 {
				f.empty++
			}
		}
		if q.LastToken > 0 && f.drawn == nil && f.scale == 1 && f.burstiness == 0 {
			f.recorded = append(f.recorded, serving.Recorded{Arrival: int64(q.Arrival), First: int64(q.FirstToken), Last: int64(q.LastToken), Output: q.OutputTokens})
		}
	})
	if err != nil {
		return err
	}
	f.gap = last / float64(max(1, read-1))
	if f.gap == 0 && (f.burstiness > 0 || f.goodput > 0) {
		return usagef("--goodput and --burstiness need times between arrivals, but all requests of %s arrive at once", path)
	}
	if len(f.classes) > mostClasses {
		return fmt.Errorf("serve %s: more than %d classes of requests: give several of them one name", path, mostClasses)
	}
	for _, name := range slices.Concat(f.priority, slices.Collect(maps.Keys(f.slo.classes))) {
		if !f.classes[name] {
			return usagef("class %q of --slo or --priority: %s has %s", name, path, cmp.Or(strings.Join(slices.Sorted(maps.Keys(f.classes)), ", "), "no classes"))
		}
	}
	return nil
}

// mostClasses bounds the memory of summaries.
const mostClasses = 16

// source opens the requests with their times between arrivals drawn if need be, and multiplied.
func (f *serveFlags) source(path string, seed uint64) serving.Sources {
	return func(stretch float64) (serving.Source, func(), error) {
		r, err := requests.Open(path)
		if err != nil {
			return nil, nil, err
		}
		var q requests.Request
		draw := rand.New(rand.NewPCG(seed, 0))
		gaps, arrival := distuv.Gamma{Alpha: f.burstiness, Beta: f.burstiness, Src: rand.NewPCG(seed, 1)}, -1.
		return func(to *serving.Request) error {
			if err := r.Read(&q); err != nil {
				return err
			}
			switch {
			case f.burstiness == 0:
				arrival = float64(q.Arrival)
			case arrival < 0: // the first request
				arrival = 0
			default:
				arrival += f.gap * gaps.Rand()
			}
			*to = serving.Request{Arrival: int64(arrival * f.scale * stretch), Input: q.InputTokens, Output: q.OutputTokens, Prefix: q.PrefixBlocks, Class: q.Class}
			if f.drawn != nil {
				length := f.drawn[draw.IntN(len(f.drawn))]
				to.Input, to.Output, to.Prefix = length[0], length[1], nil
			}
			to.Output = max(1, to.Output)
			return nil
		}, func() { r.Close() }, nil
	}
}

// describe returns the engine of a system, with notes.
func (f *serveFlags) describe(ctx context.Context, s *systems.System) (e serving.Engine, notes []string, err error) {
	e = f.engine
	e.Options, e.Preempt = f.options, cmp.Or(s.Preempt, pipeline.ByRecompute)
	schedule, err := pipeline.ParseSchedule(s.Schedule)
	if err != nil {
		return e, nil, err
	}
	own, partial := schedule.(*pipeline.ELLM)
	switch {
	case partial:
		e.Uncached, e.Fused, e.Elastic, e.Preempt = true, own.Fused, true, pipeline.BySwap
	case schedule == pipeline.OnGPU{Dense: true}:
	case pipeline.AttendsDensely(schedule):
		err = fmt.Errorf("schedule %s is not served: choose a system with schedule dense or ellm, or one that selects entries", s.Schedule)
	default:
		e.Sparse, notes, err = f.sparse(ctx, s, schedule.Traits().Moves)
	}
	return e, notes, err
}

// usualContext is the largest default context for which a cache is sized.
const usualContext = 32768

// sparse replays the traces for a system that selects entries, at the largest capacity that fits.
func (f *serveFlags) sparse(ctx context.Context, s *systems.System, moves pipeline.Moves) (*serving.Sparse, []string, error) {
	if len(f.traces) == 0 {
		return nil, nil, errors.New("it selects entries, so its misses come from a replay: name traces with --traces")
	}
	traces, closeTraces, err := openTraces(ctx, f.traces)
	defer closeTraces()
	if err != nil {
		return nil, nil, err
	}
	q := &systems.Question{Options: f.options, Table: f.table, TopK: f.topk, Turn: 1}
	q.Batch, q.Context = f.cacheBatch, cmp.Or(f.options.Context, min(usualContext, int64(f.shape.Context.Value)))
	rows, err := q.Compare(ctx, []*systems.System{s}, traces)
	if err != nil {
		return nil, nil, err
	}
	r := rows[0]
	if !r.Fits() {
		return nil, nil, fmt.Errorf("it does not fit: %s", r.Verdict)
	}
	tokens := float64(q.Batch) * float64(q.Context)
	held := r.Memory.Cache / float64(f.shape.Entry.Value) / float64(f.shape.Layers.Value) / float64(q.Batch)
	sparse := &serving.Sparse{Index: int64(math.Ceil(r.Memory.Index / tokens)), Staging: int64(r.Memory.Staging), Cached: max(1, int(math.Ceil(held))), Copied: moves == pipeline.MovesMisses || moves == pipeline.MovesQueries,
		Step: func(batch int, tokens int64) (float64, error) {
			at, err := r.At(ctx, batch, tokens)
			if err != nil {
				return 0, err
			}
			return at.Mean, nil
		}}
	kept := fmt.Sprintf("the KV of %d tokens", int(math.Ceil(held)))
	if moves == pipeline.MovesNothing {
		sparse.Cached, kept = serving.MostTokens, "all its KV"
	}
	notes := []string{fmt.Sprintf("%s: K is %d tokens, and a request keeps %s on the GPU", s.Name, r.K, kept)}
	for _, n := range r.Approximates {
		notes = append(notes, s.Name+": "+n)
	}
	return sparse, notes, nil
}

func (f *serveFlags) serve(ctx context.Context, path string, s *systems.System) (*serving.Result, error) {
	described, notes, err := f.describe(ctx, s)
	if err != nil {
		return nil, err
	}
	served, err := serving.NewServed(ctx, described, serving.Limits{Batch: f.limit, Literal: f.literal, TPOT: f.slo.tpot()})
	if err != nil {
		return nil, err
	}
	served.Ahead, served.NoPrefix = !f.waits, served.NoPrefix || f.noReuse
	served.Priority, served.Classes = f.priority, f.slo.classes
	var sinks []serving.Rows
	compared := serving.Comparison{Requests: f.recorded, Samples: f.samples}
	if f.recorded != nil {
		sinks = append(sinks, compared.Rows())
	}
	timeline := new(serving.Timeline)
	sinks = append(sinks, f.plotted(timeline))
	var unfinished []*files.File
	defer func() {
		for _, file := range unfinished {
			file.Abort()
		}
	}()
	var closing []func() error
	add := func(folder, name string, rows func(w io.Writer) (serving.Rows, func() error)) error {
		if folder == "" {
			return nil
		}
		file, err := files.Create(filepath.Join(folder, strings.ReplaceAll(s.Name, "/", "-")+name))
		if err != nil {
			return err
		}
		unfinished = append(unfinished, file)
		sink, end := rows(file)
		sinks = append(sinks, sink)
		closing = append(closing, func() error {
			if err := end(); err != nil {
				return err
			}
			return file.Commit()
		})
		return nil
	}
	none := func() error { return nil }
	for _, err := range []error{
		add(f.rows, ".requests.csv", func(w io.Writer) (serving.Rows, func() error) {
			return serving.Rows{Request: serving.NewRowWriter(w).Request}, none
		}),
		add(f.rows, ".steps.csv", func(w io.Writer) (serving.Rows, func() error) {
			return serving.Rows{Step: serving.NewRowWriter(w).Step}, none
		}),
		add(f.timelines, ".json", func(w io.Writer) (serving.Rows, func() error) {
			counters := serving.NewCounterWriter(w)
			return serving.Rows{Step: counters.Step}, counters.Close
		}),
	} {
		if err != nil {
			return nil, err
		}
	}
	from := f.source(path, f.options.Seed)
	summary, err := served.Summarise(ctx, from, 1, f.slo.SLO, serving.Join(sinks...))
	if err != nil {
		return nil, err
	}
	for _, end := range closing {
		if err := end(); err != nil {
			return nil, err
		}
	}
	r := &serving.Result{System: s.Name, Summary: summary, Notes: append(notes, served.Notes...)}
	curves := func(s *serving.Summary, t *serving.Timeline) {
		if f.format == "html" {
			own := serving.Curves{Timeline: t}
			own.TTFT, own.TPOT = s.Percentiles()
			r.Curves = append(r.Curves, own)
		}
	}
	curves(summary, timeline)
	if f.recorded != nil {
		r.Recorded = compared.Differences(summary.Blocks)
	}
	for k := range uint64(f.repeats) {
		seed, s := f.options.Seed+k, summary
		if k > 0 {
			timeline = new(serving.Timeline)
			if s, err = served.Summarise(ctx, f.source(path, seed), 1, f.slo.SLO, f.plotted(timeline)); err != nil {
				return nil, err
			}
			curves(s, timeline)
		}
		r.Seeds = append(r.Seeds, serving.NewSeed(seed, s))
	}
	if f.goodput > 0 {
		rate, note, e := served.Goodput(ctx, from, f.slo.SLO, f.goodput)
		summary.Goodput, err = &rate, e
		if note != "" {
			r.Notes = append(r.Notes, s.Name+": "+note)
		}
	}
	return r, err
}

// plotted returns the rows that a page needs.
func (f *serveFlags) plotted(t *serving.Timeline) serving.Rows {
	if f.format != "html" {
		return serving.Rows{}
	}
	return serving.Rows{Step: t.Step}
}
