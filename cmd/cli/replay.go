package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/storage"
	"github.com/kvreplay/kvreplay/metrics/render"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

type replayFlags struct {
	table                policies.Table
	policies, capacities []string
	setting              result.Setting // the texts of mechanisms, and numbers that flags give
	per, format          string
	tiers                []string
	inclusive            bool
	allocation           string
	bytes                int
	shareHeads           bool
	layers, requests     []string
	parallel             int
	out, stage           string
	referee              bool
	profile, indices     bool
	fresh, explain       bool
	checkpoint           time.Duration
}

func replayCommand(table policies.Table) command {
	f := replayFlags{table: withPrograms(table)}
	return command{
		use:   "replay TRACE...",
		short: "Replay traces through policies and count their misses",
		long: `Replay every policy at every capacity on each trace and count the misses exactly.
A trace is a file, or an object s3://BUCKET/KEY (trace/STORAGE.md).
The default output is a summary. --out keeps the rows of each trace, for kvreplay leaderboard.
The same command continues a run with --out that was stopped. Further runs into the folder
replay only the cells that it lacks.`,
		details: `Policies: kvreplay policies lists them. These stand for several:
  all                   every exact policy that the trace can serve, with window:1 to window:4
  lossy                 every lossy policy that the trace can serve
  submitted             every policy of policies/submissions
  window:1-16           windows of 1 to 16 steps
  exec:'COMMAND'        a policy in another program (policies/external/PROTOCOL.md)

Capacities, for each stream:
  1.5x                  1.5 × K entries
  0.2ctx                0.2 of the prompt's tokens
  6400                  6400 entries
  64MiB                 bytes of a request, shared by its streams
  1x+2x@64              1 × K entries, and 2 × K from step 64 on
  peak:window:2         as many entries as the policy window:2 keeps at its peak
  sweep[:N]             a curve of N capacities (default 64) from 1x to below 16x

Warm-up, the choice of the blocks that are resident before step 0:
  auto                  lru:W with the most windows that every stream has, or cold
  lru:W                 the policy runs over the last W windows of the prompt
  importance:W          the blocks with the largest sum of scores in the last W windows
                        (importance:W,scope=request sums over all streams of a request)
  staging               the first blocks behind the sinks
  cold                  none

Prefetch, fetches before the step that demands the block (SIZE is a capacity):
  predicted:SIZE        the trace's predicted_indices, into a staging buffer
  candidates:SIZE       the candidates of the step before, into a staging buffer
  echo:SIZE             the blocks that the policy echo expects next, into a staging buffer
  candidates:SIZE,swap  the candidates, into the cache: at most SIZE a step replace worse ones
  echo:SIZE,swap        the same with the blocks that echo expects

Outliers, blocks that stay on the GPU outside the capacity:
  windows:N             the N blocks of a stream that most windows demand
  unlisted:N            N blocks that the trace's selector keeps and that no list names

Clusters, units of unequal size:
  lists                 read from the lists of a selector that ranks clusters
  FILE                  a file of kvreplay clusters
  ...,page=N            each cluster takes whole pages of N tokens

Without --inclusive a tier keeps the blocks that the cache above evicts, and most policies are
LRU there. Below the last tier every block is found. With --profile or --referee a stopped trace
begins again, and with --referee every cell is replayed.
kvreplay help combinations lists the flags that do not combine.`,
		example: `  kvreplay replay t.parquet
  kvreplay replay t.parquet --policy lru,opt,window:2 --capacity 1.5x,2x --per request --out results`,
		args: atLeast(1, "trace"),
		flags: func(fl *flagSet) {
			f.defineCommon(fl)
			fl.out(&f.out, "keep rows, and profiles, in this `FOLDER`, one file per trace")
			fl.enum(&f.format, "format", "", "print a `summary`, or all rows as table, jsonl or csv (default: nothing with --out)",
				"summary", "table", "jsonl", "csv")
			fl.BoolVar(&f.profile, "profile", false, "write the misses of every step to --out, for kvreplay time and plan")
			fl.IntVar(&f.parallel, "parallel", runtime.GOMAXPROCS(0), "number of workers (no effect on the rows)")
			fl.positive("parallel")
			fl.more()
			f.defineMore(fl)
			fl.StringVar(&f.stage, "stage", "", "copy s3:// traces to this `FOLDER` first (default: read the ranges that are needed)")
			fl.BoolVar(&f.fresh, "fresh", false, "replay also the cells that --out already has")
			fl.DurationVar(&f.checkpoint, "checkpoint", replay.DefaultCheckpoint, "time between saves of the progress within a trace")
			fl.BoolVar(&f.referee, "referee", false, "check every step with a slow second engine and stop at the first difference")
			fl.BoolVar(&f.indices, "profile-indices", false, "add the missed indices of every step to the profile")
			fl.goWith(outFlag, "fresh", "checkpoint", "profile")
			fl.goWith("profile", "profile-indices")
		},
		run:  f.run,
		next: f.next,
	}
}

// defineCommon defines the flags that choose policies, capacities, streams and the rows.
func (f *replayFlags) defineCommon(fl *flagSet) {
	fl.StringArrayVar(&f.policies, "policy", []string{"all"}, "replay these policies, each `NAME[:OPTIONS]`, or a group: all, lossy")
	fl.StringSliceVar(&f.capacities, "capacity", []string{"1x", "1.5x", "2x", "3x", "4x"},
		"capacity of each stream, `SIZE` as in 2x (of K), 0.2ctx, 6400 or 64MiB")
	fl.IntVar(&f.setting.TopK, "topk", 0, "`K`, the list entries that a step reads (default: the trace's)")
	fl.StringVar(&f.setting.Warmup, "warmup", "auto", "choose the blocks resident before step 0 by this `METHOD`")
	fl.StringSliceVar(&f.layers, "layers", nil, "replay only these `LAYERS`, as in 0,5,10-20 (default: all)")
	fl.StringSliceVar(&f.requests, "requests", nil, "replay only the requests of these `IDS` (default: all)")
	fl.enum(&f.per, "per", string(replay.PerCell), "count one row per `cell`, request, layer or stream",
		string(replay.PerCell), string(replay.PerRequest), string(replay.PerLayer), string(replay.PerStream))
}

// defineMore defines the flags that few replays need.
func (f *replayFlags) defineMore(fl *flagSet) {
	fl.IntVar(&f.setting.Candidates, "candidates", 0, "`M`, the list entries that policies see (default: the trace's)")
	fl.IntVar(&f.setting.Sink, "sink", 0, "pin the first `N` tokens of the context (default: the trace's, or 0)")
	fl.IntVar(&f.setting.Local, "local", 0, "pin the last `N` tokens, with the one being decoded (default: the trace's, or 1)")
	sizeVar(fl, &f.bytes, "entry-bytes", 0, mostBytes, "size of an entry (default: the trace's)")
	fl.IntVar(&f.setting.BlockTokens, "block-tokens", 0, "tokens per block, the unit of the cache (default: the trace's)")
	fl.BoolVar(&f.shareHeads, "share-heads", false, "join the heads of a layer in one cache, with blocks that hold all heads")
	fl.IntVar(&f.setting.StepTokens, "mtp", 1, "decode this many consecutive positions per step and join their demands")
	fl.StringVar(&f.setting.Clusters, "clusters", "", "cache units of unequal size, from the lists or a `FILE`")
	fl.StringVar(&f.setting.Outliers, "outliers", "", "keep these blocks on the GPU outside the capacity, as in windows:64")
	fl.StringVar(&f.setting.Pool, "pool", "", "share one cache among the streams of a `request` or of a layer (default: each has its own)")
	fl.StringVar(&f.setting.Prefetch, "prefetch", "", "fetch ahead from `SOURCE`, as in candidates:64 or echo:64")
	fl.StringArrayVar(&f.tiers, "tier", nil, "add a cache below the GPU's, `NAME=POLICY@CAPACITY` as in dram=lru@8x, fastest first")
	fl.BoolVar(&f.inclusive, "inclusive", false, "keep copies in tiers of the blocks that pass through them")
	fl.StringVar(&f.allocation, "allocation", "", "use the sizes in this `PLAN` of kvreplay allocate instead of --capacity")
	fl.StringVar(&f.setting.Reallocation, "reallocate", "",
		"divide the plan's memory again every `STEPS[:METHOD]` decode steps (default method 2d-greedy)")
	fl.Uint64Var(&f.setting.Seed, "seed", 0, "seed of policies that draw at random (default 0)")
	fl.BoolVar(&f.explain, "explain", false, "print why each policy of a group is left out")
	fl.positive("topk", "candidates", "block-tokens", "mtp", "local", "entry-bytes")
	fl.goWith("allocation", "reallocate")
	fl.goWith("tier", "inclusive")
}

// run replays every trace in turn. It keeps the rows of a finished trace whatever happens to the
// next.
func (f *replayFlags) run(c *call) error {
	o, err := f.options(c)
	if err != nil {
		return err
	}
	if f.out != "" {
		if o.Store, err = replay.OpenStore(f.out); err != nil {
			return err
		}
	}
	o.Progress = c.bar.add
	tasks, err := f.plan(c.Context(), c.args, o)
	defer closeAll(tasks)
	if err != nil {
		return err
	}
	if err := f.prepare(tasks, o.Store); err != nil {
		return err
	}
	f.printNotes(c.stderr, slice.Map(tasks, func(t *task) planned { return planned{t.file.Path(), t.job.Notes(), t.job.LeftOut()} }))
	steps, cells := int64(0), 0
	for _, t := range tasks {
		steps += t.job.Work()
		cells += t.job.Cells()
	}
	c.bar.start(steps, "replay "+count(cells, "cell"), "steps")
	var rows []result.Row // to be printed
	kept, fromStore := 0, 0
	redone := changes{}
	for i, t := range tasks {
		if i+1 < len(tasks) {
			t.job.BeforeEnd(tasks[i+1].job.Expect)
		}
		if t.profile != nil {
			t.profile.Failing = func(err error) { c.bar.note("kvreplay: %v: the replay continues without the profile", err) }
		}
		result, err := f.finish(c.Context(), t, o.Store)
		if err != nil {
			c.bar.close()
			redone.write(c.stderr)
			if is[*replay.Interrupted](err) && f.out == "" {
				err = fmt.Errorf("%w (--out FOLDER keeps finished work)", err)
			}
			return err
		}
		redone.add(result)
		for _, note := range result.Notes[len(t.job.Notes()):] { // the others are printed
			c.bar.note("kvreplay: %s: %s", t.file.Path(), note)
		}
		if f.out == "" || f.format != "" {
			rows = append(rows, result.Rows...)
		}
		t.job = nil // which has its rows in memory
		t.file.Close()
		kept += len(result.Rows)
		fromStore += result.FromStore
	}
	c.bar.close()
	redone.write(c.stderr)
	if f.out != "" {
		c.wrote(f.out, fmt.Sprintf("%s of %s (%s %s already in it)", count(kept, "row"), count(len(tasks), "trace"),
			count(fromStore, "cell"), map[bool]string{true: "was", false: "were"}[fromStore == 1]))
		if f.format == "" {
			return nil
		}
	}
	switch f.format {
	case "jsonl":
		return result.WriteJSONL(c.stdout, rows)
	case "csv":
		return result.WriteCSV(c.stdout, rows)
	case "table":
		return render.Rows(c.stdout, rows)
	}
	return render.Summary(c.stdout, rows)
}

// next returns the command that keeps the rows, with the optimum among them, or the one that
// ranks them. A profile is for plan.
func (f *replayFlags) next(c *call) []string {
	isOptimum := func(p string) bool { return slices.Contains([]string{"all", "lossy", "opt"}, strings.ToLower(p)) }
	optimum := slices.ContainsFunc(splitPolicies(f.policies), isOptimum)
	if _, err := profileIn(f.out); f.profile && err == nil { // plan takes one profile
		return []string{"plan", f.out, "--layer-map", "nearest"}
	}
	clusters := c.changed("clusters") // have no optimum
	switch named := splitPolicies(f.policies); {
	case f.out != "" && optimum:
		return []string{"leaderboard", f.out}
	case f.out != "" && clusters && len(named) == 2:
		return []string{"compare", named[0], named[1], f.out}
	case f.out != "" && clusters:
		return []string{"compare", "--help"}
	}
	next := slices.Concat([]string{"replay"}, c.args, c.given("replay", "format", "explain", outFlag))
	if !optimum && !clusters {
		next = append(next, "--policy", "opt")
	}
	if !c.changed("per") {
		next = append(next, "--per", "request") // a board then has intervals
	}
	return append(next, "--out", cmp.Or(f.out, resultsFolder))
}

// options checks the flags and turns them into replay's options.
func (f *replayFlags) options(c *call) (o replay.Options, err error) {
	s := &f.setting
	o = replay.Options{TopK: s.TopK, Candidates: s.Candidates, Requests: f.requests, Workers: f.parallel, Seed: s.Seed,
		Shape:   replay.Shape{BlockTokens: s.BlockTokens, ShareHeads: f.shareHeads, StepTokens: s.StepTokens},
		Referee: f.referee, Fresh: f.fresh, Checkpoint: f.checkpoint}
	if o.Policies, o.SkipUnable, err = parsePolicies(f.table, f.policies); err != nil {
		return o, errUsage{err}
	}
	if o.Capacities, err = replay.ParseCapacities(f.capacities); err != nil {
		return o, errUsage{err}
	}
	if err = checkPeaks(f.table, o.Policies, o.Capacities); err != nil {
		return o, errUsage{err}
	}
	if err = o.Read(s, f.table); err != nil {
		return o, errUsage{err}
	}
	if o.Clusters, err = unlessStopped(c.Context(), func() (*replay.Clusters, error) { return replay.ParseClusters(s.Clusters) }); err != nil {
		if is[*replay.ClustersError](err) {
			return o, errUsage{err}
		}
		return o, err // of its file
	}
	for _, text := range f.tiers {
		t, err := replay.ParseTier(f.table, text)
		if err != nil {
			return o, errUsage{err}
		}
		o.Tiers = append(o.Tiers, t)
	}
	o.Inclusive = f.inclusive
	if f.allocation != "" {
		if c.changed("capacity") {
			return o, usagef("--allocation and --capacity both set capacities: remove one of them")
		}
		o.Capacities = nil
		if o.Allocation, err = allocate.Read(c.Context(), f.allocation); err != nil {
			return o, err
		}
	}
	hasCapacity := func(s policies.Spec) bool { return !s.Entry.Traits.Windowed } // a window keeps its steps' demand
	if c.changed("capacity") && !slices.ContainsFunc(o.Policies, hasCapacity) {
		return o, usagef("--capacity has no effect, because %s has no capacity: remove the flag or add a policy that has one", o.Policies[0].Name())
	}
	if o.Layers, err = parseLayers(f.layers); err != nil {
		return o, errUsage{err}
	}
	o.Per = replay.Detail(f.per)
	given := func(name string, value *int) *int {
		if c.changed(name) {
			return value
		}
		return nil
	}
	o.Sink, o.Local, o.EntryBytes = given("sink", &s.Sink), given("local", &s.Local), given("entry-bytes", &f.bytes)
	return o, f.check(c)
}

func (f *replayFlags) check(c *call) error {
	unseen := []setting.Mechanism{setting.UseCheckpoint, setting.UseProfile, setting.UseReferee, setting.UseClusters} // by replay.Plan
	used := slice.Filter(unseen, func(m setting.Mechanism) bool { return c.changed(strings.TrimPrefix(string(m), "--")) })
	if err := setting.Combine(used...); err != nil {
		return errUsage{err}
	}
	switch {
	case f.checkpoint <= 0:
		return usagef("--checkpoint %v: expected a time above 0", f.checkpoint)
	case f.setting.Sink < 0:
		return usagef("--sink %d: expected at least 0", f.setting.Sink)
	}
	return nil
}

// checkPeaks refuses a capacity peak:POLICY unless the run has that windowed policy.
func checkPeaks(table policies.Table, specs []policies.Spec, capacities []replay.Capacity) error {
	for _, c := range capacities {
		if c.Peak() == "" {
			continue
		}
		spec, err := table.Parse(c.Peak())
		switch {
		case err != nil:
			return fmt.Errorf("capacity %v: %w", c, err)
		case !spec.Entry.Traits.Windowed:
			return fmt.Errorf("capacity %v: %s has a capacity: expected a policy without one, as in peak:window:2", c, spec.Name())
		case spec.Name() != c.Peak():
			return fmt.Errorf("capacity %v: write peak:%s", c, spec.Name())
		case !slices.ContainsFunc(specs, func(s policies.Spec) bool { return s.Name() == spec.Name() }):
			return fmt.Errorf("capacity %v: the run has no policy %s: add --policy %s", c, spec.Name(), spec.Name())
		}
	}
	return nil
}

// task is one trace of a run.
type task struct {
	file    *trace.File
	job     *replay.Job
	profile *replay.Profile // nil without --profile
}

// plan opens and plans every trace before the replay begins. A wrong name, a broken file or an
// option that a trace cannot serve then costs no work.
func (f *replayFlags) plan(ctx context.Context, paths []string, o replay.Options) (tasks []*task, err error) {
	if err := checkNames(paths, "into a folder"); err != nil {
		return nil, err
	}
	digests := map[string]string{} // to a path
	for file, err := range f.opened(ctx, paths) {
		if err != nil {
			return tasks, err
		}
		t, path := &task{file: file}, file.Path()
		tasks = append(tasks, t)
		if t.job, err = replay.Plan(t.file, o); err != nil {
			return tasks, err
		}
		if other, ok := digests[t.job.Digest()]; ok {
			return tasks, usagef("%s and %s are the same trace (digest %s), whose rows would count twice: name one of them", other, path, t.job.Digest())
		}
		digests[t.job.Digest()] = path
		if len(tasks) == 1 && !f.profile { // Record may add work
			t.job.Expect() // while the other traces are opened
		}
	}
	return tasks, nil
}

// prepare makes the results folder, begins the profiles and keeps the requested cells. It runs
// after all inputs are opened, so a wrong input leaves no folder.
func (f *replayFlags) prepare(tasks []*task, store *replay.Store) (err error) {
	if store == nil {
		return nil
	}
	if err := store.Make(); err != nil {
		return err
	}
	for _, t := range tasks {
		if err := checkOutput("replay", filepath.Join(f.out, replay.RowsName(t.file.Path())), nil); err != nil {
			return err
		}
		// The name depends on all settings, so that a repeated run replaces its own profile and no other.
		profile := filepath.Join(f.out, fmt.Sprintf("%s.profile-%s.parquet", replay.Stem(t.file.Path()), t.job.Key()))
		if !f.profile || t.job.Recorded(profile, f.indices) {
			continue
		}
		if t.profile, err = replay.CreateProfile(profile, f.indices); err != nil {
			return err
		}
		if err := t.job.Record(t.profile); err != nil {
			return err
		}
	}
	for _, t := range tasks {
		if err := t.job.SaveRequested(); err != nil {
			return err
		}
	}
	return nil
}

// opensAhead is the number of traces in an object store that are opened at a time, because each waits
// for several requests.
const opensAhead = 4

// opened opens traces in their order.
func (f *replayFlags) opened(ctx context.Context, paths []string) iter.Seq2[*trace.File, error] {
	type opened struct {
		file *trace.File
		err  error
	}
	return func(yield func(*trace.File, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var begun []chan opened
		for i, path := range paths {
			ahead := 1
			if storage.IsURL(path) && f.stage == "" {
				ahead = opensAhead
			}
			for len(begun) < min(i+ahead, len(paths)) {
				next, c := paths[len(begun)], make(chan opened, 1)
				begun = append(begun, c)
				go func() {
					whole := len(f.layers)+len(f.requests) == 0
					file, err := f.open(ctx, next, next == paths[0] && whole)
					c <- opened{file, err}
				}()
			}
			if r := <-begun[i]; yield(r.file, r.err) {
				continue
			}
			cancel()
			for _, c := range begun[i+1:] {
				if r := <-c; r.err == nil {
					r.file.Close()
				}
			}
			return
		}
	}
}

// open opens a trace. With --stage it copies an object of an object store to a file first.
func (f *replayFlags) open(ctx context.Context, path string, ahead bool) (*trace.File, error) {
	if f.stage != "" && storage.IsURL(path) {
		if err := files.MakeFolder(f.stage); err != nil {
			return nil, fmt.Errorf("--stage: %w", err)
		}
		copied := filepath.Join(f.stage, filepath.Base(path))
		if err := storage.Stage(ctx, path, copied); err != nil {
			return nil, err
		}
		path = copied
	}
	if ahead {
		return trace.OpenAhead(ctx, path)
	}
	return trace.OpenContext(ctx, path)
}

// checkNames refuses paths with the same file name, which is how rows name their trace. apart
// says how such traces can be replayed.
func checkNames(paths []string, apart string) error {
	seen := map[string]string{}
	for _, path := range paths {
		name := filepath.Base(path)
		other, ok := seen[name]
		switch {
		case ok && filepath.Clean(other) == filepath.Clean(path):
			return usagef("trace %s is named twice", path)
		case ok:
			return usagef("%s and %s have the same file name, which names the trace in rows: rename one, or replay each %s of its own", other, path, apart)
		}
		seen[name] = path
	}
	return nil
}

// closeAll closes the traces and removes profiles that were not finished.
func closeAll(tasks []*task) {
	for _, t := range tasks {
		t.file.Close()
		if t.profile != nil {
			t.profile.Abort()
		}
	}
}

// planned is a trace with the remarks of its plan.
type planned struct {
	path    string
	notes   []string
	leftOut []replay.LeftOut
}

// printNotes prints the notes that the user should read before the work, each text once for all
// of its traces.
func (f *replayFlags) printNotes(w io.Writer, traces []planned) {
	var texts []string
	about := map[string][]string{} // traces by text
	add := func(t planned, text string) {
		if about[text] == nil {
			texts = append(texts, text)
		}
		about[text] = append(about[text], t.path)
	}
	for _, t := range traces {
		for _, note := range t.notes {
			add(t, note)
		}
		if f.explain {
			for _, l := range t.leftOut {
				add(t, l.String())
			}
		} else if len(t.leftOut) > 0 {
			add(t, replay.SummaryOf(t.leftOut)+"; --explain lists them")
		}
	}
	for _, text := range texts {
		of := strings.Join(about[text], ", ")
		if n := len(about[text]); n > 1 && n == len(traces) {
			of = fmt.Sprintf("all %d traces", n)
		} else if n > 1 && !f.explain {
			of = fmt.Sprintf("%s and %d of the other %d traces", about[text][0], n-1, len(traces)-1)
		}
		fmt.Fprintf(w, "kvreplay: %s: %s\n", of, text)
	}
}

// finish replays one trace and keeps its files. It keeps the rows even if the profile fails.
func (f *replayFlags) finish(ctx context.Context, t *task, store *replay.Store) (*replay.Result, error) {
	result, err := t.job.Run(ctx)
	if err != nil {
		return nil, err
	}
	var failed error
	if t.profile != nil {
		failed = t.profile.Close()
	}
	if store == nil {
		return result, nil
	}
	notes, err := t.job.WriteRows()
	if err != nil {
		return nil, cmp.Or(failed, err)
	}
	result.Notes = append(result.Notes, notes...)
	if failed != nil {
		return nil, fmt.Errorf("%w; the rows are kept in %s, but a profile needs every step: mend that and repeat the command, "+
			"which replays this trace and the later ones", failed, filepath.Join(f.out, replay.RowsName(t.file.Path())))
	}
	return result, nil
}

// changes counts the cells that a run replays again although its folder has them, over all
// traces, by policy. These policies decide differently now.
type changes map[string]int

func (c changes) add(r *replay.Result) {
	for policy, cells := range r.Changed {
		c[policy] += cells
	}
}

// write prints a line for each policy that has changed.
func (c changes) write(w io.Writer) {
	for _, policy := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(w, "kvreplay: %s changed since the rows were written: replayed %s again\n", policy, count(c[policy], "cell"))
	}
}
