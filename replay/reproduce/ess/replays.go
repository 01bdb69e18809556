package ess

import (
	"fmt"
	"math"
	"path/filepath"
	"runtime"

	"github.com/kvreplay/kvreplay/datasets/synthetic"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/trace"
)

// synthetic is the trace of the DeepSeek presets at a context, drawn once.
func (s *study) synthetic(context int) (*source, error) {
	path := filepath.Join(s.dir, fmt.Sprintf("synthetic-%d.parquet", context))
	if o := s.sources[path]; o != nil {
		return o, nil
	}
	name := "deepseek-v3.2-32k"
	if context > short {
		name = "deepseek-v3.2-128k" // the same dials
	}
	d, err := synthetic.Preset(name)
	if err != nil {
		return nil, err
	}
	d.Context, d.Candidates = context, d.TopK // LRU sees no candidates
	if s.in.Short {
		d.Steps = 48
	}
	if err := synthetic.Write(s.ctx, path, d, synthetic.Options{}); err != nil {
		return nil, err
	}
	return s.open(path, fmt.Sprintf("synthetic %dK", context>>10))
}

// source is an open trace, and what it was replayed to.
type source struct {
	name     string
	file     *trace.File
	profiles map[string]*pipeline.Profile // by warm-up, positions of a step and capacity
}

// open opens a trace once.
func (s *study) open(path, name string) (*source, error) {
	if o := s.sources[path]; o != nil {
		return o, nil
	}
	f, err := trace.Open(path)
	if err != nil {
		return nil, err
	}
	o := &source{name, f, map[string]*pipeline.Profile{}}
	s.sources[path] = o
	return o, nil
}

// close closes what was opened.
func (s *study) close() {
	for _, o := range s.sources {
		o.file.Close()
	}
}

// replay replays a trace with LRU at some capacities, each once. The profiles are in the
// order of the capacities.
func (s *study) replay(o *source, warmup string, capacities ...string) ([]*pipeline.Profile, error) {
	return s.joined(o, warmup, 1, capacities...)
}

// joined replays a trace as replay does, with the demand of several positions joined to one
// step (kvreplay replay --mtp).
func (s *study) joined(o *source, warmup string, positions int, capacities ...string) (profiles []*pipeline.Profile, err error) {
	key := func(capacity string) string { return fmt.Sprintf("%s %d %s", warmup, positions, capacity) }
	var open []string
	for _, c := range capacities {
		if o.profiles[key(c)] == nil {
			open = append(open, c)
		}
	}
	if len(open) > 0 {
		fresh, err := s.run(o, warmup, positions, open)
		if err != nil {
			return nil, err
		}
		for i, c := range open {
			o.profiles[key(c)] = fresh[i]
		}
	}
	for _, c := range capacities {
		profiles = append(profiles, o.profiles[key(c)])
	}
	return profiles, nil
}

func (s *study) run(of *source, warmup string, positions int, capacities []string) (profiles []*pipeline.Profile, err error) {
	o := replay.Options{Policies: []policies.Spec{s.lru}, Workers: runtime.GOMAXPROCS(0), Shape: replay.Shape{StepTokens: positions}}
	if o.Warmup, err = replay.ParseWarmup(warmup); err != nil {
		return nil, err
	}
	if o.Capacities, err = replay.ParseCapacities(capacities); err != nil {
		return nil, err
	}
	out := filepath.Join(s.dir, "replayed.parquet")
	p, err := replay.CreateProfile(out, false)
	if err != nil {
		return nil, err
	}
	defer p.Abort()
	o.Profile = p
	if _, err := replay.Run(s.ctx, of.file, o); err != nil {
		return nil, err
	}
	if err := p.Close(); err != nil {
		return nil, err
	}
	var cells []pipeline.Cell
	for _, c := range capacities {
		cells = append(cells, pipeline.Cell{Policy: s.lru.Name(), Capacity: c})
	}
	return pipeline.ReadProfiles(s.ctx, out, cells)
}

// even is a profile of one step in which every layer misses the same number of blocks, 0
// to K.
func (s *study) even(misses, context int) *pipeline.Profile {
	return s.uneven(func(int) float64 { return float64(misses) }, context)
}

// uneven is a profile of one step, with the blocks that each layer misses.
func (s *study) uneven(misses func(layer int) float64, context int) *pipeline.Profile {
	k := int64(s.model.Indexer.TopK.Value)
	p := &pipeline.Profile{Heads: 1, Cell: pipeline.Cell{Policy: "lru"}, Meta: replay.ProfileMeta{Setting: result.Setting{TopK: int(k)}, Schema: replay.ProfileSchema}}
	var steps [][]pipeline.Counts
	for i := range int32(s.model.Layers.Value) {
		n := int64(math.Round(misses(int(i))))
		p.Layers = append(p.Layers, i)
		steps = append(steps, []pipeline.Counts{{Demand: k, Misses: n, Runs: n, Moved: n, Resident: k, Positions: 1, SeqLen: int64(context), Prompt: int64(context)}})
	}
	p.Requests = []pipeline.Request{{ID: "even", Steps: steps}}
	return p
}
