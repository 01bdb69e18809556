package ess

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// ratios are the Sparse Memory Ratios that are replayed.
var ratios = []float64{0.1, 0.2, 0.3, 0.4, 0.5}

// middle is the ratio of the paper's examples.
const middle = 0.2

// traced is a trace replayed with LRU at the ratios, after 32 prompt windows, and without
// them at the middle one. Ratios at which a cache does not hold one demand are left out.
type traced struct {
	name    string
	model   string
	context int // tokens of a prompt, the mean
	topk    int
	windows int
	layers  []int32
	at      map[float64]*misses
	cold    *misses
}

// misses are what a replay missed: shares of the demand, requests and heads pooled.
type misses struct {
	mean   float64
	layers []float64 // by layer
	steps  []float64 // by decode step, as far as all requests go
}

// pool pools a profile.
func pool(p *pipeline.Profile) *misses {
	m := &misses{layers: make([]float64, len(p.Layers))}
	steps := len(p.Requests[0].Steps[0])
	for i := range p.Requests {
		steps = min(steps, len(p.Requests[i].Steps[0]))
	}
	var missed, demand float64
	byStep := make([]float64, steps)
	for l := range p.Layers {
		var of, from float64
		for i := range p.Requests {
			for t := range p.Requests[i].Steps[l] {
				c := &p.Requests[i].Steps[l][t]
				of, from = of+float64(c.Misses), from+float64(c.Demand)
				if t < steps {
					m.addStep(byStep, t, c)
				}
			}
		}
		m.layers[l] = of / from
		missed, demand = missed+of, demand+from
	}
	for t := range m.steps {
		m.steps[t] /= byStep[t]
	}
	m.mean = missed / demand
	return m
}

// addStep adds counts to a step, whose demand is in demand.
func (m *misses) addStep(demand []float64, t int, c *pipeline.Counts) {
	if m.steps == nil {
		m.steps = make([]float64, len(demand))
	}
	m.steps[t] += float64(c.Misses)
	demand[t] += float64(c.Demand)
}

// trace replays a trace.
func (s *study) trace(o *source) (*traced, error) {
	t := &traced{name: o.name, model: cmp.Or(o.file.Meta().Model, "a model that is not stated"), topk: o.file.Meta().TopK, at: map[float64]*misses{}}
	sum := 0
	for i, info := range o.file.Streams() {
		sum += int(info.PromptLen)
		if t.windows = min(t.windows, info.Windows); i == 0 {
			t.windows = info.Windows
		}
	}
	t.context = sum / len(o.file.Streams())
	return t, s.fill(t, o)
}

// capacitiesOf are shares of the context.
func capacitiesOf(ratios []float64) (texts []string) {
	for _, r := range ratios {
		texts = append(texts, strconv.FormatFloat(r, 'g', -1, 64)+"ctx")
	}
	return texts
}

// fill replays it.
func (s *study) fill(t *traced, o *source) error {
	warmup := "cold"
	if t.windows > 0 {
		warmup = fmt.Sprintf("lru:%d", min(32, t.windows))
	}
	var kept []float64
	for _, r := range ratios {
		if r*float64(t.context) >= float64(t.topk) {
			kept = append(kept, r)
		}
	}
	if !slices.Contains(kept, middle) {
		return nil
	}
	profiles, err := s.replay(o, warmup, capacitiesOf(kept)...)
	if err != nil {
		return err
	}
	for i, p := range profiles {
		t.layers, t.at[kept[i]] = p.Layers, pool(p)
	}
	if t.windows == 0 {
		t.cold = t.at[middle]
		return nil
	}
	profiles, err = s.replay(o, "cold", capacitiesOf([]float64{middle})...)
	if err != nil {
		return err
	}
	t.cold = pool(profiles[0])
	return nil
}

// real replays the real traces of the exact selection at which the middle ratio holds a
// demand, in the order of their file names.
func (s *study) real() (list []*traced, err error) {
	for _, path := range slices.SortedFunc(slices.Values(s.in.Traces), func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) }) {
		o, err := s.open(path, strings.TrimSuffix(filepath.Base(path), ".parquet"))
		if err != nil {
			return nil, err
		}
		if m := o.file.Meta(); m.Synthetic() || m.Selector != "" && m.Selector != "exact" {
			continue
		}
		t, err := s.trace(o)
		if err != nil {
			return nil, err
		}
		if t.at[middle] != nil {
			list = append(list, t)
		}
	}
	return list, nil
}
