package pipeline

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// Attention reads K and V of all KV heads. With K = 256 per head, a layer that shares its selection
// reads as much as one whose heads select separately.
func TestAttentionReadsAllHeads(t *testing.T) {
	for _, name := range []string{"llama-3.1-8b", "opt-13b", "smollm2-135m"} {
		machine, m := parts(t, "h100", name)
		for _, heads := range []int{1, int(m.KVHeads.Value)} {
			p := &Profile{Meta: replay.ProfileMeta{Setting: result.Setting{TopK: 256, Local: 1}}, Layers: []int32{0}, Heads: heads,
				Requests: []Request{{Steps: [][]Counts{{{Demand: 256 * int64(heads), Positions: 1, SeqLen: 9000}}}}}}
			scaling, err := NewScaling(p, m, "nearest", 0)
			fatal.If(t, err)
			r, err := newRunner(t.Context(), p, Options{Machine: machine, Model: m, Scaling: scaling, Selection: operator.Selection{Method: "keys", Tokens: 1}, Schedule: schedule.OnGPU{}, Batch: 8})
			fatal.If(t, err)
			fatal.If(t, r.priceStep(0))
			near(t, fmt.Sprintf("%s, %d select: bytes", name, heads), r.step.Whole[0].Attend/r.operators.Touch(1), 8*(256+1)*float64(m.Entry.Value))
		}
	}
}

// A request attends to 256 + 1 entries, of which 64 are fetched.
func TestShareFetched(t *testing.T) {
	machine, m := parts(t, "h100", "llama-3.1-8b")
	p := &Profile{Meta: replay.ProfileMeta{Setting: result.Setting{TopK: 256, Local: 1}}, Layers: []int32{0}, Heads: 1,
		Requests: []Request{{Steps: [][]Counts{{{Demand: 256, Fetched: 4, Moved: 64, Positions: 1, SeqLen: 9000}}}}}}
	scaling, err := NewScaling(p, m, "nearest", 0)
	fatal.If(t, err)
	r, err := newRunner(t.Context(), p, Options{Machine: machine, Model: m, Scaling: scaling, Selection: operator.Selection{Method: "keys", Tokens: 1}, Schedule: scheduleOf(t, "sequential"), Batch: 8})
	fatal.If(t, err)
	fatal.If(t, r.priceStep(0))
	near(t, "fetched", r.step.Whole[0].Missed, 64./257)
}

// Experts are divided among a power of two of GPUs. The options refuse more GPUs than experts.
func TestExpertGPUs(t *testing.T) {
	for _, c := range []struct {
		machine string
		experts hardware.Number
		want    int
	}{{"h200", 256, 16}, {"a10", 256, 256}, {"a10", 160, 160}, {"a10", 3, 3}} {
		machine, found := parts(t, c.machine, "deepseek-v3.2")
		m, moe := *found, *found.MoE
		moe.Experts.Value = c.experts
		m.MoE = &moe
		r := &runner{Options: Options{Machine: machine, Model: &m}}
		if r.divideExperts(); r.Experts != c.want {
			t.Errorf("%s: %g experts are divided among %d GPUs, expected %d", c.machine, c.experts, r.Experts, c.want)
		}
	}
}

// On real misses, lookups in a page table take as long in a cache of 4 × K as in one of 1 × K.
// Lookups in lists take longer, as in KVDrive's Fig. 16.
func TestLookupGrowsWithTheCache(t *testing.T) {
	p := read(t, realProfile(t))
	large := *p
	large.Requests = make([]Request, len(p.Requests))
	for i := range p.Requests {
		for _, steps := range p.Requests[i].Steps {
			var more []Counts
			for _, c := range steps {
				c.Resident *= 4
				more = append(more, c)
			}
			large.Requests[i].Steps = append(large.Requests[i].Steps, more)
		}
	}
	for name, grows := range map[string]bool{"page": false, "hash": false, "sorted": true, "list": true} {
		o := options(t, p, "sequential:lookup=cpu")
		o.Lookup = name
		small, much := priced(t, p, o).Causes[schedule.Lookup], priced(t, &large, o).Causes[schedule.Lookup]
		if !(small > 0) || (much > small*(1+1e-9)) != grows || math.IsInf(much, 0) {
			t.Errorf("%s takes %g s, and %g s in a cache of 4 times the size", name, small, much)
		}
	}
	o := options(t, p, "sequential")
	o.Lookup = "tree"
	if _, err := Price(t.Context(), p, o); err == nil || !strings.Contains(err.Error(), "unknown lookup") {
		t.Errorf("error %v, expected an unknown lookup", err)
	}
}

// A cache's blocks follow from the profile: heads, requests and scaling do not change them.
func TestBlocksOfACache(t *testing.T) {
	p := read(t, realProfile(t))
	for _, batch := range []int{1, 5} {
		o := options(t, p, "sequential")
		o.Batch = batch
		r, err := newRunner(t.Context(), p, o)
		fatal.If(t, err)
		seen := &spy{Pricer: r.operators.Pricer}
		r.operators.Pricer = seen
		fatal.If(t, r.priceStep(3))
		want := float64(p.Requests[0].Steps[0][3].Resident) / float64(p.Heads)
		near(t, "blocks of a cache", seen.loads[0].Resident/seen.loads[0].Caches, want)
	}
}

// spy records the loads that it passes on.
type spy struct {
	operator.Pricer
	loads []operator.Load
}

func (s *spy) Layer(layer int, l *operator.Load) (operator.Times, error) {
	s.loads = append(s.loads, *l)
	return s.Pricer.Layer(layer, l)
}

// On real misses, every selection has a finite time. Those with an index have its bytes on the GPU,
// and hash tables are in host memory.
func TestSelectionsOnRealMisses(t *testing.T) {
	p := read(t, realProfile(t))
	o := options(t, p, "sequential")
	exact := o
	exact.Selection = selectionOf(t, "keys", o.Model)
	keys := priced(t, p, exact)
	for _, name := range []string{"minmax", "mean", "centroids", "wave", "partial", "pq", "lsh", "keys"} {
		o.Selection = selectionOf(t, name, o.Model)
		r := priced(t, p, o)
		if s := r.Causes[schedule.Selecting]; !(s > 0) || math.IsInf(s, 0) {
			t.Errorf("%s takes %g s", name, s)
		}
		if name != "keys" && name != "lsh" && r.Memory.Index >= keys.Memory.Index {
			t.Errorf("%s keeps %g B, all keys %g B", name, r.Memory.Index, keys.Memory.Index)
		}
		c := o.Selection.Cost(o.Model)
		tables := (8192*c.Host.Token + c.Host.Request) * 30 * float64(o.Machine.GPUs)
		if more := r.Memory.Host - keys.Memory.Host; more < 0.9*tables || (more > 0) != (name == "lsh") {
			t.Errorf("%s keeps %g B of tables on the host, expected about %g", name, more, tables)
		}
	}
}
func selectionOf(t *testing.T, text string, m *hardware.Model) operator.Selection {
	t.Helper()
	s, err := operator.ParseSelection(text, m)
	fatal.If(t, err)
	return s
}

// entryOf reads an entry of a model.
func entryOf(t *testing.T, text string, m *hardware.Model) operator.Entry {
	t.Helper()
	e, err := operator.ParseEntry(text, m)
	fatal.If(t, err)
	return e
}

// On real misses, bytes over the link, bytes in host memory and the labels follow from the entry. A
// step that moves fewer bytes is shorter, and one that waits for its fetch computes longer.
func TestEntriesOnRealMisses(t *testing.T) {
	p := read(t, realProfile(t))
	for _, name := range []string{"sequential", "layerwise", "sfc:parts=1", "prefetch"} {
		o := options(t, p, name)
		own := priced(t, p, o)
		for text, share := range map[string]float64{"v": 0.5, "int4": 0.28125, "hidden": 1.5} {
			o.Entry = entryOf(t, text, o.Model)
			r := priced(t, p, o)
			near(t, text+", H2D", r.H2D/own.H2D, share)
			near(t, text+", D2H", r.D2H/own.D2H, share)
			near(t, text+", host memory", r.Memory.Host/own.Memory.Host, share)
			near(t, text+", cache", r.Memory.Cache, own.Memory.Cache)
			if r.Causes[schedule.Compute] <= own.Causes[schedule.Compute] && name == "sequential" {
				t.Errorf("%s computes %g s, K and V %g s", text, r.Causes[schedule.Compute], own.Causes[schedule.Compute])
			}
			if share < 1 && r.Causes[schedule.Fetch] >= own.Causes[schedule.Fetch] && own.Causes[schedule.Fetch] > 0 {
				t.Errorf("%s, %s: %g s of fetches are exposed, of K and V %g s",
					name, text, r.Causes[schedule.Fetch], own.Causes[schedule.Fetch])
			}
			if lossy := slices.Contains(r.Labels, "lossy entries"); lossy != (text != "hidden") {
				t.Errorf("%s has the labels %v", text, r.Labels)
			}
			if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "entry: "+o.Entry.String()) {
				t.Errorf("%s is not in the notes: %s", text, notes)
			}
			held, _ := o.Entry.Held(o.Model)
			if more := r.Memory.Index > own.Memory.Index; more != (held > 0) {
				t.Errorf("%s: index of %g B, without it %g B", text, r.Memory.Index, own.Memory.Index)
			}
		}
	}
}

// With a tier of host memory, its blocks and those of the SSD have the form of the entry.
func TestEntriesOfTiers(t *testing.T) {
	p := read(t, realProfile(t, "dram=lru@4x"))
	o := options(t, p, "sequential")
	o.Machine, _ = parts(t, "l40s", "smollm2-135m")
	own := priced(t, p, o)
	o.Entry = entryOf(t, "v", o.Model)
	r := priced(t, p, o)
	near(t, "bytes of the SSD's reads", r.SSD/own.SSD, 0.5)
	near(t, "host memory", r.Memory.Host/own.Memory.Host, 0.5)
	near(t, "SSD", r.Memory.SSD/own.Memory.SSD, 0.5)
}

// Schedules that move no misses are priced with the model's own entry, and say so.
func TestEntryOfOtherSchedules(t *testing.T) {
	p := read(t, realProfile(t))
	for _, name := range []string{"gpu", "dense", "flexgen"} {
		o := options(t, p, name)
		own := priced(t, p, o)
		o.Entry = entryOf(t, "v", o.Model)
		r := priced(t, p, o)
		if r.Mean != own.Mean || r.Memory != own.Memory || slices.Contains(r.Labels, "lossy entries") {
			t.Errorf("%s takes %g s and %+v, expected %g s and %+v", name, r.Mean, r.Memory, own.Mean, own.Memory)
		}
		if !strings.Contains(strings.Join(r.Notes, "\n"), "entry: auto, because") {
			t.Errorf("%s: %v", name, r.Notes)
		}
	}
}

// A hidden state has all heads. It cannot be fetched for one.
func TestHiddenOfHeads(t *testing.T) {
	p := read(t, realProfile(t))
	o := options(t, p, "sequential")
	o.Entry = entryOf(t, "hidden", o.Model)
	p.Heads = 3
	if _, err := Price(t.Context(), p, o); err == nil || !strings.Contains(err.Error(), "--share-heads") {
		t.Errorf("error %v, expected one that names --share-heads", err)
	}
}
