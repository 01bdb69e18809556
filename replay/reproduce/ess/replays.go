package ess

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/kvreplay/kvreplay/datasets/synthetic"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/trace"
)

// synthetic is the trace of the DeepSeek presets at a context, drawn once.
func (s *study) synthetic(context int) (path string, err error) {
	if path = s.drawn[context]; path != "" {
		return path, nil
	}
	name := "deepseek-v3.2-32k"
	if context > short {
		name = "deepseek-v3.2-128k" // the same dials
	}
	d, err := synthetic.Preset(name)
	if err != nil {
		return "", err
	}
	d.Context, d.Candidates = context, d.TopK // LRU sees no candidates
	if s.in.Short {
		thin(d)
	}
	path = filepath.Join(s.dir, fmt.Sprintf("synthetic-%d.parquet", context))
	if err := synthetic.Write(s.ctx, path, d, synthetic.Options{}); err != nil {
		return "", err
	}
	s.drawn[context] = path
	return path, nil
}

// thin leaves every fifth layer, whose streams stay what they are.
func thin(d *synthetic.Dials) {
	by := map[string]synthetic.Values{}
	d.LayerIDs = nil
	for i := 0; i < d.Layers; i += 5 {
		d.LayerIDs = append(d.LayerIDs, int32(i))
		for name, values := range d.ByLayer {
			by[name] = append(by[name], values[i])
		}
	}
	d.Layers, d.ByLayer = len(d.LayerIDs), by
}

// replay replays a trace with LRU at some capacities; the profiles are in their order.
func (s *study) replay(path, warmup string, capacities ...string) (profiles []*pipeline.Profile, err error) {
	f, err := trace.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	o := replay.Options{Policies: []policies.Spec{s.lru}, Workers: runtime.GOMAXPROCS(0)}
	if o.Warmup, err = replay.ParseWarmup(warmup); err != nil {
		return nil, err
	}
	if o.Capacities, err = replay.ParseCapacities(capacities); err != nil {
		return nil, err
	}
	out := filepath.Join(s.dir, fmt.Sprintf("%s.%s.profile.parquet", filepath.Base(path), strings.ReplaceAll(warmup, ":", "-")))
	p, err := replay.CreateProfile(out, false)
	if err != nil {
		return nil, err
	}
	defer p.Abort()
	o.Profile = p
	if _, err := replay.Run(s.ctx, f, o); err != nil {
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
