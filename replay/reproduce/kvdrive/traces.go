package kvdrive

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/trace"
)

// source is a real trace with what the sections choose by.
type source struct {
	*trace.File
	name     string
	selector string  // exact where the trace does not say
	budget   float64 // K, share of the prompt
	perHead  bool
	profiles map[string]*pipeline.Profile // of replays without changes, by policy and capacity
}

// The budgets of the paper's figures, as shares of the context: 1.56 % and 6.25 %.
const (
	small = 1. / 64
	large = 1. / 16
)

// near says whether the trace's budget is about one of the paper's.
func (f *source) near(budget float64) bool {
	return f.budget > budget/1.5 && f.budget < budget*1.5
}

// ranked says whether lists are in rank order and longer than the demand.
func (f *source) ranked() bool {
	return f.Meta().Order == trace.OrderRank && f.Meta().Candidates > f.Meta().TopK
}

// open opens the traces of which a figure can be made.
func (s *study) open(in reproduce.Inputs) (err error) {
	if s.dir, err = os.MkdirTemp("", "kvreplay-kvdrive-"); err != nil {
		return fmt.Errorf("kvdrive: %w", err)
	}
	for _, path := range in.Traces {
		file, err := trace.Open(path)
		if err != nil {
			s.close()
			return err
		}
		if len(file.Streams()) == 0 {
			file.Close()
			continue
		}
		m, info := file.Meta(), file.Streams()[0]
		f := &source{File: file, name: strings.TrimSuffix(filepath.Base(path), ".parquet"), selector: m.Selector, perHead: info.Key.Head != trace.NoHead, profiles: map[string]*pipeline.Profile{}}
		if f.selector == "" {
			f.selector = "exact"
		}
		if n := info.PromptLen; n > 0 {
			f.budget = float64(m.TopK*m.BlockTokens) / float64(n)
		}
		s.traces = append(s.traces, f)
	}
	return nil
}

func (s *study) close() {
	for _, f := range s.traces {
		f.Close()
	}
	os.RemoveAll(s.dir)
}

// which are the traces that a condition holds for.
func (s *study) which(holds func(*source) bool) (found []*source) {
	for _, f := range s.traces {
		if holds(f) {
			found = append(found, f)
		}
	}
	return found
}

// exactNear are traces of the exact Top-K at about a budget.
func (s *study) exactNear(budget float64) []*source {
	return s.which(func(f *source) bool { return f.selector == "exact" && f.near(budget) })
}

// namesOf lists traces.
func namesOf(files []*source) string {
	var names []string
	for _, f := range files {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

// about says what the traces are of, which is why their figures can differ from the paper's:
// models, prompts and K.
func about(files ...*source) string {
	var models []string
	tokens, demand := [2]int{1 << 30, 0}, [2]int{1 << 30, 0}
	for _, f := range files {
		m := f.Meta()
		if name := cmp.Or(m.Model, "a model that is not named"); !slices.Contains(models, name) {
			models = append(models, name)
		}
		k := m.TopK * m.BlockTokens
		demand = [2]int{min(demand[0], k), max(demand[1], k)}
		for _, info := range f.Streams() {
			tokens = [2]int{min(tokens[0], int(info.PromptLen)), max(tokens[1], int(info.PromptLen))}
		}
	}
	return fmt.Sprintf("%s, prompts of %s tokens, K of %s", strings.Join(models, ", "), span(tokens), span(demand))
}

// span writes a range.
func span(v [2]int) string {
	if v[0] == v[1] {
		return strconv.Itoa(v[0])
	}
	return fmt.Sprintf("%d to %d", v[0], v[1])
}

// noTrace is the line of a section that lacks traces.
func noTrace(what string) reproduce.Line {
	return reproduce.Absent("none of the traces will do", "", reproduce.Target{}, "needs "+what+". Name some with --traces")
}

// options are those of a replay of some policies at some capacities.
func options(names, capacities []string) (o replay.Options, err error) {
	o = replay.Options{Workers: runtime.GOMAXPROCS(0)}
	for _, name := range names {
		spec, err := all.Table().Parse(name)
		if err != nil {
			return o, err
		}
		o.Policies = append(o.Policies, spec)
	}
	if len(capacities) > 0 {
		if o.Capacities, err = replay.ParseCapacities(capacities); err != nil {
			return o, err
		}
	}
	o.Warmup, err = replay.ParseWarmup("auto")
	return o, err
}

// rows replays a trace.
func (s *study) rows(f *source, o replay.Options) ([]result.Row, error) {
	r, err := replay.Run(s.ctx, f.File, o)
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", f.name, err)
	}
	return r.Rows, nil
}

// count is what rows of one cell add up to.
type count struct{ demand, misses, moved int64 }

func (c *count) add(r *result.Row) {
	c.demand += r.Demand
	c.misses += r.Misses
	c.moved += r.MovedEntries
}

// hit is the share of the demand that was resident.
func (c count) hit() float64 { return 1 - float64(c.misses)/float64(c.demand) }

// counts replays traces and pools their counts by policy.
func (s *study) counts(files []*source, names, capacities []string) (map[string]count, error) {
	o, err := options(names, capacities)
	if err != nil {
		return nil, err
	}
	pooled := map[string]count{}
	for _, f := range files {
		rows, err := s.rows(f, o)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			c := pooled[rows[i].Policy]
			c.add(&rows[i])
			pooled[rows[i].Policy] = c
		}
	}
	return pooled, nil
}

// profile replays a trace with one policy, once, and reads the profile back. What change
// makes of the options is replayed each time.
func (s *study) profile(f *source, policy, capacity string, change func(*replay.Options) error) (p *pipeline.Profile, err error) {
	if change != nil {
		return s.replayed(f, policy, capacity, change)
	}
	key := policy + " " + capacity
	if f.profiles[key] == nil {
		f.profiles[key], err = s.replayed(f, policy, capacity, func(*replay.Options) error { return nil })
	}
	return f.profiles[key], err
}

func (s *study) replayed(f *source, policy, capacity string, change func(*replay.Options) error) (*pipeline.Profile, error) {
	var capacities []string
	if capacity != "" {
		capacities = []string{capacity}
	}
	o, err := options([]string{policy}, capacities)
	if err != nil {
		return nil, err
	}
	if err := change(&o); err != nil {
		return nil, err
	}
	path := filepath.Join(s.dir, "profile.parquet")
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	p, err := replay.CreateProfile(path, false)
	if err != nil {
		return nil, err
	}
	defer p.Abort()
	o.Profile = p
	if _, err := s.rows(f, o); err != nil {
		return nil, err
	}
	if err := p.Close(); err != nil {
		return nil, err
	}
	return pipeline.ReadProfile(s.ctx, path, pipeline.Cell{Policy: o.Policies[0].Name(), Capacity: capacity})
}
