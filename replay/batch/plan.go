package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/storage"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

// Planning is the input of a plan.
type Planning struct {
	Path      string   // of the batch file. Empty: none is written
	Traces    []string // paths. Relative paths stay relative, to the folder of the batch file
	Packs     string   // folder or URL of the packs, as Traces. Empty: the default
	Arguments []string // of `kvreplay replay`, without traces
	Options   replay.Options
	Opened    func(path string, job *replay.Job) // receives each planned trace, in the order of Traces

	Hours    float64 // most core-hours of a shard
	Rate     float64 // nanoseconds of one core for an index and a cell. 0: measured on a few chunks
	Progress func(done, total int)
}

// Plan is a planned batch and the measured speed of its replay.
type Plan struct {
	*Batch
	Rate    float64 // nanoseconds of one core for an index and a cell
	Samples int     // chunks that were replayed to measure Rate. 0: the user gave it
	Error   float64 // half of the 95 % interval of Rate, relative. 0 if Samples is below 2
}

// Make plans a batch: it opens every trace, measures the speed of the replay on a few chunks, and
// cuts the traces into shards. Write writes the batch file.
func Make(ctx context.Context, in Planning) (*Plan, error) {
	if in.Path != "" {
		if _, err := readOld(in.Path); err != nil { // before the work
			return nil, err
		}
	}
	b := &Batch{Arguments: in.Arguments, Engine: replay.EngineVersion}
	b.folder, _ = split(in.Path)
	if in.Packs != "" {
		var err error
		if b.Packs, err = b.relative(in.Packs); err != nil {
			return nil, err
		}
	}
	chunks, err := b.addTraces(ctx, &in)
	if err != nil {
		return nil, err
	}
	p, err := b.Measure(ctx, in)
	if err != nil {
		return nil, err
	}
	b.Shards = cut(b.Traces, chunks, int64(min(in.Hours*3600e9/p.Rate, 1<<62)))
	b.encode() // sets the digest
	return p, b.check()
}

// Measure measures the speed of the replay on this machine, unless in states it.
func (b *Batch) Measure(ctx context.Context, in Planning) (*Plan, error) {
	p := &Plan{Batch: b, Rate: in.Rate}
	if in.Rate > 0 {
		return p, nil
	}
	return p, p.measure(ctx, in)
}

// Over returns the number of shards above a limit in core-hours. They have a chunk above it.
func (p *Plan) Over(hours float64) (n int) {
	return slice.Count(p.Shards, func(s Shard) bool { return p.CoreHours(s.Work) > 1.001*hours })
}

// addTraces opens the traces and returns the work of their chunks.
func (b *Batch) addTraces(ctx context.Context, in *Planning) (chunks [][]int64, err error) {
	n := len(in.Traces)
	b.Traces, chunks = make([]Trace, n), make([][]int64, n)
	jobs := make([]*replay.Job, n)
	var g errgroup.Group
	g.SetLimit(max(1, in.Options.Workers))
	for i := range in.Traces {
		g.Go(func() (err error) {
			if err = ctx.Err(); err == nil {
				jobs[i], chunks[i], err = b.addTrace(&b.Traces[i], in.Traces[i], in.Options)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, job := range jobs {
		if in.Opened != nil {
			in.Opened(in.Traces[i], job)
		}
	}
	digests := map[string]string{}
	for i, t := range b.Traces {
		if other, ok := digests[t.Digest]; ok {
			return nil, fmt.Errorf("%s and %s are the same trace (digest %s), whose rows would count twice: name one of them", other, in.Traces[i], t.Digest)
		}
		digests[t.Digest] = in.Traces[i]
	}
	return chunks, nil
}

func (b *Batch) addTrace(t *Trace, path string, o replay.Options) (*replay.Job, []int64, error) {
	f, err := trace.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if f.StoredDigest() == "" {
		return nil, nil, fmt.Errorf("%s states no digest, which a batch pins: write it again with kvreplay derive %s -o NEW.parquet", path, path)
	}
	job, err := replay.Plan(f, o)
	if err != nil {
		return nil, nil, err
	}
	chunks := job.Chunks()
	*t = Trace{Digest: f.StoredDigest(), Pass: job.Pass(), Streams: len(f.Streams()), Cells: job.AllCells(), Chunks: len(chunks), Work: sumOf(chunks), Bytes: f.Size()}
	t.Path, err = b.relative(path)
	return job, chunks, err
}

// relative returns the path of a trace or of the packs as the batch file states it.
func (b *Batch) relative(path string) (string, error) {
	switch {
	case storage.IsURL(path):
		return path, nil
	case filepath.IsAbs(path):
		return filepath.ToSlash(filepath.Clean(path)), nil
	case storage.IsURL(b.folder):
		whole, err := filepath.Abs(path)
		return filepath.ToSlash(whole), err
	}
	here, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	folder, err := filepath.Abs(b.folder)
	if err != nil {
		return "", err
	}
	path, err = filepath.Rel(folder, here)
	return filepath.ToSlash(path), err
}

// tail divides the work of a batch: the shards of the first share have the limit, those of the
// rest have fractions of it. Small shards at the end keep all tasks busy until the batch ends.
var tail = []struct{ until, limit float64 }{{0.75, 1}, {0.875, 0.5}, {1, 0.25}}

// cut divides traces into shards of at most most work, the largest first. Large traces are divided
// into parts of equal work. Small ones fill shards in the order of their work. A chunk is never
// divided, so a shard may exceed the limit by one.
func cut(traces []Trace, chunks [][]int64, most int64) []Shard {
	type item struct {
		Part
		work, bytes, limit int64
	}
	order, sums := slice.Indices(len(traces)), slice.Map(chunks, sumOf)
	total := sumOf(sums)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sums[b], sums[a]) })
	var items []item
	at, phase := int64(0), 0
	for _, t := range order {
		list := chunks[t]
		for from := 0; from < len(list); {
			to, limit := from, max(1, int64(float64(most)*tail[phase].limit))
			for to < len(list) && (to == from || phase == len(tail)-1 || float64(at) < tail[phase].until*float64(total)) {
				at += list[to]
				to++
			}
			for _, p := range divide(list[from:to], limit) {
				work := sumOf(list[from+p[0] : from+p[1]])
				bytes := int64(float64(traces[t].Bytes) * float64(work) / float64(max(1, sums[t])))
				items = append(items, item{Part{t, from + p[0], from + p[1]}, work, bytes, limit})
			}
			if from = to; phase < len(tail)-1 && float64(at) >= tail[phase].until*float64(total) {
				phase++
			}
		}
	}
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Or(cmp.Compare(b.limit, a.limit), cmp.Compare(b.work, a.work)) })
	var shards []Shard
	for i, it := range items {
		if n := len(shards) - 1; i == 0 || shards[n].Work+it.work > it.limit {
			shards = append(shards, Shard{})
		}
		s := &shards[len(shards)-1]
		s.Work, s.Bytes, s.Parts = s.Work+it.work, s.Bytes+it.bytes, append(s.Parts, it.Part)
	}
	slices.SortStableFunc(shards, func(a, b Shard) int { return cmp.Compare(b.Work, a.Work) })
	for i := range shards {
		shards[i].Number = i
	}
	return shards
}

func sumOf(list []int64) (sum int64) {
	return slice.Sum(list, func(v int64) int64 { return v })
}

// divide divides a list into runs [from, to) of about equal sums, none above most unless it is one
// element.
func divide(list []int64, most int64) (runs [][2]int) {
	sum := sumOf(list)
	for n := max(1, (sum+most-1)/max(1, most)); ; n += n/16 + 1 {
		runs = divideInto(list, sum, n)
		fits := !slices.ContainsFunc(runs, func(r [2]int) bool { return r[1]-r[0] > 1 && sumOf(list[r[0]:r[1]]) > most })
		if fits || n > 4*int64(len(list)) {
			break
		}
	}
	return slices.Concat(slice.Map(runs, func(r [2]int) [][2]int { return atMost(list, r, most) })...)
}

// divideInto puts each element into one of n runs by the middle of its share of the sum.
func divideInto(list []int64, sum, n int64) (runs [][2]int) {
	at, before, last := int64(0), int64(-1), 0
	for i, v := range list {
		run := int64(float64(at+v/2) / float64(max(1, sum)) * float64(n))
		if i > 0 && run != before {
			runs = append(runs, [2]int{last, i})
			last = i
		}
		before, at = run, at+v
	}
	return append(runs, [2]int{last, len(list)})
}

// atMost divides a run further if it is above most.
func atMost(list []int64, run [2]int, most int64) (runs [][2]int) {
	from, sum := run[0], int64(0)
	for i := run[0]; i < run[1]; i++ {
		if i > from && sum+list[i] > most {
			runs = append(runs, [2]int{from, i})
			from, sum = i, 0
		}
		sum += list[i]
	}
	return append(runs, [2]int{from, run[1]})
}

// CoreHours returns the core-hours of some work in indices × cells.
func (p *Plan) CoreHours(work int64) float64 { return float64(work) * p.Rate / 3600e9 }

// samples is the number of chunks that measure the speed.
const samples = 8

// measure replays a few chunks on one core. It draws them in equal distances over the work of the
// batch, so the mean of their speeds estimates the speed of the batch.
func (p *Plan) measure(ctx context.Context, in Planning) error {
	total := slice.Sum(p.Traces, func(t Trace) int64 { return t.Work })
	if total == 0 {
		return errors.New("the traces have no indices to replay")
	}
	o := in.Options
	o.Workers, o.Progress = 1, nil
	drawn := map[[2]int]bool{}
	var rates []float64
	before, t := int64(0), 0
	for n := range int64(samples) {
		if in.Progress != nil {
			in.Progress(int(n), samples)
		}
		at := int64(float64(total) * (float64(n) + 0.5) / samples)
		for at >= before+p.Traces[t].Work {
			before += p.Traces[t].Work
			t++
		}
		rate, chunk, err := p.time(ctx, &p.Traces[t], at-before, o, func(chunk int) bool { return drawn[[2]int{t, chunk}] })
		if err != nil {
			return err
		}
		if rate > 0 {
			drawn[[2]int{t, chunk}] = true
			rates = append(rates, rate)
		}
	}
	p.Rate, p.Error = meanOf(rates)
	p.Samples = len(rates)
	return nil
}

// time replays the chunk of a trace that has some work before it. It returns the nanoseconds for an
// index and a cell, or 0 if the chunk is known.
func (p *Plan) time(ctx context.Context, t *Trace, before int64, o replay.Options, known func(chunk int) bool) (rate float64, chunk int, err error) {
	f, job, err := p.open(t, o)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	chunks := job.Chunks()
	for chunk < len(chunks)-1 && before >= chunks[chunk] {
		before -= chunks[chunk]
		chunk++
	}
	if known(chunk) {
		return 0, chunk, nil
	}
	begun := time.Now()
	_, err = job.Count(ctx, replay.Counting{From: chunk, To: chunk + 1})
	return float64(time.Since(begun)) / float64(max(1, chunks[chunk])), chunk, err
}
