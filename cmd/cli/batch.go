package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/storage"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/batch"
)

func batchCommand(table policies.Table) command {
	return command{
		use:   "batch",
		short: "Replay many traces on a cluster: Slurm, Kubernetes or any scheduler",
		long: `Divide a replay into shards for the machines of a cluster, and merge their counts.
The scheduler starts, repeats and watches the shards. The rows are those of kvreplay replay on
one machine, byte for byte. replay/batch/README.md has a page for Slurm, Kubernetes and Ray.`,
		next: always("batch", "plan", "--help"),
		commands: []command{
			batchPlanCommand(table), batchRunCommand(table), batchStatusCommand(), batchMergeCommand(table),
		},
	}
}

// shardFlags are the flags that commands of a batch share.
type shardFlags struct {
	packs    string
	parallel int
}

// defaultParallel returns the cores that Slurm gives the task, or those of the machine.
func defaultParallel() int {
	if n, err := strconv.Atoi(os.Getenv("SLURM_CPUS_ON_NODE")); err == nil && n > 0 {
		return n
	}
	return runtime.GOMAXPROCS(0)
}

func (f *shardFlags) definePacks(fl *flagSet) {
	fl.StringVar(&f.packs, "packs", "", "keep packs in this `FOLDER` or s3://BUCKET/KEY (default: that of batch plan, or else the batch file's name and .packs)")
}

func (f *shardFlags) defineParallel(fl *flagSet) {
	fl.IntVar(&f.parallel, "parallel", defaultParallel(), "number of workers, by default $SLURM_CPUS_ON_NODE if set (no effect on the rows)")
	fl.positive("parallel")
}

// submission returns the way to start the shards of a batch file. It names files by whole paths.
func (f *shardFlags) submission(path string, cores int, image string) batch.Submission {
	s := batch.Submission{Batch: absolute(path), Cores: cores, Image: image}
	if f.packs != "" {
		s.Packs = absolute(f.packs)
	}
	return s
}

// packsOf returns the folder of the packs of the batch file at path.
func (f *shardFlags) packsOf(b *batch.Batch, path string) string {
	return cmp.Or(f.packs, b.PackFolder(path))
}

// notePacks says that --packs is not the folder that the batch file states.
func (f *shardFlags) notePacks(c *call, b *batch.Batch) {
	if planned := b.PackFolder(c.args[0]); b.Packs != "" && f.packs != "" && absolute(f.packs) != absolute(planned) {
		fmt.Fprintf(c.stderr, "kvreplay: --packs %s is not the folder of batch plan, %s: all commands need the same\n", f.packs, planned)
	}
}

type batchPlanFlags struct {
	replayFlags
	shardFlags
	batchFile, simulate, image string
	hours                      float64
	rate                       float64 // ns
	cpus                       int
	kubernetes                 bool
	profiles, referees, afresh bool // refused
}

func batchPlanCommand(table policies.Table) command {
	f := batchPlanFlags{replayFlags: replayFlags{table: withPrograms(table), checkpoint: replay.DefaultCheckpoint}}
	return command{
		use:   "plan TRACE... | BATCH",
		short: "Divide the replay of traces into shards and print the lines to submit",
		long: `Divide a replay into shards of at most --hours core-hours, the largest first.
The flags are those of kvreplay replay. Eight chunks of the work are replayed to estimate the
core-hours, unless --rate states the speed. -o writes the batch file. It pins the digest of each
trace, the engine version and --packs. For a batch file, plan prints its lines again.`,
		example: `  kvreplay batch plan traces/*.parquet --policy all --capacity sweep:20 -o grid.batch
  kvreplay batch plan traces/*.parquet --policy all --simulate workers=1000
  kvreplay batch plan grid.batch --kubernetes`,
		args: atLeast(1, "trace"),
		flags: func(fl *flagSet) {
			f.defineCommon(fl)
			fl.out(&f.batchFile, "write the batch `FILE`, in a folder that all machines see")
			fl.Float64Var(&f.hours, "hours", 2, "most core-hours of a shard")
			fl.IntVar(&f.cpus, "cpus", 1, "cores of a task, in the printed lines")
			fl.BoolVar(&f.kubernetes, "kubernetes", false, "print the manifest of a Kubernetes Job and nothing else")
			fl.StringVar(&f.simulate, "simulate", "", "predict the time on a `CLUSTER`, as in workers=1000,link=125MB,store=10GB,lost=8")
			fl.more()
			f.defineMore(fl)
			fl.Var(indexTime(&f.rate), "rate", "core `TIME` of one index and one cell, as in 3ns (default: measured)")
			fl.StringVar(&f.image, "image", "kvreplay", "container `IMAGE` of --kubernetes")
			f.definePacks(fl)
			f.shardFlags.defineParallel(fl)
			fl.BoolVar(&f.profiles, "profile", false, "refused: profiles are written by kvreplay replay")
			fl.BoolVar(&f.referees, "referee", false, "refused: the referee keeps nothing")
			fl.BoolVar(&f.afresh, "fresh", false, "refused: a batch always begins without results")
			for _, refused := range []string{"profile", "referee", "fresh"} {
				fl.Lookup(refused).Hidden = true
			}
			fl.positive("cpus")
			fl.checks = append(fl.checks, f.check)
		},
		run: f.run,
		next: func(c *call) []string {
			if out := c.out(); out != "" {
				return []string{"batch", "run", out, "--shard", "0"}
			}
			return nil
		},
	}
}

// mostCPUs bounds --cpus, the cores of a task, which runs on one machine.
const mostCPUs = 4096

// indexTime is a flag of the time for an index and a cell, in ns. Fractions of a ns count.
func indexTime(to *float64) value {
	return value{"time", func(s string) error {
		v, err := strconv.ParseFloat(strings.TrimSuffix(s, "ns"), 64)
		if err != nil || !strings.HasSuffix(s, "ns") || !(v >= 0.001 && v <= 1000) {
			return fmt.Errorf("expected the core time of one index and one cell, from 0.001ns to 1000ns, as in 3ns")
		}
		*to = v
		return nil
	}, func() string {
		if *to == 0 {
			return ""
		}
		return strconv.FormatFloat(*to, 'g', -1, 64) + "ns"
	}, nil}
}

// check refuses flags of replay that a batch does not support.
func (f *batchPlanFlags) check() error {
	switch {
	case f.profiles:
		return usagef("--profile: a batch has no profiles, which need a whole trace in one process: use kvreplay replay --profile")
	case f.referees:
		return usagef("--referee: a batch keeps counts, and the referee keeps nothing: use kvreplay replay --referee on a part of the streams")
	case f.afresh:
		return usagef("--fresh: a batch never uses earlier results: merge it into a new folder")
	case !(f.hours > 0) || f.hours > 1e6:
		return usagef("--hours %v: expected more than 0, at most 1,000,000", f.hours)
	case f.kubernetes && f.simulate != "":
		return usagef("--kubernetes prints a manifest and nothing else, and --simulate a prediction: remove one of them")
	case f.cpus > mostCPUs:
		return usagef("--cpus %d: expected at most %d", f.cpus, mostCPUs)
	}
	for name, path := range map[string]string{"allocation": f.allocation, "clusters": f.setting.Clusters} {
		if path != "" && path != "lists" && !strings.HasPrefix(path, "lists,") && !filepath.IsAbs(path) {
			return usagef("--%s %s: a batch needs the whole path, because shards run in other folders: write %s", name, path, absolute(path))
		}
	}
	return nil
}

func (f *batchPlanFlags) run(c *call) error {
	cluster, err := f.cluster()
	if err != nil {
		return err
	}
	in := batch.Planning{Path: f.batchFile, Traces: c.args, Hours: f.hours, Rate: f.rate, Progress: c.bar.counts("replay a sample", "chunks")}
	make := f.plan
	if len(c.args) == 1 && filepath.Ext(c.args[0]) != ".parquet" {
		make = f.existing
	}
	p, err := make(c, in)
	c.bar.close()
	if err != nil {
		return err
	}
	s := f.submission(f.batchFile, f.cpus, f.image)
	if f.kubernetes {
		if far := farFolders(p, s); len(far) > 0 {
			mounts := "mounts only the folder of " + s.Batch
			if storage.IsURL(s.Batch) {
				mounts = "mounts no folder"
			}
			fmt.Fprintf(c.stderr, "kvreplay: the Job %s: add volumes for files in %s, or move them there\n", mounts, names.Some(far))
		}
		if !c.changed("image") {
			fmt.Fprintf(c.stderr, "kvreplay: the Job uses the image %s: name that of your registry with --image\n", f.image)
		}
		_, err := fmt.Fprint(c.stdout, s.Kubernetes(len(p.Shards)))
		return err
	}
	f.print(c, p, s)
	if f.simulate != "" {
		fmt.Fprintln(c.stdout)
		return p.Simulate(cluster).Write(c.stdout)
	}
	return nil
}

// farFolders returns the folders of files that the pods of a Job cannot open: packs, files of
// mechanisms, and traces.
func farFolders(p *batch.Plan, s batch.Submission) (far []string) {
	paths := []string{cmp.Or(s.Packs, p.Packs)}
	for _, name := range []string{"--allocation", "--clusters"} {
		if i := slices.Index(p.Arguments, name); i >= 0 {
			if path, _, _ := strings.Cut(p.Arguments[i+1], ",page="); filepath.IsAbs(path) { // lists of a trace are no file
				paths = append(paths, path)
			}
		}
	}
	paths = append(paths, slice.Map(p.Traces, func(t batch.Trace) string { return t.Path })...)
	for i, path := range paths {
		if path == "" || s.Reaches(path) {
			continue
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(s.Batch), path) // the batch file states it so
		}
		if i > 0 {
			path = filepath.Dir(path) // packs are a folder
		}
		far = slice.Add(far, path)
	}
	return far
}

// plan plans a batch of traces and writes the batch file.
func (f *batchPlanFlags) plan(c *call, in batch.Planning) (*batch.Plan, error) {
	if f.kubernetes && f.batchFile == "" {
		return nil, usagef("--kubernetes needs the batch file: name it with -o, or plan one that exists: kvreplay batch plan BATCH --kubernetes")
	}
	if err := checkNames(c.args, "in a batch"); err != nil {
		return nil, err
	}
	o, err := f.options(c)
	if err != nil {
		return nil, err
	}
	if err := checkOutput("batch plan", f.batchFile, c.args); err != nil && !storage.IsURL(f.batchFile) {
		return nil, err
	}
	o.Workers, o.Checkpoint = f.shardFlags.parallel, 0
	var traces []planned
	in.Options, in.Packs, in.Arguments = o, f.packs, c.given("replay", outFlag, "parallel", "explain", "profile", "referee", "fresh")
	in.Opened = func(path string, job *replay.Job) {
		traces = append(traces, planned{path, job.Notes(), job.LeftOut()})
	}
	p, err := batch.Make(c.Context(), in)
	if err != nil {
		return nil, err
	}
	f.printNotes(c.stderr, traces)
	f.packs = "" // the batch file has them, and the printed lines need not
	if f.batchFile != "" {
		if err := p.Write(f.batchFile); err != nil {
			return nil, err
		}
		c.wrote(f.batchFile)
	}
	return p, nil
}

// existing reads a batch file, whose lines are printed again.
func (f *batchPlanFlags) existing(c *call, in batch.Planning) (p *batch.Plan, err error) {
	b, err := batch.Read(c.args[0])
	if err != nil {
		return nil, err
	}
	allowed := []string{"kubernetes", "simulate", "image", "cpus", "packs", "rate", "parallel"}
	c.Flags().Visit(func(fl *pflag.Flag) {
		if !slices.Contains(allowed, fl.Name) {
			err = usagef("--%s does not change the batch file %s: name traces to plan another batch", fl.Name, c.args[0])
		}
	})
	if err != nil {
		return nil, err
	}
	f.batchFile = c.args[0]
	if f.kubernetes {
		in.Rate = 1 // is not printed
	} else if in.Options, err = stored(c.Context(), f.table, b, f.shardFlags.parallel); err != nil {
		return nil, err
	}
	return b.Measure(c.Context(), in)
}

func (f *batchPlanFlags) cluster() (c batch.Cluster, err error) {
	if f.simulate == "" {
		return c, nil
	}
	if c, err = batch.ParseCluster(f.simulate); err != nil {
		return c, usagef("--simulate %w", err)
	}
	c.Cores = f.cpus
	return c, nil
}

// absolute returns the whole path, or the path itself if it is a URL.
func absolute(path string) string {
	if storage.IsURL(path) {
		return path
	}
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}

// print prints the size of the batch and the lines that submit it.
func (f *batchPlanFlags) print(c *call, p *batch.Plan, s batch.Submission) {
	speed := "± 40 %, assumed: one chunk was measured"
	switch {
	case p.Samples == 0:
		speed = "at the stated rate"
	case p.Error > 0:
		speed = fmt.Sprintf("± %.0f %%, from %s on this machine", 100*p.Error, count(p.Samples, "chunk"))
	}
	most := int64(0)
	for _, shard := range p.Shards {
		most = max(most, shard.Bytes)
	}
	fmt.Fprintf(c.stdout, "%s, %s, %s. About %s core-hours (%s)\n", count(len(p.Traces), "trace"), humanize.Bytes(uint64(p.Bytes())),
		count(p.Cells(), "cell"), coreHours(p.CoreHours(p.Work())), speed)
	fmt.Fprintf(c.stdout, "%s of at most %s core-hours, the largest first. A shard reads at most %s\n", count(len(p.Shards), "shard"),
		coreHours(p.CoreHours(p.Shards[0].Work)), humanize.Bytes(uint64(most)))
	if n := p.Over(f.hours); n > 0 && f.batchFile != c.args[0] {
		fmt.Fprintf(c.stderr, "kvreplay: %s longer than %g core-hours: a shared cache or a stream cannot be divided further\n", count(n, "shard"), f.hours)
	}
	if f.batchFile == "" {
		fmt.Fprintln(c.stdout, "No batch file is written: name it with -o FILE")
		return
	}
	fmt.Fprintf(c.stdout, "\nSlurm (up to %s at a time are busy to the end):\n", count(max(1, len(p.Shards)/8), "task"))
	all := slice.Indices(len(p.Shards))
	for _, line := range s.Slurm(all) {
		fmt.Fprintf(c.stdout, "  %s\n", line)
	}
	manifest := []string{"batch", "plan", f.batchFile, "--kubernetes"}
	for _, name := range []string{"packs", "cpus", "image"} {
		if value := c.Flags().Lookup(name).Value.String(); c.changed(name) && value != "" {
			manifest = append(manifest, "--"+name, value)
		}
	}
	fmt.Fprintf(c.stdout, "Kubernetes:\n  %s | kubectl apply -f -\n  kubectl wait --for=condition=SuccessCriteriaMet --timeout=-1s job/%s\n", commandLine(manifest...), s.JobName())
	fmt.Fprintf(c.stdout, "Any other scheduler, for I from 0 to %d:\n  %s --shard I\n", len(p.Shards)-1, s.Command())
}

// coreHours formats core-hours with two or more digits.
func coreHours(h float64) string {
	if h < 100 {
		return fmt.Sprintf("%.2g", h)
	}
	return humanize.Comma(int64(h))
}

// stored returns replay's options for the arguments of a batch file.
func stored(ctx context.Context, table policies.Table, b *batch.Batch, workers int) (replay.Options, error) {
	f := replayFlags{table: table, checkpoint: replay.DefaultCheckpoint}
	var o replay.Options
	d := command{use: "replay", flags: func(fl *flagSet) {
		f.defineCommon(fl)
		f.defineMore(fl)
	}, run: func(c *call) (err error) {
		o, err = f.options(c)
		return err
	}}
	c := d.cobra()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(append([]string{}, b.Arguments...)) // not nil, which means the program's own
	if err := c.ExecuteContext(ctx); err != nil {
		return o, fmt.Errorf("the arguments of the batch file: %w", err)
	}
	o.Workers, o.Checkpoint = workers, 0
	return o, nil
}

type batchRunFlags struct {
	shardFlags
	table         policies.Table
	shard, offset int
	checkpoint    time.Duration
}

func batchRunCommand(table policies.Table) command {
	f := batchRunFlags{table: withPrograms(table)}
	return command{
		use:   "run BATCH",
		short: "Count one shard and write its pack",
		long: `Count one shard of a batch and write its pack.
The shard is --shard, or else $KVREPLAY_SHARD, $SLURM_ARRAY_TASK_ID or $JOB_COMPLETION_INDEX.
SIGTERM ends the work after the current chunks and saves their counts. A second SIGTERM loses them.
Exit codes: 0 the shard is finished, 2 another attempt would fail too, 143 stopped by SIGTERM,
other codes: repeat it. Several attempts may run at the same time.`,
		example: `  kvreplay batch run grid.batch --shard 0`,
		args:    exactlyOne("batch file"),
		flags: func(fl *flagSet) {
			fl.IntVar(&f.shard, "shard", 0, "count this shard, from 0 (default: from the environment)")
			fl.IntVar(&f.offset, "offset", 0, "add this to the number of the shard")
			f.definePacks(fl)
			f.defineParallel(fl)
			fl.DurationVar(&f.checkpoint, "checkpoint", batch.DefaultCheckpoint, "time between saves of the counts")
		},
		run:  f.run,
		next: withArgs("batch", "status"),
	}
}

func (f *batchRunFlags) run(c *call) error {
	if f.checkpoint <= 0 {
		return usagef("--checkpoint %v: expected a time above 0", f.checkpoint)
	}
	shard, err := f.number(c)
	if err != nil {
		return err
	}
	b, err := batch.Read(c.args[0])
	if err != nil {
		return err
	}
	o, err := stored(c.Context(), f.table, b, f.parallel)
	if err != nil {
		return err
	}
	f.notePacks(c, b)
	a := batch.Attempt{Packs: f.packsOf(b, c.args[0]), Shard: shard, Options: o, Every: f.checkpoint, Program: cmp.Or(version, "unknown")}
	defer context.AfterFunc(c.Context(), func() {
		fmt.Fprintln(c.stderr, "kvreplay: stopping after the current chunks. Another signal ends at once and loses them")
	})()
	out, err := b.Run(c.Context(), a)
	switch {
	case err != nil:
		return err
	case out.Before:
		fmt.Fprintf(c.stderr, "kvreplay: shard %d was finished before: %s\n", shard, out.Pack)
	case out.Resumed > 0:
		fmt.Fprintf(c.stderr, "kvreplay: shard %d is finished (%d of %s counted before): %s\n", shard, out.Resumed, count(out.Chunks, "chunk"), out.Pack)
	default:
		fmt.Fprintf(c.stderr, "kvreplay: shard %d is finished (%s): %s\n", shard, count(out.Chunks, "chunk"), out.Pack)
	}
	return nil
}

// shardVariables hold the number of a shard, in the order of their precedence.
var shardVariables = []string{"KVREPLAY_SHARD", "SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"}

func (f *batchRunFlags) number(c *call) (int, error) {
	if c.changed("shard") {
		return f.shard + f.offset, nil
	}
	from, shard := "", 0
	for _, name := range shardVariables {
		text, ok := os.LookupEnv(name)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(text)
		switch {
		case err != nil || n < 0:
			return 0, usagef("$%s is %q: expected the number of a shard", name, text)
		case from != "" && n != shard:
			return 0, usagef("$%s is %d and $%s is %d: name the shard with --shard", from, shard, name, n)
		}
		from, shard = name, n
	}
	if from == "" {
		return 0, usagef("no shard: name it with --shard, or set one of $%s", strings.Join(shardVariables, ", $"))
	}
	return shard + f.offset, nil
}

func batchStatusCommand() command {
	var f shardFlags
	cpus := 1
	return command{
		use:   "status BATCH",
		short: "Print the progress of a batch, and the lines that submit what is missing",
		long: `Print how many shards are finished and the lines that submit the missing ones.
The exit code is 1 while a shard is missing. A damaged pack counts as missing.`,
		example: `  kvreplay batch status grid.batch`,
		args:    exactlyOne("batch file"),
		flags: func(fl *flagSet) {
			f.definePacks(fl)
			fl.IntVar(&cpus, "cpus", 1, "cores of a task, in the printed lines")
			fl.positive("cpus")
		},
		run: func(c *call) error {
			b, err := batch.Read(c.args[0])
			if err != nil {
				return err
			}
			f.notePacks(c, b)
			status, err := b.Status(f.packsOf(b, c.args[0]))
			if err != nil {
				return err
			}
			return cmp.Or(status.Write(c.stdout, f.submission(c.args[0], cpus, "")), status.Err())
		},
		next: withArgs("batch", "merge"),
	}
}

type batchMergeFlags struct {
	shardFlags
	table policies.Table
	out   string
}

func batchMergeCommand(table policies.Table) command {
	f := batchMergeFlags{table: withPrograms(table)}
	return command{
		use:   "merge BATCH",
		short: "Make the rows of a batch from its packs",
		long: `Make the rows of all traces from the packs of all shards.
The folder --out then has the files that kvreplay replay --out writes on one machine, byte for byte.
Nothing is replayed. A pack that is missing, damaged or of another batch is an error.`,
		example: `  kvreplay batch merge grid.batch --out results`,
		args:    exactlyOne("batch file"),
		flags: func(fl *flagSet) {
			fl.needOut(&f.out, "FOLDER", "keep the rows in this `FOLDER`, one file per trace")
			f.definePacks(fl)
			f.defineParallel(fl)
		},
		run:  f.run,
		next: withOut("leaderboard"),
	}
}

func (f *batchMergeFlags) run(c *call) error {
	b, err := batch.Read(c.args[0])
	if err != nil {
		return err
	}
	o, err := stored(c.Context(), f.table, b, f.parallel)
	if err != nil {
		return err
	}
	f.notePacks(c, b)
	rows, redone := 0, changes{}
	counts := c.bar.counts("merge", "traces")
	counts(0, len(b.Traces))
	err = b.Merge(c.Context(), batch.Merging{Packs: f.packsOf(b, c.args[0]), Results: f.out, Options: o, Progress: counts,
		Note: func(path string, r *batch.Merged) {
			rows += len(r.Rows)
			redone.add(r.Result)
			for _, note := range r.Notes {
				c.bar.note("kvreplay: %s: %s", path, note)
			}
		}})
	c.bar.close()
	if err != nil {
		return err
	}
	redone.write(c.stderr)
	c.wrote(f.out, fmt.Sprintf("%s of %s", count(rows, "row"), count(len(b.Traces), "trace")))
	return nil
}
