package pipeline

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/pipelinetest"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
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
	near(t, "compute", r.Causes[schedule.Compute], r.Mean)
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
	if s.Causes[schedule.Selecting] == 0 || d.Causes[schedule.Selecting] != 0 || s.Memory.Index == 0 || d.Memory.Index != 0 {
		t.Errorf("sparse selects for %g s with an index of %g B, dense for %g s with %g B", s.Causes[schedule.Selecting], s.Memory.Index, d.Causes[schedule.Selecting], d.Memory.Index)
	}
	if s.Memory.Cache != d.Memory.Cache || s.Causes[schedule.Compute] >= d.Causes[schedule.Compute] {
		t.Errorf("sparse computes %g s on %g B of KV, dense %g s on %g B", s.Causes[schedule.Compute], s.Memory.Cache, d.Causes[schedule.Compute], d.Memory.Cache)
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
		if o.Selection, err = operator.ParseSelection("auto", m); err != nil {
			t.Fatal(err)
		}
		r, err := newRunner(t.Context(), p, o)
		fatal.If(t, err)
		fatal.If(t, r.place(0))
		return r.step.Whole[0].Project
	}
	const rank, latent, hidden, indexer = 1536, 576, 7168, 1536*64*128 + 7168*(128+64)
	near(t, "dense of sparse", project("dense")/project("gpu"), hidden*(rank+latent)/(hidden*(rank+latent)+indexer+0.))
}

// A lossy policy keeps at most its capacity and the pinned blocks. Attention reads them, and nothing
// moves. Its time is that of schedule gpu without a selection for an exact policy whose demand is as
// large.
func TestKept(t *testing.T) {
	path := pipelinetest.Replay(t, []string{"streamingllm", "lru"})
	p, err := readProfile(t.Context(), path, Cell{"streamingllm:sink=4", "2x"})
	fatal.If(t, err)
	if !p.Lossy() || p.Oracle() {
		t.Fatalf("streamingllm: lossy %v, oracle %v", p.Lossy(), p.Oracle())
	}
	exact := *p
	exact.Meta.Lossy = nil
	for i := range p.Requests {
		for _, steps := range p.Requests[i].Steps {
			for _, c := range steps {
				if c.Fetched != 0 || c.Moved != 0 || c.Demand != c.Resident || c.Demand == 0 || c.Demand > int64(2*p.Meta.TopK*p.Heads) {
					t.Fatalf("a step of streamingllm at 2x with K = %d and %d heads has %+v", p.Meta.TopK, p.Heads, c)
				}
			}
		}
	}
	o, same := options(t, p, "kept"), options(t, &exact, "gpu")
	same.Selection = operator.Selection{}
	got, want := priced(t, p, o), priced(t, &exact, same)
	near(t, "step", got.Mean, want.Mean)
	if got.H2D != 0 || got.D2H != 0 || got.Memory.Host != 0 || got.Memory.Index != 0 || !(got.Memory.Cache < want.Memory.Cache) {
		t.Errorf("kept moves %g and %g B, with memory %+v. All KV has %g B", got.H2D, got.D2H, got.Memory, want.Memory.Cache)
	}

	// A cache of more than K tokens has room for the context if K exceeds it.
	o.Context, same.Context = 50000, 50000
	if o.Scaling, err = NewScaling(p, o.Model, "nearest", 60000); err != nil {
		t.Fatal(err)
	}
	got, want = priced(t, p, o), priced(t, &exact, same)
	near(t, "cache", got.Memory.Cache, want.Memory.Cache)
	for _, c := range []struct {
		profile  *Profile
		schedule string
		want     string
	}{
		{p, "layerwise", "schedule layerwise:phi=0.5,delta_us=0 selects among all entries, but streamingllm"},
		{p, "gpu", "schedule gpu selects among all entries"},
		{read(t, path), "kept", "schedule kept needs a policy that drops entries, and lru keeps all"},
	} {
		if _, err := Price(t.Context(), c.profile, options(t, c.profile, c.schedule)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: %v, expected %q", c.schedule, c.profile.Cell, err, c.want)
		}
	}
}
