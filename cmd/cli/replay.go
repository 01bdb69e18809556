package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kvreplay/kvreplay/metrics/render"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// replayFlags are the flags of `kvreplay replay` as typed.
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
	out                  string
	referee              bool
	profile, indices     bool
	fresh, explain       bool
	checkpoint           time.Duration
}

func replayCommand(table policies.Table) command {
	f := replayFlags{table: table}
	return command{
		use:   "replay TRACE...",
		short: "Replay traces through policies and print a summary or result rows",
		long: `Replay traces through cache policies: every policy at every capacity, on each
trace. A summary of ten lines goes to stdout, and --format prints the rows instead. With
--out rows are kept in one file a trace, NAME.rows.jsonl, which ` + "`kvreplay leaderboard`" + `
reads and to which later runs into the folder add. A run with --out that was stopped
continues where it was when the same command is given again. A run with more policies or
capacities replays only the new cells, and those of a policy whose decisions have changed
since. With --profile or --referee a trace is finished or begun again, and with --referee
every cell is replayed.`,
		example: `  kvreplay replay t.parquet
  kvreplay replay t.parquet --policy lru --policy lookahead --policy window:2 --policy opt \
      --topk 256 --candidates 320 --capacity 1x,1.5x,2x,4x,0.2ctx,6400 --warmup lru:32 --out results`,
		args: atLeast(1, "trace"),
		flags: func(fl *flagSet) {
			fl.StringArrayVar(&f.policies, "policy", []string{"all"}, "policies, each `NAME[:OPTIONS]`, comma-separated or repeated; all: every exact policy that the trace can serve, windows of 1 to 4 steps among them; lossy: every lossy one; window:1-16: windows from 1 to 16 steps")
			fl.StringSliceVar(&f.capacities, "capacity", []string{"1x", "1.5x", "2x", "3x", "4x"}, "capacities a stream: 1.5x (of K), 0.2ctx (of the prompt), 6400 (entries), 64MiB (a request), 1x+2x@64 (grows at step 64), peak:window:2, sweep[:N] (a curve: 64 or N from 1x to below 16x)")
			fl.StringVar(&f.setting.Warmup, "warmup", "auto", "lru:W, importance:W[,scope=request] (W prompt windows), staging, cold; auto: lru with the windows that all streams have")
			fl.IntVar(&f.setting.TopK, "topk", 0, "K, the demand's budget in entries of a list, whatever --block-tokens makes of them (default: the trace's)")
			fl.IntVar(&f.setting.Candidates, "candidates", 0, "M, how many entries of a list policies may see (default: the trace's)")
			fl.IntVar(&f.setting.Sink, "sink", 0, "first tokens that are always resident (default: the trace's, or 0)")
			fl.IntVar(&f.setting.Local, "local", 0, "last tokens that are always resident, the one being generated among them (default: the trace's, or 1)")
			sizeVar(fl, &f.bytes, "entry-bytes", 0, mostBytes, "bytes of a token's entry in a stream (default: the trace's)")
			fl.IntVar(&f.setting.BlockTokens, "block-tokens", 0, "tokens of a block, the unit of the cache (default: the trace's)")
			fl.BoolVar(&f.shareHeads, "share-heads", false, "the heads of a layer share one cache, of blocks that hold all of them")
			fl.IntVar(&f.setting.StepTokens, "mtp", 1, "consecutive positions that a step decodes: their demands are joined")
			fl.StringVar(&f.setting.Clusters, "clusters", "", "units of unequal sizes: lists (read off the lists of a selector that ranks clusters), or a `FILE` of clusters; either with ,page=N: each takes whole pages of N tokens")
			fl.StringVar(&f.setting.Outliers, "outliers", "", "blocks of a stream that stay on the GPU for good, beside the capacity: windows:N (the N that most prompt windows demand), unlisted:N (kept by the trace's selector, in no list)")
			fl.StringVar(&f.setting.Prefetch, "prefetch", "", "fetch ahead into a staging buffer: predicted:SIZE (predicted_indices), candidates:SIZE (ranks K … M-1 of the step before); SIZE as a capacity; candidates:SIZE,swap: into the cache, at most SIZE a step, for what ranks worse")
			fl.StringArrayVar(&f.tiers, "tier", nil, "a cache below the GPU's, repeatable from fast to slow: `NAME=POLICY@CAPACITY`, as in dram=lru@8x; below the last everything is found")
			fl.BoolVar(&f.inclusive, "inclusive", false, "with --tier: tiers keep a copy of what passes through; otherwise they keep what the one above gives up, and most policies are LRU there (TIERS.md)")
			fl.StringVar(&f.allocation, "allocation", "", "`PLAN` of kvreplay allocate: what each layer and head may keep, instead of --capacity")
			fl.StringVar(&f.setting.Reallocation, "reallocate", "", "with --allocation: every `STEPS[:METHOD]` decode steps divide the plan's memory anew by what was observed in them, by a METHOD of allocate (default 2d-greedy)")
			fl.StringVar(&f.setting.Pool, "pool", "", "streams that share one cache of the sum of their capacities: those of a `request` (all layers and heads) or of a layer (its heads) (default: each has its own)")
			fl.StringSliceVar(&f.layers, "layers", nil, "layers to replay, as in 0,5,10-20 (default: all)")
			fl.StringSliceVar(&f.requests, "requests", nil, "requests to replay, by id (default: all)")
			fl.enum(&f.per, "per", string(replay.PerCell), "rows: one a `cell`, request, layer or stream",
				string(replay.PerCell), string(replay.PerRequest), string(replay.PerLayer), string(replay.PerStream))
			fl.enum(&f.format, "format", "", "on stdout: `summary` (ten lines), or all rows as table, jsonl or csv (default summary, with --out nothing)",
				"summary", "table", "jsonl", "csv")
			fl.parallel(&f.parallel, "workers; rows do not depend on it")
			fl.Uint64Var(&f.setting.Seed, "seed", 0, "seed of policies that draw (default 0)")
			fl.out(&f.out, "folder to keep rows (and profiles) in, one file a trace")
			fl.BoolVar(&f.explain, "explain", false, "say for each policy of a group why it is left out, and what it needs")
			fl.BoolVar(&f.fresh, "fresh", false, "with --out: replay cells that the folder has, too")
			fl.DurationVar(&f.checkpoint, "checkpoint", replay.DefaultCheckpoint, "with --out: how often progress within a trace is kept")
			fl.BoolVar(&f.referee, "referee", false, "replay with the slow second engine too and stop at the first difference")
			fl.BoolVar(&f.profile, "profile", false, "with --out: write a per-step profile (Parquet), the input of the time model")
			fl.BoolVar(&f.indices, "profile-indices", false, "with --profile: the missed indices of every step too")
			fl.positive("topk", "candidates", "block-tokens", "mtp", "local", "entry-bytes")
			fl.goWith(outFlag, "fresh", "checkpoint")
		},
		run:  f.run,
		next: f.next,
	}
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
	bar := newBar(c.stderr)
	defer bar.close()
	o.Progress = bar.add
	tasks, err := f.plan(c.args, o)
	defer closeAll(tasks)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if err := t.job.Ask(); err != nil {
			return err
		}
	}
	f.printNotes(c.stderr, tasks)
	steps, cells := int64(0), 0
	for _, t := range tasks {
		steps += t.job.Work()
		cells += t.job.Cells()
	}
	bar.start(steps, "replay "+count(cells, "cell"), "steps")
	var rows []result.Row // to be printed
	kept, recalled := 0, 0
	redone := changes{}
	for _, t := range tasks {
		if t.profile != nil {
			t.profile.Failing = func(err error) { bar.note("kvreplay: %v; the replay goes on, for the rows", err) }
		}
		result, err := f.finish(c.Context(), t, o.Store)
		if err != nil {
			bar.close()
			redone.write(c.stderr)
			if i := (*replay.Interrupted)(nil); errors.As(err, &i) && f.out == "" {
				err = fmt.Errorf("%w (--out DIR keeps finished work)", err)
			}
			return err
		}
		redone.add(result)
		for _, note := range result.Notes[len(t.job.Notes()):] { // the others are printed
			bar.note("kvreplay: %s: %s", t.file.Path(), note)
		}
		if f.out == "" || f.format != "" {
			rows = append(rows, result.Rows...)
		}
		t.job = nil // which has its rows in memory
		kept += len(result.Rows)
		recalled += result.Recalled
	}
	bar.close()
	redone.write(c.stderr)
	if f.out != "" {
		fmt.Fprintf(c.stderr, "kvreplay: %s of %s in %s (%s %s there already)\n", count(kept, "row"), count(len(tasks), "trace"), f.out,
			count(recalled, "cell"), map[bool]string{true: "was", false: "were"}[recalled == 1])
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
	if f.out != "" && optimum {
		return []string{"leaderboard", f.out}
	}
	next := slices.Concat([]string{"replay"}, c.args, c.given("replay", "format", "explain", outFlag))
	if !optimum {
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
		var text *replay.ClustersError
		if errors.As(err, &text) {
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
			return o, usagef("--allocation says what is kept, --capacity too: give one of them")
		}
		o.Capacities = nil
		if o.Allocation, err = unlessStopped(c.Context(), func() (*allocate.Plan, error) { return allocate.Read(f.allocation) }); err != nil {
			return o, err
		}
	}
	if c.changed("capacity") && !slices.ContainsFunc(o.Policies, hasCapacity) {
		return o, usagef("--capacity is of policies that have one, and %s has none: leave it out, or name others with --policy too", o.Policies[0].Name())
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

// hasCapacity reports whether a policy has a capacity. A window keeps the demand of its steps.
func hasCapacity(s policies.Spec) bool { return !s.Entry.Traits.Windowed }

func (f *replayFlags) check(c *call) error {
	var used []setting.Mechanism // of those that replay.Plan does not see
	for _, m := range []setting.Mechanism{setting.UseCheckpoint, setting.UseProfile, setting.UseReferee, setting.UseClusters} {
		if c.changed(strings.TrimPrefix(string(m), "--")) {
			used = append(used, m)
		}
	}
	if err := setting.Combine(used...); err != nil {
		return errUsage{err}
	}
	switch {
	case f.checkpoint <= 0:
		return usagef("--checkpoint %v: expected a time above 0", f.checkpoint)
	case f.setting.Sink < 0:
		return usagef("--sink %d: expected at least 0", f.setting.Sink)
	case f.setting.Reallocation != "" && f.allocation == "":
		return usagef("--reallocate divides the memory of a plan anew: give one with --allocation")
	case f.inclusive && len(f.tiers) == 0:
		return usagef("--inclusive goes with --tier")
	case f.profile && f.out == "":
		return usagef("--profile writes a file: say where with --out DIR")
	case f.indices && !f.profile:
		return usagef("--profile-indices goes with --profile")
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
			return fmt.Errorf("capacity %v: %s has a capacity itself; expected a policy without, as in peak:window:2", c, spec.Name())
		case spec.Name() != c.Peak():
			return fmt.Errorf("capacity %v: write it peak:%s", c, spec.Name())
		case !slices.ContainsFunc(specs, func(s policies.Spec) bool { return s.Name() == spec.Name() }):
			return fmt.Errorf("capacity %v: the run has no policy %s; add --policy %s", c, spec.Name(), spec.Name())
		}
	}
	return nil
}

// task is one trace of a run.
type task struct {
	file    *trace.File
	job     *replay.Job
	profile *replay.Profile // nil unless asked for
}

// plan opens and plans every trace before anything is replayed, so that a wrong name,
// a broken file or an option that a trace cannot serve costs no work.
func (f *replayFlags) plan(paths []string, o replay.Options) (tasks []*task, err error) {
	if err := checkNames(paths, "into a folder"); err != nil {
		return nil, err
	}
	digests := map[string]string{} // to a path
	for _, path := range paths {
		t := new(task)
		if t.file, err = trace.Open(path); err != nil {
			return tasks, err
		}
		tasks = append(tasks, t)
		if t.job, err = replay.Plan(t.file, o); err != nil {
			return tasks, err
		}
		if other, ok := digests[t.job.Digest()]; ok {
			return tasks, usagef("%s and %s are the same trace (digest %s), whose rows would count twice: name one of them", other, path, t.job.Digest())
		}
		digests[t.job.Digest()] = path
		if f.out != "" {
			if err := checkOutput("replay", filepath.Join(f.out, replay.RowsName(path)), nil); err != nil {
				return tasks, err
			}
		}
		if profile := filepath.Join(f.out, t.profileName()); f.profile && !t.job.Recorded(profile, f.indices) {
			if t.profile, err = replay.CreateProfile(profile, f.indices); err != nil {
				return tasks, err
			}
			if err := t.job.Record(t.profile); err != nil {
				return tasks, err
			}
		}
	}
	return tasks, nil
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
			return usagef("%s and %s have the same file name, and rows name traces by it: rename one, or replay each %s of its own", other, path, apart)
		}
		seen[name] = path
	}
	return nil
}

// profileName returns the name of the profile. It depends on all settings, so that a repeated
// run replaces its own profile and no other.
func (t *task) profileName() string {
	return fmt.Sprintf("%s.profile-%s.parquet", replay.Stem(t.file.Path()), t.job.Key())
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

// printNotes prints the notes that the user should read before the work, each text once for all
// of its traces.
func (f *replayFlags) printNotes(w io.Writer, tasks []*task) {
	var texts []string
	about := map[string][]string{} // traces by text
	add := func(t *task, text string) {
		if about[text] == nil {
			texts = append(texts, text)
		}
		about[text] = append(about[text], t.file.Path())
	}
	for _, t := range tasks {
		for _, note := range t.job.Notes() {
			add(t, note)
		}
		left := t.job.LeftOut()
		if f.explain {
			for _, l := range left {
				add(t, l.String())
			}
		} else if len(left) > 0 {
			add(t, replay.SummaryOf(left)+"; --explain says more")
		}
	}
	for _, text := range texts {
		of := strings.Join(about[text], ", ")
		if n := len(about[text]); n > 1 && n == len(tasks) {
			of = fmt.Sprintf("all %d traces", n)
		} else if n > 1 && !f.explain {
			of = fmt.Sprintf("%s and %d of the other %d traces", about[text][0], n-1, len(tasks)-1)
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
	notes, err := t.job.Keep()
	if err != nil {
		return nil, cmp.Or(failed, err)
	}
	result.Notes = append(result.Notes, notes...)
	if failed != nil {
		return nil, fmt.Errorf("%w; the rows are kept in %s. A profile is of every step and cannot be made of them: with that "+
			"mended, the same command replays this trace and those behind it", failed, filepath.Join(f.out, replay.RowsName(t.file.Path())))
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
		fmt.Fprintf(w, "kvreplay: %s changed since these cells were kept: %s replayed\n", policy, count(c[policy], "cell"))
	}
}
