package pipeline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// Adjacent merged misses are one piece, separately for host memory and the SSD. A profile does not
// state how the two alternate, so host memory has the least possible number of runs.
func TestPiecesByHand(t *testing.T) {
	p := read(t, realProfile(t))
	r, err := newRunner(t.Context(), p, options(t, p, "sequential"))
	fatal.If(t, err)
	for name, c := range map[string]struct {
		counts       Counts
		merge        bool
		pieces, read float64 // over the link, from the SSD
	}{
		"each its own":         {Counts{Fetched: 10, FetchedRuns: 6, SSDFetched: 4, SSDRuns: 3}, false, 10, 4},
		"apart":                {Counts{Fetched: 10, FetchedRuns: 6, SSDFetched: 4, SSDRuns: 3}, true, 3 + 3, 3},
		"one run, every other": {Counts{Fetched: 9, FetchedRuns: 1, SSDFetched: 4, SSDRuns: 4}, true, 3 + 4, 4},
		"one run, its halves":  {Counts{Fetched: 8, FetchedRuns: 1, SSDFetched: 4, SSDRuns: 1}, true, 1 + 1, 1},
		"all on the SSD":       {Counts{Fetched: 4, FetchedRuns: 2, SSDFetched: 4, SSDRuns: 2}, true, 2, 2},
		"all in host memory":   {Counts{Fetched: 4, FetchedRuns: 2}, true, 2, 0},
	} {
		s := sums{Counts: c.counts, requests: 1, entries: 256}
		s.Moved, s.SSDMoved, s.Demand, s.Positions, s.SeqLen = s.Fetched, s.SSDFetched, 256, 1, 8192
		r.Merge = c.merge
		_, moved, err := r.layer(0, &s)
		fatal.If(t, err)
		if moved.Descriptors != c.pieces || moved.SSDRequests != c.read || moved.H2D != 768*float64(s.Fetched) || moved.SSD != 768*float64(s.SSDFetched) {
			t.Errorf("%s: %+v, expected %g pieces and %g reads", name, moved, c.pieces, c.read)
		}
	}
}

// By hand: four blocks of 768 B miss on the SSD, in two extents of eight blocks. Only the missed blocks
// pass the link, unless the SSD writes into the GPU. Page faults read whole pages of 4 KiB.
func TestReadsOfExtents(t *testing.T) {
	p := read(t, realProfile(t))
	p.Tiered, p.Placed = true, true
	s := sums{Counts: Counts{Fetched: 10, FetchedRuns: 6, Moved: 10, SSDFetched: 4, SSDRuns: 3, SSDMoved: 4, SSDReads: 2, SSDBlocks: 16, Demand: 256, Positions: 1, SeqLen: 8192},
		requests: 1, entries: 256}
	o := options(t, p, "sequential")
	o.Machine, _ = parts(t, "l40s", "deepseek-v3.2")
	priced := func(change func(*Options)) (l schedule.Layer, moved Traffic) {
		own := o
		change(&own)
		r, err := newRunner(t.Context(), p, own)
		fatal.If(t, err)
		if l, moved, err = r.layer(0, &s); err != nil {
			t.Fatal(err)
		}
		return l, moved
	}
	pinned, moved := priced(func(*Options) {})
	if moved.SSDRequests != 2 || moved.SSD != 16*768 || moved.H2D != 10*768 || moved.Descriptors != 10 {
		t.Errorf("%+v, expected 2 reads of 16 blocks, and 10 blocks over the link", moved)
	}
	if _, moved = priced(func(o *Options) { o.Ahead.Direct = true }); moved.SSDRequests != 2 || moved.H2D != (6+16)*768 || moved.Descriptors != 6+2 {
		t.Errorf("%+v, expected 2 reads that write 16 blocks into the GPU", moved)
	}
	mapped, moved := priced(func(o *Options) { o.Mapped = true })
	if moved.SSDRequests != 2 || moved.SSD != 2*8192 || moved.H2D != 10*768 {
		t.Errorf("%+v, expected 2 reads of 6,144 B in two pages each", moved)
	}
	if mapped.Read < pinned.Read || mapped.Hop.Seconds <= pinned.Hop.Seconds || mapped.Fetch != pinned.Fetch {
		t.Errorf("mapped %+v, pinned %+v", mapped, pinned)
	}
	o.Mapped, o.Ahead.Direct = true, true
	if _, err := newRunner(t.Context(), p, o); err == nil || !strings.Contains(err.Error(), "choose one") {
		t.Errorf("mapped and direct: %v", err)
	}
}

// From pageable memory a step takes longer, and the note says why.
func TestPageableMemory(t *testing.T) {
	p := read(t, realProfile(t))
	o := options(t, p, "sequential")
	o.Path = "call"
	pinned := priced(t, p, o)
	o.Path = "pageable"
	paged := priced(t, p, o)
	if paged.Mean <= pinned.Mean || paged.H2D != pinned.H2D {
		t.Errorf("%g s and %g B from pageable memory, %g s and %g B from pinned", paged.Mean, paged.H2D, pinned.Mean, pinned.H2D)
	}
	if !slices.ContainsFunc(paged.Notes, func(n string) bool { return strings.Contains(n, "11.95 GB/s") }) {
		t.Errorf("notes %q", paged.Notes)
	}
}

// If the profile has enough requests, a batch draws each at most once. A larger batch draws some
// twice.
func TestDraws(t *testing.T) {
	p := &Profile{Requests: make([]Request, 9)}
	for i := range p.Requests {
		p.Requests[i].Steps = [][]Counts{make([]Counts, 1+i)}
	}
	for seed := range uint64(20) {
		for _, size := range []int{1, 5, 9, 40} {
			b, err := NewBatch(p, size, seed, 0)
			fatal.If(t, err)
			drawn := slices.Sorted(slices.Values(b.Drawn))
			if different := slices.Compact(slices.Clone(drawn)); len(drawn) != size || drawn[size-1] > 8 || size <= 9 && len(different) != size {
				t.Fatalf("seed %d: a batch of %d draws %v", seed, size, b.Drawn)
			}
			if b.Steps != drawn[size-1]+1 {
				t.Fatalf("seed %d: %d steps, the longest of %v has %d", seed, b.Steps, b.Drawn, drawn[size-1]+1)
			}
		}
	}
}

// By hand: one request once and another twice, with 3 pinned tokens in addition to the demand.
// Blocks of 4 and a factor of 2 make 8 tokens per block. No request attends to more than its
// context.
func TestSums(t *testing.T) {
	at := func(n int64) [][]Counts {
		return [][]Counts{{{Demand: n, Fetched: 2 * n, FetchedRuns: 3 * n, Moved: 4 * n, SSDFetched: 5 * n, SSDMoved: 6 * n, SSDRuns: 7 * n, Positions: 2, SeqLen: 20, Prompt: 9}}}
	}
	b := &Batch{Profile: &Profile{Meta: replay.ProfileMeta{Setting: result.Setting{Sink: 2, Local: 1, BlockTokens: 4}}, Requests: []Request{{Steps: at(1)}, {Steps: at(10)}}}}
	got := b.sum([]share{{0, 1}, {1, 2}}, 0, 5, &Scaling{Factor: 2, Heads: 1}, 0, 0)
	want := sums{Counts: Counts{Demand: 21, Fetched: 42, FetchedRuns: 63, Moved: 84, SSDFetched: 105, SSDMoved: 126, SSDRuns: 147, Positions: 6, SeqLen: 60, Prompt: 27},
		requests: 3, scored: 120, attended: 2 * (11 + 20 + 20), entries: 11 + 20 + 20, demanded: 4 + 2*40, squares: 3 * 400}
	if got != want {
		t.Errorf("%+v, expected %+v", got, want)
	}
	// Attention also reads the two outliers, blocks of 4 tokens.
	b.Profile.Meta.OutlierBlocks = 2
	if got := b.sum([]share{{0, 1}}, 0, 5, &Scaling{Factor: 2, Heads: 1}, 0, 0); got.entries != 11+8 {
		t.Errorf("%g entries are read with outliers, expected 19", got.entries)
	}
	b.Profile.Meta.OutlierBlocks = 0
	// The options state a context of 100 and 3 positions.
	got = b.sum([]share{{1, 2}}, 0, 0, &Scaling{Factor: 2, Heads: 1}, 100, 3)
	if got.SeqLen != 200 || got.Prompt != 200 || got.Positions != 6 || got.scored != 600 || got.entries != 2*83 || got.attended != 6*83 || got.squares != 20000 {
		t.Errorf("%+v", got)
	}
}

// randomProfile has requests of different lengths with random counts.
func randomProfile(r *rand.Rand, requests, layers int) *Profile {
	p := &Profile{Meta: replay.ProfileMeta{Setting: result.Setting{TopK: 256, Local: 1, BlockTokens: 1, SharedHeads: 1, StepTokens: 1}}, Cell: Cell{"lru", "2x"}, Heads: 1}
	for i := range layers {
		p.Layers = append(p.Layers, int32(5*i))
	}
	for i := range requests {
		q := Request{ID: fmt.Sprint(i), Steps: make([][]Counts, layers)}
		for range 4 + r.IntN(4) {
			for l := range q.Steps {
				n, length := r.Int64N(200), 1000*int64(i+1)+int64(len(q.Steps[l]))
				q.Steps[l] = append(q.Steps[l], Counts{Demand: 256, Fetched: n, FetchedRuns: n/2 + n%2, Moved: n, Resident: 512 + n, Positions: 1, SeqLen: length, Prompt: 1000 * int64(i+1)})
			}
		}
		p.Requests = append(p.Requests, q)
	}
	return p
}

// onSSD puts a third of the misses on the SSD.
func (p *Profile) onSSD() {
	p.Tiered = true
	for _, q := range p.Requests {
		for _, steps := range q.Steps {
			for i := range steps {
				c := &steps[i]
				c.SSDFetched, c.SSDMoved, c.SSDRuns, c.Below = c.Fetched/3, c.Moved/3, c.FetchedRuns/3, c.Resident
			}
		}
	}
}

// slowStep prices a step layer by layer and part by part.
func slowStep(t *testing.T, r *runner, step int) (s *schedule.Step, traffic Traffic, staging float64) {
	t.Helper()
	layers := func(requests []share, traffic *Traffic) (list []schedule.Layer) {
		for layer, profiled := range r.Scaling.LayerOf {
			sums := r.batch.sum(requests, profiled, step, r.Scaling, r.Context, int64(r.Positions))
			l, moved, err := r.layer(layer, &sums)
			fatal.If(t, err)
			list = append(list, l)
			traffic.add(moved)
			if f, ok := r.Schedule.(*schedule.Prefetch); ok && layer > 0 {
				traffic.H2D += (1 - f.Accuracy) * moved.H2D
			}
			staging = max(staging, moved.H2D)
		}
		return list
	}
	s = &schedule.Step{Whole: layers(r.batch.part(0, 1), &traffic)}
	if n := r.Schedule.Parts(); n > 1 {
		traffic = Traffic{}
		for i := range n {
			s.Parts = append(s.Parts, layers(r.batch.part(i, n), &traffic))
		}
	}
	for layer := range int(r.Model.Layers.Value) {
		if r.traits.Weights {
			traffic.H2D += r.Model.LayerBytes(layer, r.Experts)
		}
	}
	var err error
	if s.Output, err = r.operators.Output(float64(len(r.batch.Drawn))); err != nil {
		t.Fatal(err)
	}
	if k := r.kvpr; k != nil {
		k.Choose(s, schedule.NewTimeline())
		parts := s.Parts
		if len(parts) == 0 {
			parts = [][]schedule.Layer{s.Whole}
		}
		for _, part := range parts {
			for i := range part {
				d := &part[i].Dense
				n := min(*s.Split, d.Prompt, d.Positions)
				switch k.Recompute {
				case schedule.RecomputePaper:
					n = d.SplitPoint()
				case schedule.RecomputeNone:
					n = 0
				}
				traffic.H2D += d.Bytes*(1-float64(n)/float64(d.Positions)) + float64(n)*d.ActivationBytes
			}
		}
	}
	return s, traffic, staging
}

// slowPrice returns a batch's mean step and its traffic without caching prices.
func slowPrice(t *testing.T, p *Profile, o Options) (mean, h2d, staging float64) {
	t.Helper()
	r, err := newRunner(t.Context(), p, o)
	fatal.If(t, err)
	var exposed schedule.Exposure
	for step := range r.batch.Steps {
		s, traffic, most := slowStep(t, r, step)
		tl := schedule.NewTimeline()
		r.Schedule.Place(tl, s)
		tl.Contend(s)
		for c, v := range tl.Exposure() {
			exposed[c] += v
		}
		h2d, staging = h2d+traffic.H2D, max(staging, most)
	}
	n := float64(r.batch.Steps)
	for c := range exposed {
		exposed[c] /= n
	}
	return exposed.Sum(), h2d / n, staging
}

// Cached prices equal those of every layer and part computed separately, to the last bit.
func TestPricesAreTheSlowOnes(t *testing.T) {
	r, sample := rand.New(rand.NewPCG(21, 22)), read(t, realProfile(t))
	base := options(t, sample, "da")
	for _, model := range []string{"smollm2-135m", "deepseek-v3.2"} {
		machine, m := parts(t, "h200", model)
		for _, requests := range []int{1, 5} {
			p := randomProfile(r, requests, 4)
			for _, name := range append(exactNames(t), "sfc:parts=3", "kvpr:order=column,batches=2,weights=host", "prefetch:accuracy=0.5") {
				for _, batch := range []int{3, 8} {
					o := base
					o.Machine, o.Model = machine, m
					var err error
					if o.Selection, err = operator.ParseSelection("auto", o.Model); err != nil {
						t.Fatal(err)
					}
					if o.Scaling, err = NewScaling(p, o.Model, []string{"stretch", "nearest"}[batch%2], 300); err != nil {
						t.Fatal(err)
					}
					o.Schedule, o.Batch, o.Merge = scheduleOf(t, name), batch, batch == 3
					if s := o.Schedule.Parts(); s > batch {
						continue
					}
					got := priced(t, p, o)
					if o.Schedule, err = schedule.Parse(got.Schedule); err != nil {
						t.Fatal(err)
					}
					mean, h2d, staging := slowPrice(t, p, o)
					if got.Mean != rounded(mean) || got.H2D != rounded(h2d) || got.Memory.Staging != 0 && got.Memory.Staging != rounded(2*staging) {
						t.Errorf("%s, %d requests, %s, batch %d: %g s, %g B, staging %g; slowly %g, %g, %g", model, requests, name, batch, got.Mean, got.H2D, got.Memory.Staging, mean, h2d, 2*staging)
					}
				}
			}
		}
	}
}

// The number of micro-batches equals that of a search that prices all divisors completely.
func TestCalibrationIsTheSlowOne(t *testing.T) {
	r, sample := rand.New(rand.NewPCG(23, 24)), read(t, realProfile(t))
	for _, batch := range []int{1, 6, 12, 16, 48} {
		p := randomProfile(r, 1+r.IntN(4), 3)
		if batch%4 == 0 {
			p.onSSD()
		}
		o := options(t, sample, "sfc")
		var err error
		if o.Scaling, err = NewScaling(p, o.Model, "nearest", 0); err != nil {
			t.Fatal(err)
		}
		o.Batch = batch
		best, least := 0, math.Inf(1)
		for n := 1; n <= batch; n++ {
			if batch%n != 0 {
				continue
			}
			o.Schedule = &schedule.SFC{N: n}
			run, err := newRunner(t.Context(), p, o)
			fatal.If(t, err)
			sum, steps := 0., min(calibrationSteps, run.batch.Steps)
			for i := range steps {
				s, _, _ := slowStep(t, run, i*run.batch.Steps/steps)
				tl := schedule.NewTimeline()
				o.Schedule.Place(tl, s)
				tl.Contend(s)
				sum += tl.End()
			}
			if sum < least {
				best, least = n, sum
			}
		}
		o.Schedule = &schedule.SFC{}
		if got := priced(t, p, o).Schedule; got != (&schedule.SFC{N: best}).Name() {
			t.Errorf("batch %d: %s, the best of all is %d parts", batch, got, best)
		}
	}
}

// Positions of a step multiply computation and write-back but not the misses.
func TestPositions(t *testing.T) {
	p := read(t, realProfile(t))
	o := options(t, p, "sequential")
	o.Batch = 1024 // bound by arithmetic
	one := priced(t, p, o)
	o.Positions = 4
	if _, err := Price(t.Context(), p, o); err == nil || !strings.Contains(err.Error(), "--accept (1 to 4)") {
		t.Errorf("%v, expected a message that asks for --accept", err)
	}
	o.Accept = 2.8
	four := priced(t, p, o)
	near(t, "fetched", four.H2D, one.H2D)
	near(t, "exposed fetch", four.Causes[schedule.Fetch], one.Causes[schedule.Fetch])
	near(t, "written back", four.D2H, 4*one.D2H)
	near(t, "TPOT", four.TPOT, four.Mean/2.8)
	if four.Causes[schedule.Compute] <= one.Causes[schedule.Compute] {
		t.Errorf("computation takes %g s with four positions, %g with one", four.Causes[schedule.Compute], one.Causes[schedule.Compute])
	}
	if notes := strings.Join(four.Notes, "\n"); !strings.Contains(notes, "decodes 4 positions") {
		t.Errorf("notes say nothing of positions:\n%s", notes)
	}
}
