package ess

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// indexShare is the indexer's part of a token's bytes, which stays on the GPU.
func indexShare(m *hardware.Model) float64 {
	index := float64(m.Indexer.Entry.Value)
	return index / (index + float64(m.Entry.Value))
}

// pairs are the printed batches with their ratios, once each.
var pairs = []*row{
	find(short, 2, 1.7, 64), find(short, 2, 1.7, 96), find(short, 2, 1.7, 128), find(short, 2, 1.7, 160),
	find(long, 2, 1.7, 40), find(long, 2, 1.7, 54),
}

// memory holds the planner: how much of its context each request keeps.
func (s *study) memory() ([]reproduce.Section, error) {
	x := indexShare(s.model)
	first := pairs[0]
	full := float64(first.batch) * (first.ratio*(1-x) + x) // CacheRatio, solved
	section := reproduce.Section{Name: "memory", Title: "Memory: batch and Sparse Memory Ratio (Table 2, section 3.1)", Covers: []string{"Table 2"},
		Method:    "r(B) = (B₀/B − x)/(1 − x) of pipeline.CacheRatio, the planner of kvreplay plan, with x from the model's shape. The largest batch without offloading is what kvreplay plan finds on an H200 whose routed experts are shared by 32 GPUs, a tenth of the memory kept free.",
		Constants: []reproduce.Constant{{Name: "B₀", Value: full, Unit: "requests of 32K that fit whole", From: first.String()}},
		Lines:     []reproduce.Line{reproduce.Compare(reproduce.Arithmetic, "the indexer's share of the cache", "%", reproduce.Printed(16.8), 100*x, reproduce.Gate{Absolute: 0.05})}}
	for _, p := range pairs {
		kind := reproduce.Transferred
		if p == first {
			kind = reproduce.Fitted
		}
		section.Lines = append(section.Lines, reproduce.Compare(kind, fmt.Sprintf("%dK, batch %d", p.context>>10, p.batch), "", reproduce.Printed(p.ratio),
			pipeline.CacheRatio(full*short/float64(p.context), float64(p.batch), x), reproduce.Gate{Absolute: 0.01}))
	}
	for _, p := range []*row{find(short, 2, 1.7, 52), find(long, 2, 1.7, 13)} {
		batch, err := s.largest(p.context)
		if err != nil {
			return nil, err
		}
		l := reproduce.Compare(reproduce.Prediction, fmt.Sprintf("%dK, largest batch with all KV on the GPU", p.context>>10), "", reproduce.Printed(float64(p.batch)), float64(batch), reproduce.Gate{Relative: 0.1})
		l.Note = "the paper does not name the GPU. That it is an H200 follows from the printed batches themselves"
		section.Lines = append(section.Lines, l.Unless("the paper names neither the GPU nor the other contents of its memory, and its batches leave 18 % of an H200 free rather than a tenth"))
	}
	cache := full * short * float64(s.model.Layers.Value) * float64(s.model.Entry.Value+s.model.Indexer.Entry.Value)
	section.Lines = append(section.Lines, reproduce.Compare(reproduce.SelfCheck, "share of an H200's memory that B₀ requests of 32K and the weights take", "%",
		reproduce.Reference(82.3, "54.4 × 32,768 tokens × 61 layers × 788 B and 38.4 GB of weights, of 143,771 MiB"),
		100*(cache+pipeline.GPUWeights(s.model, expertGPUs))/float64(s.machine.GPU.Memory.Value), reproduce.Gate{Absolute: 0.05}))
	section.Contradictions = []string{
		fmt.Sprintf("Ratio 1 is printed beside batches 52 and 13, but the other ratios follow from %.1f and %.1f requests that fit whole: with 52, those of batches 64, 96, 128 and 160 would be 0.78, 0.45, 0.29 and 0.19.", full, full/4),
		fmt.Sprintf("No GPU is named. %.1f requests of 32K take %s of latent and indexer cache, a 32nd of the routed experts and the rest of the weights %s: more than 96 GB together.", full,
			hardware.Bytes(cache), hardware.Bytes(pipeline.GPUWeights(s.model, expertGPUs))),
	}
	return []reproduce.Section{section}, nil
}

// largest is the batch that kvreplay plan finds for a context when nothing is offloaded.
func (s *study) largest(context int) (int, error) {
	gpu, err := pipeline.ParseSchedule("gpu")
	if err != nil {
		return 0, err
	}
	o := s.options(context)
	o.Steps = 1
	found, err := pipeline.Plan(s.ctx, []*pipeline.Profile{s.even(0, context)}, pipeline.PlanOptions{Options: o, Schedules: []pipeline.Schedule{gpu}, MaxBatch: 256})
	if err != nil {
		return 0, err
	}
	return found.Candidates[0].Batch, nil
}
