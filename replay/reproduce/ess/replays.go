package ess

import (
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/kvreplay/kvreplay/datasets/synthetic"
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
	profiles map[string]*pipeline.Profile // by warm-up and capacity
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

// replay replays a trace with LRU at some capacities, each once; the profiles are in their
// order.
func (s *study) replay(o *source, warmup string, capacities ...string) (profiles []*pipeline.Profile, err error) {
	var open []string
	for _, c := range capacities {
		if o.profiles[warmup+" "+c] == nil {
			open = append(open, c)
		}
	}
	if len(open) > 0 {
		if err := s.run(o, warmup, open); err != nil {
			return nil, err
		}
	}
	for _, c := range capacities {
		profiles = append(profiles, o.profiles[warmup+" "+c])
	}
	return profiles, nil
}

func (s *study) run(of *source, warmup string, capacities []string) (err error) {
	o := replay.Options{Policies: []policies.Spec{s.lru}, Workers: runtime.GOMAXPROCS(0)}
	if o.Warmup, err = replay.ParseWarmup(warmup); err != nil {
		return err
	}
	if o.Capacities, err = replay.ParseCapacities(capacities); err != nil {
		return err
	}
	out := filepath.Join(s.dir, "replayed.parquet")
	p, err := replay.CreateProfile(out, false)
	if err != nil {
		return err
	}
	defer p.Abort()
	o.Profile = p
	if _, err := replay.Run(s.ctx, of.file, o); err != nil {
		return err
	}
	if err := p.Close(); err != nil {
		return err
	}
	var cells []pipeline.Cell
	for _, c := range capacities {
		cells = append(cells, pipeline.Cell{Policy: s.lru.Name(), Capacity: c})
	}
	profiles, err := pipeline.ReadProfiles(s.ctx, out, cells)
	for i, p := range profiles {
		of.profiles[warmup+" "+capacities[i]] = p
	}
	return err
}

// even is a profile of one step whose layers all miss so many blocks, 0 to K.
func (s *study) even(misses, context int) *pipeline.Profile {
	k := int64(s.model.Indexer.TopK.Value)
	p := &pipeline.Profile{Heads: 1, Cell: pipeline.Cell{Policy: "lru"}, Meta: replay.ProfileMeta{Schema: replay.ProfileSchema, TopK: int(k)}}
	one := pipeline.Counts{Demand: k, Misses: int64(misses), Runs: int64(misses), Moved: int64(misses), Resident: k, Positions: 1, SeqLen: int64(context), Prompt: int64(context)}
	var steps [][]pipeline.Counts
	for i := range int32(s.model.Layers.Value) {
		p.Layers = append(p.Layers, i)
		steps = append(steps, []pipeline.Counts{one})
	}
	p.Requests = []pipeline.Request{{ID: "even", Steps: steps}}
	return p
}
