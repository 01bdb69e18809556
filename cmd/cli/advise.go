package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvreplay/kvreplay/datasets/corpus"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/advice"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/plan"
	"github.com/kvreplay/kvreplay/trace"
)

type adviseFlags struct {
	timeFlags
	table            policies.Table
	trace            string
	names            []string // policies
	capacities       []string
	memory           int64 // of the GPU, 0: the machine's
	slo              time.Duration
	maxBatch         int
	prices           []string
	dollarsByMachine map[string]float64 // by name as typed, "" for all
}

// adviceSteps is the number of decode steps that advise prices by default.
const adviceSteps = 32

func adviseCommand(known policies.Table) command {
	f := adviseFlags{table: known}
	return command{
		use:   "advise",
		short: "Advise cache size, policy, batch and options of serving engines",
		long: `Advise how to serve a model with sparse attention: cache size, policy, batch, and the options of
SGLang, TensorRT-LLM and vLLM to paste. A trace is replayed with several policies and capacities.
The search of kvreplay plan then finds the fastest configuration that fits and meets --slo.
Without --trace it is a bundled real trace, whose K is scaled to the model's own.
The answer has its confidence with reasons, and tells ties with LRU from gains.`,
		details: `With several machines the one with most tokens/s per GPU is advised, or the one with the cheapest
tokens if --dollars-per-hour has the price of each. A policy is called better than LRU only if the
errors of the time model and the requests of the trace both separate the two.
replay/advice/README.md explains the answer.`,
		example: `  kvreplay advise --hardware h100 --model deepseek-v3.2 --context 64K --slo 50ms
  kvreplay advise --hardware h100,h200 --model glm-5.1 --dollars-per-hour h100=2.5,h200=3.5
  kvreplay advise --gpu h200 --gpus 8 --host-memory 2TB --model deepseek-v3.2 --trace t.parquet`,
		flags: func(fl *flagSet) {
			fl.StringSliceVar(&f.machines, "hardware", []string{"h100"}, "advise for these `MACHINES` of kvreplay hardware list")
			fl.StringVar(&f.model, "model", "", "serve this model: a `SHAPE` of kvreplay hardware list, or a config.json (required)")
			tokensVar(fl, &f.options.Context, "context", "tokens of context per request, as in 64K (default: the model's)")
			fl.slo(&f.slo, "longest time per output token")
			fl.StringVar(&f.trace, "trace", "", "replay this `FILE`, best of the model itself (default: a bundled trace)")
			fl.StringSliceVar(&f.prices, "dollars-per-hour", nil, "price of a GPU for an hour, `PRICE` or MACHINE=PRICE,...")
			memoryVar(fl, &f.memory)
			f.defineExperts(fl)
			fl.format(&f.format, "", "text", "json")
			fl.more()
			fl.StringSliceVar(&f.names, "policy", []string{"lru", "lookahead", "lrfu", "echo"}, "choose from these `POLICIES`, and lru")
			fl.StringSliceVar(&f.capacities, "capacity", []string{"1x", "1.5x", "2x", "3x", "4x", "6x", "8x"}, "choose from these capacities, multiples of K as in 2x")
			fl.StringSliceVar(&f.schedules, "schedule", []string{"sequential", "layerwise", "tbo", "gpu", "dense"}, "choose from these `SCHEDULES`, and sequential")
			fl.IntVar(&f.topk, "topk", 0, "select this `K` in tokens (default: that of the model's indexer, or a 64th of the context)")
			fl.StringVar(&f.layerMap, "layer-map", "stretch", "map the trace's layers to the model's: nearest, stretch or `MODEL=TRACED,...`")
			fl.IntVar(&f.maxBatch, "max-batch", 512, "largest batch in requests")
			fl.StringVar(&f.selection, "selection", "auto", "find the Top-K by this `METHOD`")
			f.defineParts(fl)
			fl.Lookup("steps").Usage = fmt.Sprintf("number of steps to price (default %d)", adviceSteps)
			fl.positive("context", "topk", "max-batch")
		},
		run:  f.run,
		next: f.next,
	}
}

// next replays the user's trace, whose plan has all configurations.
func (f *adviseFlags) next(*call) []string {
	if f.trace == "" {
		return []string{"help", "advise"}
	}
	return []string{"replay", f.trace, "--policy", "lru,lookahead,lrfu,echo", "--capacity", "1x,2x,4x,8x", "--out", resultsFolder, "--profile"}
}

func (f *adviseFlags) run(c *call) error {
	if err := f.prepare(c); err != nil {
		return err
	}
	q := advice.Question{Trace: f.trace, Options: plan.Options{Schedules: f.parsedSchedules, LayerMap: f.layerMap, TopK: f.topk, MaxBatch: f.maxBatch, SLO: f.slo.Seconds()}}
	if q.Trace == "" {
		q.Trace, q.Bundled = "bundled "+corpus.EmbeddedFile, true
	}
	profiles, rows, err := f.replay(c)
	if err != nil {
		return err
	}
	longest := 0
	for i := range profiles[0].Requests {
		longest = max(longest, len(profiles[0].Requests[i].Steps[0]))
	}
	if c.changed("steps") && f.options.Steps > longest {
		return usagef("--steps %d: the requests of the trace have at most %d: state fewer", f.options.Steps, longest)
	}
	q.Rows = rows
	if q.TopK == 0 {
		q.TopK = f.shape.DefaultTopK(f.options.Context)
	}
	f.profile, f.topk = profiles[0], q.TopK
	if err := f.scale(); err != nil {
		return err
	}
	if err := f.shareExperts(f.memory); err != nil {
		return err
	}
	answer := advice.Answer{Version: advice.Version, Trace: q.Trace, Steps: f.options.Steps, Refused: []advice.Refusal{}}
	var failed error
	for _, name := range f.machineNames {
		machine, err := f.library.Machine(name)
		if err != nil {
			return errUsage{err}
		}
		q.Options.Options, q.Dollars = f.options, f.dollars(name)
		q.Machine = withMemory(machine, f.memory)
		q.Progress = c.bar.counts("plan for "+machine.Name, "searches")
		a, err := advice.Advise(c.Context(), profiles, q)
		c.bar.close()
		switch {
		case c.Context().Err() != nil:
			return c.Context().Err()
		case err != nil:
			failed = fmt.Errorf("%s: %w", machine.Name, err)
			answer.Refused = append(answer.Refused, advice.Refusal{Machine: machine.Name, Reason: err.Error()})
		default:
			answer.Advice = append(answer.Advice, a)
		}
	}
	if len(answer.Advice) == 0 {
		for _, r := range answer.Refused[:len(answer.Refused)-1] {
			fmt.Fprintf(c.stderr, "kvreplay: %s: %s\n", r.Machine, r.Reason)
		}
		return failed
	}
	answer.Choose()
	return c.print(f.format, answer, answer.WriteText)
}

// prepare checks the flags and sets everything that needs no trace.
func (f *adviseFlags) prepare(c *call) (err error) {
	if err := checkMemory(c, f.memory); err != nil {
		return err
	}
	if f.dollarsByMachine, err = parsePrices(f.prices); err != nil {
		return err
	}
	if err := advice.CheckCapacities(f.capacities); err != nil {
		return errUsage{err}
	}
	// The configuration that serving engines run is always planned.
	f.names, f.schedules = joinOptions(f.names), joinOptions(f.schedules)
	f.names = slice.Add(f.names, advice.EnginePolicy)
	if !f.everySchedule() && !slices.Contains(f.schedules, advice.EngineSchedule) {
		f.schedules = append(f.schedules, advice.EngineSchedule)
	}
	if !c.changed("steps") {
		f.options.Steps = adviceSteps
	}
	f.entry, f.options.Batch, f.options.Fragments = "auto", 1, 1
	if err := f.check(c); err != nil {
		return err
	}
	for name := range f.dollarsByMachine {
		if name != "" && !slices.ContainsFunc(f.machineNames, func(m string) bool { return f.sameMachine(m, name) }) {
			return usagef("--dollars-per-hour %s: expected one of the machines %s", name, strings.Join(f.machineNames, ", "))
		}
	}
	if err := f.findModel(f.model); err != nil {
		return err
	}
	most := int64(f.shape.Context.Value)
	switch o := &f.options; {
	case o.Context == 0:
		o.Context = most
	case o.Context > most:
		return usagef("--context %d: expected at most %d, the context of %s", o.Context, most, f.shape.Name)
	}
	return nil
}

// parsePrices reads prices in dollars, of all machines or by machine.
func parsePrices(texts []string) (map[string]float64, error) {
	prices := map[string]float64{}
	for _, text := range texts {
		name, price, named := strings.Cut(text, "=")
		if !named {
			name, price = "", text
		}
		v, err := strconv.ParseFloat(strings.TrimPrefix(price, "$"), 64)
		if err != nil || !(v > 0) || math.IsInf(v, 0) {
			return nil, usagef("--dollars-per-hour %s: expected a price of a GPU, as in 2.5 or h100=2.5", text)
		}
		if _, twice := prices[name]; twice || len(prices) > 0 && (name == "" || prices[""] > 0) {
			return nil, usagef("--dollars-per-hour %s: expected one price, or one for each machine, as in h100=2.5,h200=3.5", strings.Join(texts, ","))
		}
		prices[name] = v
	}
	return prices, nil
}

// dollars returns the price of a GPU of a machine, 0 if it is not known.
func (f *adviseFlags) dollars(machine string) float64 {
	for name, price := range f.dollarsByMachine {
		if name == "" || f.sameMachine(machine, name) {
			return price
		}
	}
	return 0
}

// replay replays the trace with every policy and capacity. It returns the profile of each cell and the
// rows by request.
func (f *adviseFlags) replay(c *call) (profiles []*pipeline.Profile, rows []result.Row, err error) {
	t, err := f.open()
	if err != nil {
		return nil, nil, err
	}
	defer t.Close()
	o, err := byRequest(f.table, f.names, f.capacities)
	if err != nil {
		return nil, nil, errUsage{err}
	}
	o.Seed, o.Progress, o.SkipUnable = f.options.Seed, c.bar.add, true
	for _, s := range o.Policies {
		if tr := s.Entry.Traits; tr.Lossy || tr.Windowed || tr.Offline {
			return nil, nil, usagef("--policy %s: expected exact policies with a capacity that do not see the future", s.Name())
		}
	}
	job, err := replay.Plan(t, o)
	if err != nil {
		return nil, nil, err
	}
	c.bar.start(job.Work(), "replay "+count(job.Cells(), "cell"), "steps")
	done, profiles, err := pipeline.Replay(c.Context(), job)
	c.bar.close()
	if err != nil {
		return nil, nil, err
	}
	if len(profiles) == 0 {
		return nil, nil, errors.New("the trace cannot serve any of the policies: name others with --policy")
	}
	return profiles, done.Rows, nil
}

// open opens the trace of --trace, or the bundled one.
func (f *adviseFlags) open() (*trace.File, error) {
	if f.trace != "" {
		return trace.Open(f.trace)
	}
	return openEmbedded()
}
