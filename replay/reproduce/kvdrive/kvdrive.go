// Package kvdrive reproduces KVDrive, which caches the entries that attention selects in HBM, DRAM
// and SSD. It covers bytes and memory, its schedules and tiers, and the locality of its figures on
// real traces.
package kvdrive

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/trace"
)

//go:embed paper.yaml
var data string

// Paper returns the reproduction of KVDrive.
func Paper() reproduce.Paper {
	return reproduce.Paper{
		Name: "kvdrive",
		Citation: "Lin et al., KVDrive: A Holistic Multi-Tier KV Cache Management System for Long-Context LLM " +
			"Inference, May 2026.",
		Data: data,
		Study: func(s *reproduce.Study) {
			b := newBench(s)
			s.Compute(b.bytes, "bytes")
			s.Compute(b.memory, "fig-20")
			s.Compute(b.throughput, "fig-13")
			s.Compute(b.schedules, "fig-10")
			s.Compute(b.tiers, "worked")
			s.Compute(b.breakdown, "fig-4")
			s.Compute(b.windows, "fig-3")
			s.Compute(b.reuse, "fig-7")
			s.Compute(b.lookahead, "table-3")
			s.Compute(b.scaling, "fig-15")
			s.Compute(b.roofline, "fig-11")
			s.Compute(b.windowSize, "fig-16")
			s.Compute(b.chunks, "fig-17")
			s.Compute(b.warmUp, "warm-up")
			s.Compute(b.drives, "fig-21")
		},
	}
}

// bench is the server, the model and the traces that all sections share.
type bench struct {
	*reproduce.Study
	l20    *hardware.Machine
	llama  *hardware.Model
	traces []*source // of real
}

func newBench(s *reproduce.Study) *bench {
	return &bench{Study: s, l20: s.Machine("l20"), llama: s.Model("llama-3-8b-1048k")}
}

// real returns the real traces. It opens them at the first call.
func (b *bench) real() []*source {
	paths := b.RealTraces()
	if b.traces == nil {
		for _, path := range paths {
			if f := (&source{Trace: b.Open(path)}); len(f.Streams()) > 0 {
				f.describe()
				b.traces = append(b.traces, f)
			}
		}
	}
	return b.traces
}

// source is a real trace with the properties by which sections choose.
type source struct {
	*reproduce.Trace
	selector string  // exact if the trace does not state it
	budget   float64 // K as a share of the prompt
	perHead  bool
}

func (f *source) describe() {
	m, info := f.Meta(), f.Streams()[0]
	f.selector, f.perHead = cmp.Or(m.Selector, "exact"), info.Key.Head != trace.NoHead
	if n := info.PromptLen; n > 0 {
		f.budget = float64(m.TopK*m.BlockTokens) / float64(n)
	}
}

// The budgets of the paper's figures, as shares of the context: 1.56 % and 6.25 %.
const (
	small = 1. / 64
	large = 1. / 16
)

// exactNear returns the traces of the exact Top-K with about the given budget.
func (b *bench) exactNear(budget float64) []*source {
	return b.which(func(f *source) bool {
		return f.selector == "exact" && f.budget > budget/1.5 && f.budget < budget*1.5
	})
}

func (b *bench) which(holds func(*source) bool) (found []*source) {
	return slice.Filter(b.real(), func(f *source) bool { return holds(f) })
}

// ranked reports whether lists are in rank order and longer than the demand.
func (f *source) ranked() bool {
	return f.Meta().Order == trace.OrderRank && f.Meta().Candidates > f.Meta().TopK
}

func (f *source) requests() (ids []string) {
	for _, info := range f.Streams() {
		if id := info.Key.Request; len(ids) == 0 || ids[len(ids)-1] != id {
			ids = append(ids, id)
		}
	}
	return ids
}

func namesOf(files []*source) string {
	names := slice.Map(files, func(f *source) string { return f.Name })
	return strings.Join(names, ", ")
}

// about states models, prompts and K of traces, because other traces can give other figures than
// the paper's.
func about(files ...*source) string {
	var models []string
	tokens, demand := [2]int{1 << 30, 0}, [2]int{1 << 30, 0}
	widen := func(v *[2]int, n int) { *v = [2]int{min(v[0], n), max(v[1], n)} }
	for _, f := range files {
		m := f.Meta()
		models = slice.Add(models, cmp.Or(m.Model, "an unnamed model"))
		widen(&demand, m.TopK*m.BlockTokens)
		for _, info := range f.Streams() {
			widen(&tokens, int(info.PromptLen))
		}
	}
	span := func(v [2]int) string {
		if v[0] == v[1] {
			return strconv.Itoa(v[0])
		}
		return fmt.Sprintf("%d to %d", v[0], v[1])
	}
	return fmt.Sprintf("%s, prompts of %s tokens, K of %s", strings.Join(models, ", "), span(tokens), span(demand))
}

// typical returns the trace whose misses a section prices, at the small budget. A trace by head is
// preferred. The section names it. Without such a trace it returns nil, and the section states it.
func (b *bench) typical(d *reproduce.Draft) *source {
	files := b.exactNear(small)
	if len(files) == 0 {
		d.Absent("no trace")
		return nil
	}
	f := files[max(0, slices.IndexFunc(files, func(f *source) bool { return f.perHead }))]
	d.Extend("misses", reproduce.Row{"trace": f.Name})
	return f
}

// count sums rows of one policy.
type count struct{ demand, misses int64 }

func (c count) hit() float64 { return 1 - float64(c.misses)/float64(c.demand) }

// counts replays traces and pools their counts by policy.
func (b *bench) counts(files []*source, policies, capacities []string, warmup string) map[string]count {
	pooled := map[string]count{}
	for _, f := range files {
		for _, r := range b.Replay(f.Trace, b.Options(policies, capacities, warmup)) {
			c := pooled[r.Policy]
			pooled[r.Policy] = count{c.demand + r.Demand, c.misses + r.Misses}
		}
	}
	return pooled
}

// profile returns the profile of a policy with blocks of some tokens, 0 for the trace's.
func (b *bench) profile(f *source, policy, capacity, tier string, blockTokens int) *pipeline.Profile {
	r := reproduce.Replay{Policy: policy, Tier: tier, Shape: replay.Shape{BlockTokens: blockTokens}}
	return b.Profiles(f.Trace, r, capacity)[0]
}

// kvdrives is KVDrive's selection.
const kvdrives = "centroids:tokens=16"

// price returns the output of kvreplay time for Llama-3-8B at the small budget. The options state
// batch and context. By default the machine is the L20 and the host has 16 threads.
func (b *bench) price(p *pipeline.Profile, schedule, selection string, o pipeline.Options) *pipeline.Result {
	o.Machine, o.Threads = cmp.Or(o.Machine, b.l20), cmp.Or(o.Threads, 16)
	o.Model, o.Depth, o.Steps = b.llama, 64, 16
	o.Scaling = reproduce.Must(pipeline.NewScaling(p, b.llama, "stretch", int(o.Context/64)))
	return b.Price(p, schedule, selection, o)
}
