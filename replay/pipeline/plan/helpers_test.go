package plan

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/pipelinetest"
)

var near, scheduleOf, parts = pipelinetest.Near, pipelinetest.Schedule, pipelinetest.Parts

// realProfile replays a bundled trace and returns the profile's path.
func realProfile(t testing.TB) string {
	t.Helper()
	return pipelinetest.Replay(t, []string{"lru", "lookahead"})
}

// read returns the LRU cell of the profile at path.
func read(t testing.TB, path string) *pipeline.Profile {
	t.Helper()
	profiles, err := pipeline.ReadProfiles(t.Context(), path, []pipeline.Cell{{Policy: "lru", Capacity: "2x"}})
	fatal.If(t, err)
	return profiles[0]
}

// priceOptions returns options for a described model. The nearest profiled layer stands for each layer.
func priceOptions(t testing.TB, p *pipeline.Profile, machine *hardware.Machine, m *hardware.Model, text string) pipeline.Options {
	t.Helper()
	scaling, err := pipeline.NewScaling(p, m, "nearest", 0)
	fatal.If(t, err)
	selection, err := operator.ParseSelection("auto", m)
	fatal.If(t, err)
	return pipeline.Options{Machine: machine, Model: m, Scaling: scaling, Selection: selection, Schedule: scheduleOf(t, text), Batch: 1, Reserve: 0.1}
}

// options prices SmolLM2 on an H100.
func options(t testing.TB, p *pipeline.Profile, text string) pipeline.Options {
	t.Helper()
	machine, m := parts(t, "h100", "smollm2-135m")
	o := priceOptions(t, p, machine, m, text)
	o.Threads = 16
	return o
}

// decodes prices Llama 2 13B on an A100 of a host with much memory, for requests of some tokens.
func decodes(t *testing.T, tokens int64, batch int, text string) (*pipeline.Profile, pipeline.Options) {
	t.Helper()
	machine, m := parts(t, "a100-80", "llama-2-13b")
	own := *machine.Host // the paper's 256 GB are too small for large batches
	own.Memory.Value = 2e12
	with := *machine
	with.Host = &own
	step := []pipeline.Counts{{Positions: 1, SeqLen: tokens, Prompt: tokens}}
	p := &pipeline.Profile{Layers: []int32{0}, Heads: 1, Requests: []pipeline.Request{{Steps: [][]pipeline.Counts{step}}}}
	o := priceOptions(t, p, &with, m, text)
	o.Batch = batch
	return p, o
}

func priced(t testing.TB, p *pipeline.Profile, o pipeline.Options) *pipeline.Result {
	t.Helper()
	r, err := pipeline.Price(t.Context(), p, o)
	fatal.If(t, err)
	return r
}

// randomProfile returns a profile of random misses.
func randomProfile(r *rand.Rand, requests, layers int) *pipeline.Profile {
	setting := result.Setting{TopK: 256, Local: 1, BlockTokens: 1, SharedHeads: 1, StepTokens: 1}
	p := &pipeline.Profile{Meta: replay.ProfileMeta{Setting: setting}, Cell: pipeline.Cell{Policy: "lru", Capacity: "2x"}, Heads: 1}
	for i := range layers {
		p.Layers = append(p.Layers, int32(5*i))
	}
	for i := range requests {
		q := pipeline.Request{ID: fmt.Sprint(i), Steps: make([][]pipeline.Counts, layers)}
		for range 4 + r.IntN(4) {
			for l := range q.Steps {
				n, prompt := r.Int64N(200), 1000*int64(i+1)
				q.Steps[l] = append(q.Steps[l], pipeline.Counts{Demand: 256, Fetched: n, FetchedRuns: n/2 + n%2, Moved: n, Resident: 512 + n,
					Positions: 1, SeqLen: prompt + int64(len(q.Steps[l])), Prompt: prompt})
			}
		}
		p.Requests = append(p.Requests, q)
	}
	return p
}
