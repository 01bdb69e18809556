package kvdrive

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/reproduce/setting"
)

// Contexts in tokens as the paper writes them.
const (
	k60  = 61_440
	k64  = 65_536
	k90  = 92_160
	k120 = 122_880
	k128 = 131_072
	k240 = 245_760
	k360 = 368_640
)

// budget is K at 120K in the paper's comparisons (Table 3).
const budget = 2048

// on is a batch on the L20 server.
func (s *study) on(m *hardware.Model, batch int, context int64, schedule, selection string, r setting.Request) *setting.Setting {
	r.Context = context
	return &setting.Setting{Machine: s.l20, Model: m, Batch: batch, Schedule: schedule, Selection: selection, Request: r}
}

// heads is a request whose counts are those of one head, in all heads of a layer.
func heads(m *hardware.Model, demand, misses, resident int64) setting.Request {
	n := int64(m.KVHeads.Value)
	return setting.Request{Demand: n * demand, Misses: n * misses, Resident: n * resident}
}

// bytes holds the figures that follow from shapes: KV of a batch, transfers of a step, size
// of indices.
func (s *study) bytes() (section reproduce.Section, err error) {
	section = reproduce.Section{Name: "bytes", Covers: []string{"Fig. 3", "Table 3"}, Title: "Sections 1, 3, 9.3: bytes that follow from shapes",
		Method: "KV, index and transfers as kvreplay time counts them (pipeline.Memory, bytes over the link a step) for batches of equal requests."}
	kv, err := s.on(s.llama, 8, 100_000, "gpu", "", heads(s.llama, budget, 0, 0)).Price(s.ctx)
	if err != nil {
		return section, err
	}
	one, err := s.on(s.llama, 1, k128, "gpu", "", heads(s.llama, budget, 0, 0)).Price(s.ctx)
	if err != nil {
		return section, err
	}
	section.Lines = append(section.Lines,
		rounded("KV of 8 requests of 100K, Llama-3-8B (\"nearly 100 GB\")", "GB", 100, kv.Memory.Cache/1e9, 0.05),
		reproduce.Statement("KV of 128K \"exceeds 16 GB\"", "GB", one.Memory.Cache/1e9, one.Memory.Cache > 16e9))
	section.Contradictions = []string{
		fmt.Sprintf("%.1f GB are 8 requests of 100K in units of 10⁹ B, %.1f GiB: the paper's GB are neither everywhere; 128K need %.1f GiB, not more than 16 GiB.", kv.Memory.Cache/1e9, kv.Memory.Cache/(1<<30), one.Memory.Cache/(1<<30)),
	}
	all := heads(s.llama, k64/16, k64/16, 0)
	moved, err := s.on(s.llama, 1, k64, "sequential", "", all).Price(s.ctx)
	if err != nil {
		return section, err
	}
	section.Lines = append(section.Lines,
		reproduce.ByHand("Fig. 3, ×0 at 6.25 % of 64K: 4096 · 131072 B", "MB", 4096*131_072/1e6, moved.H2D/1e6),
		reproduce.Statement("it is more than 500 MB a step", "MB", moved.H2D/1e6, moved.H2D > 500e6))
	return section, s.indices(&section)
}

// indices adds the sizes of indices at 120K.
func (s *study) indices(section *reproduce.Section) error {
	size := map[string]float64{}
	for _, text := range []string{"minmax:tokens=8", "minmax:tokens=16", "mean:tokens=8", "centroids:tokens=16"} {
		r, err := s.on(s.llama, 8, k120, "sequential", text, heads(s.llama, budget, 0, 0)).Price(s.ctx)
		if err != nil {
			return err
		}
		size[text] = r.Memory.Index
	}
	own := size["centroids:tokens=16"]
	page16 := reproduce.Statement("Quest's index with pages of 16, its own default, is over 4 times KVDrive's", "×", size["minmax:tokens=16"]/own, size["minmax:tokens=16"] >= 4*own)
	section.Lines = append(section.Lines,
		reproduce.Same("Quest's index over KVDrive's, chunks of 8", "×", 4, size["minmax:tokens=8"]/own),
		reproduce.Same("Quest's index over ShadowKV's, chunks of 8", "×", 2, size["minmax:tokens=8"]/size["mean:tokens=8"]),
		page16.Unless("the sentence holds only with chunks of 8"))
	return nil
}

// system is how a system of Fig. 20 lies in GPU memory.
type system struct {
	name, schedule, selection string
	window                    int64 // entries kept, in units of K
}

// systems are in the order of what they take, as the text has them.
var systems = []system{
	{"FlexGen", "flexgen", "keys", 0},
	{"KVDrive ×1", "sfc:parts=1", "centroids:tokens=16", 1},
	{"KVDrive ×2", "sfc:parts=1", "centroids:tokens=16", 2},
	{"Quest", "sequential", "minmax:tokens=8", 0},
	{"ShadowKV", "sequential", "mean:tokens=8,rank=160", 1},
	{"Original", "dense", "", 0},
}

// holds is what a system keeps on the GPU, bytes: without staging and reserve, which Fig.
// 20 does not show. Original has no index, FlexGen one layer at a time, where the schedule
// of kvreplay has two to fetch one while it reads the other.
func (s *study) holds(m *hardware.Model, of *system) (float64, error) {
	r, err := s.on(m, 8, k120, of.schedule, of.selection, heads(m, budget, 0, of.window*budget)).Price(s.ctx)
	if err != nil {
		return 0, err
	}
	mem := &r.Memory
	switch of.schedule {
	case "dense":
		return mem.Weights + mem.Cache, nil
	case "flexgen":
		return mem.Weights + mem.Cache/2, nil
	}
	return mem.Weights + mem.Cache + mem.Index, nil
}

// memory holds Fig. 20, and who runs out of memory.
func (s *study) memory() (section reproduce.Section, err error) {
	section = reproduce.Section{Name: "fig-20", Covers: []string{"Fig. 13", "Fig. 20"}, Title: "Figures 13 and 20: GPU memory, and the systems that run out of it",
		Method: fmt.Sprintf("pipeline.Memory of kvreplay time: 8 requests of 120K, K = %d; chunks of 8 for Quest and ShadowKV, 16 tokens a centroid, ShadowKV with keys of rank 160. The figure is a plot: order alone is judged. Weights, index and cache, of FlexGen one layer; staging and reserve are not counted.", budget)}
	for _, name := range []string{"llama-3-8b-1048k", "qwen3-14b", "phi-4-mini"} {
		m, err := s.lib.Model(name)
		if err != nil {
			return section, err
		}
		before := 0.
		for i := range systems {
			sum, err := s.holds(m, &systems[i])
			if err != nil {
				return section, err
			}
			if i > 0 {
				section.Lines = append(section.Lines, reproduce.Statement(fmt.Sprintf("%s: %s takes less than %s; the latter", name, systems[i-1].name, systems[i].name), "GB", sum/1e9, before < sum))
			}
			before = sum
		}
	}
	section.Contradictions = []string{
		fmt.Sprintf("Fig. 20 does not say which server it is of. The KV of 8 requests of 120K is %.0f GB and more, which the L20's and the RTX 4090's 100 and 120 GB of host memory cannot hold.", 8*float64(k120)*float64(s.llama.Entry.Value)*float64(s.llama.Layers.Value)/1e9),
	}
	return section, s.outOfMemory(&section)
}

// cells are the contexts and batches of Fig. 13.
var cells = []struct {
	context int64
	batch   int
}{{k60, 8}, {k90, 4}, {k120, 4}, {k240, 2}, {k360, 2}}

// footprints are the bytes of GPU memory that Llama-3-8B takes with all KV in it (weights
// and cache), and as KVDrive ×2 at 1.56 %; has is what the L20 has. Neither counts what the
// driver keeps.
func (s *study) footprints(batch int, context int64) (original, own, has float64, err error) {
	r, err := s.on(s.llama, batch, context, "dense", "", heads(s.llama, budget, 0, 0)).Price(s.ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	k, err := s.on(s.llama, batch, context, "sfc:parts=1", "centroids:tokens=16", heads(s.llama, context/64, 0, 2*context/64)).Price(s.ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	return r.Memory.Weights + r.Memory.Cache, k.Memory.GPU - k.Memory.Reserve, k.Memory.GPUHas, nil
}

// cards adds Fig. 23a: in-memory serving on an H20, KVDrive on an RTX 4090.
func (s *study) cards(section *reproduce.Section) error {
	const batch, context = 8, k60
	original, own, _, err := s.footprints(batch, context)
	if err != nil {
		return err
	}
	ratio := reproduce.Compare(reproduce.Prediction, "Fig. 23a, GPU memory of in-memory serving over KVDrive's (\"approximately 4×\"), 8 × 60K", "×", reproduce.Printed(4), original/own, reproduce.Gate{Relative: 0.1})
	ratio.Note = "the paper does not state the setting. This is the one of Fig. 13 with the most tokens that an H20 holds"
	section.Lines = append(section.Lines, ratio)
	for _, c := range []struct {
		item, machine string
		takes         float64
	}{{"Fig. 23a: an H20 holds it with all KV", "h20", original}, {"Fig. 23a: an RTX 4090 holds it as KVDrive", "rtx4090", own}} {
		m, err := s.lib.Machine(c.machine)
		if err != nil {
			return err
		}
		section.Lines = append(section.Lines, reproduce.Statement(c.item, "GB", c.takes/1e9, c.takes < float64(m.GPU.Memory.Value)))
	}
	return nil
}

// outOfMemory adds which systems the L20's 48 GB hold.
func (s *study) outOfMemory(section *reproduce.Section) error {
	for _, c := range cells {
		original, own, has, err := s.footprints(c.batch, c.context)
		if err != nil {
			return err
		}
		section.Lines = append(section.Lines,
			reproduce.Statement(fmt.Sprintf("Original runs out of memory, %d × %dK", c.batch, c.context/1024), "GB", original/1e9, original > has),
			reproduce.Statement(fmt.Sprintf("KVDrive ×2 fits, %d × %dK", c.batch, c.context/1024), "GB", own/1e9, own < has))
	}
	m, err := s.lib.Model("qwen3-14b")
	if err != nil {
		return err
	}
	for i := range systems {
		sum, err := s.holds(m, &systems[i])
		if err != nil {
			return err
		}
		fits, expected := sum < float64(s.l20.GPU.Memory.Value), i < 3
		says := "exceeds 48 GB"
		if expected {
			says = "fits into 48 GB"
		}
		section.Lines = append(section.Lines, reproduce.Statement(fmt.Sprintf("qwen3-14b, 8 × 120K: %s %s", systems[i].name, says), "GB", sum/1e9, fits == expected))
	}
	section.Lines = append(section.Lines, reproduce.Absent("MagicPIG runs out of host memory", "", reproduce.Target{}, "the number and width of its hash tables is not printed"))
	return nil
}

// throughput holds FlexGen's tokens/s.
func (s *study) throughput() (section reproduce.Section, err error) {
	section = reproduce.Section{Name: "fig-13", Covers: []string{"Fig. 13", "Fig. 14"}, Title: "Figure 13: throughput on the L20",
		Method: "kvreplay time --schedule flexgen, whole layers over the link at its measured peak; the other systems as kvreplay time prices the misses of a trace on Llama-3-8B, 4 requests of 120K, K = 1.56 %. The plot's values are not printed. A step of B requests of n tokens moves their KV, B·n·131,072 bytes, so that B/T is below 1 where the rate of copies is below n·131,072 bytes/s, whatever B."}
	for _, c := range cells {
		r, err := s.on(s.llama, c.batch, c.context, "flexgen", "keys", heads(s.llama, budget, 0, 0)).Price(s.ctx)
		if err != nil {
			return section, err
		}
		l := reproduce.Statement(fmt.Sprintf("FlexGen falls below 1 token/s, %d × %dK", c.batch, c.context/1024), "tokens/s", r.Tokens, r.Tokens < 1)
		if c.context < k240 { // the bound of the link; shorter contexts move less than it carries in a second
			l = l.Unless("at the rate of pinned memory it does not. Copies from pageable memory, or of smaller pieces, would be as slow")
		}
		section.Lines = append(section.Lines, l)
		const kv = 131_072 // bytes of a token, 32 layers
		section.Lines = append(section.Lines, reproduce.ByHand(fmt.Sprintf("rate of copies below which FlexGen does, %d × %dK", c.batch, c.context/1024), "GB/s", float64(c.context*kv)/1e9, r.H2D/float64(c.batch)/1e9))
	}
	if err := s.compared(&section); err != nil {
		return section, err
	}
	const plots = "bars of a plot; times of selection, lookup and computation are not printed"
	section.Lines = append(section.Lines, reproduce.Absent("throughput over the best of the others on H20 and RTX 4090, at least", "×", reproduce.Printed(1.23), plots), reproduce.Absent("and at most", "×", reproduce.Printed(1.53), plots), reproduce.Absent("overall, at most", "×", reproduce.Printed(1.74), plots))
	return section, nil
}
