package pipeline

import (
	"math"
	"strings"
	"testing"
)

// By hand: dense attention of OPT-13B reads 40 layers × 16 requests × 514 positions of 20,480 B at
// 1530 GB/s, and the weights once. Nothing is selected, moved or indexed.
func TestDenseByHand(t *testing.T) {
	const layers, hidden, rate = 40, 5120., 1530e9
	r := decoding(t, "dense", 16, 512, 4)
	_, m := parts(t, "a100-40", "opt-13b")
	kv := layers * 16 * 514 * 4 * hidden
	// Among the biases, only those of the FFN count as computation: 5 times the hidden size.
	weights := layers*(12*hidden*hidden+5*hidden)*2 + hidden*float64(m.Vocabulary.Value)*2
	near(t, "step, ms", 1e3*r.Mean, 1e3*(kv+weights)/rate)
	near(t, "compute", r.Causes.Compute, r.Mean)
	near(t, "moved", r.H2D+r.D2H, 0)
	near(t, "cache", r.Memory.Cache, layers*16*515*4*hidden)
	near(t, "index, staging and host", r.Memory.Index+r.Memory.Staging+r.Memory.Host, 0)
	for _, other := range []string{"flexgen", "kvpr", "ellm:uncached=0.5,swap=1,recompute=1"} {
		if o := decoding(t, other, 16, 512, 4); o.Mean < r.Mean {
			t.Errorf("%s takes %g s, less than with all KV on the GPU, %g s", other, o.Mean, r.Mean)
		}
	}
}

// Sparse attention on the same misses selects and reads less.
func TestDenseAndSparse(t *testing.T) {
	p := read(t, realProfile(t))
	sparse, dense := options(t, p, "gpu"), options(t, p, "dense")
	for _, o := range []*Options{&sparse, &dense} {
		o.Batch, o.Context = 32, 8192
	}
	s, d := priced(t, p, sparse), priced(t, p, dense)
	if s.Causes.Selection == 0 || d.Causes.Selection != 0 || s.Memory.Index == 0 || d.Memory.Index != 0 {
		t.Errorf("sparse selects for %g s with an index of %g B, dense for %g s with %g B", s.Causes.Selection, s.Memory.Index, d.Causes.Selection, d.Memory.Index)
	}
	if s.Memory.Cache != d.Memory.Cache || s.Causes.Compute >= d.Causes.Compute {
		t.Errorf("sparse computes %g s on %g B of KV, dense %g s on %g B", s.Causes.Compute, s.Memory.Cache, d.Causes.Compute, d.Memory.Cache)
	}
	if notes := strings.Join(d.Notes, "\n"); strings.Contains(notes, "selection:") || !strings.Contains(notes, "attention reads the whole context") {
		t.Errorf("dense says\n%s", notes)
	}
}

// The indexer of DeepSeek-V3.2 does not run if attention is dense. It has 14M of the 29.1M weights
// that come before attention.
func TestDenseRunsNoIndexer(t *testing.T) {
	p := read(t, realProfile(t))
	machine, m := parts(t, "h200", "deepseek-v3.2")
	project := func(text string) float64 {
		o := options(t, p, text)
		var err error
		o.Machine, o.Model = machine, m
		if o.Scaling, err = NewScaling(p, m, "stretch", 2048); err != nil {
			t.Fatal(err)
		}
		if o.Selection, err = ParseSelection("auto", m); err != nil {
			t.Fatal(err)
		}
		r, err := newRunner(t.Context(), p, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.place(0); err != nil {
			t.Fatal(err)
		}
		return r.step.Whole[0].Project
	}
	const rank, latent, hidden, indexer = 1536, 576, 7168, 1536*64*128 + 7168*(128+64)
	near(t, "dense of sparse", project("dense")/project("gpu"), hidden*(rank+latent)/(hidden*(rank+latent)+indexer+0.))
}

// A plan finds batches that fit for both schedules. All of the context is cached.
func TestPlanOfDense(t *testing.T) {
	p := read(t, realProfile(t))
	o := planOptions(t, p, "gpu", "dense")
	machine, gpu := *o.Machine, *o.Machine.GPU
	gpu.Memory.Value = 2e9
	machine.GPU, o.Machine, o.Context = &gpu, &machine, 8192
	plan, err := Plan(t.Context(), []*Profile{p}, o)
	if err != nil || len(plan.Candidates) != 2 {
		t.Fatalf("%+v, %v", plan, err)
	}
	for _, c := range plan.Candidates {
		if *c.Ratio != 1 || *c.Fill < 1 || math.IsInf(*c.Fill, 0) || c.Binding != BindsGPU || c.Cell != (Cell{}) {
			t.Errorf("%s keeps %g, %g fills, bound by %s, cell %v", c.Schedule, *c.Ratio, *c.Fill, c.Binding, c.Cell)
		}
	}
	if of := func(name string) int { return batchOf(plan.Candidates, name) }; of("dense") <= of("gpu") {
		t.Errorf("dense has room for %d requests, sparse with its index for %d", of("dense"), of("gpu"))
	}
}

func batchOf(plan []Candidate, schedule string) int {
	for _, c := range plan {
		if c.Schedule == schedule {
			return c.Batch
		}
	}
	return 0
}

// Help distinguishes the two schedules.
func TestScheduleListNamesAttention(t *testing.T) {
	for _, want := range []string{"sparse Top-K attention, all KV on the GPU", "dense attention over the whole context, all KV on the GPU"} {
		if !strings.Contains(ScheduleList(), want) {
			t.Errorf("no %q in\n%s", want, ScheduleList())
		}
	}
}
