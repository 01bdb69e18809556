package reproduce

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/plan"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/trace"
)

// Machine returns a bundled machine, the same one for the same name. So its network is fitted once. The
// caller must not change it.
func (s *Study) Machine(name string) *hardware.Machine { return Must(s.machine(name)) }

// Model returns a bundled model.
func (s *Study) Model(name string) *hardware.Model { return Must(s.Library.Model(name)) }

// Trace is an open trace with the profiles of its replays.
type Trace struct {
	*trace.File
	Name     string // file name without extension
	profiles map[profileKey]*pipeline.Profile
}

type profileKey struct {
	replay   Replay
	capacity string
}

// Open opens a trace once. The study closes it.
func (s *Study) Open(path string) *Trace {
	if s.traces[path] == nil {
		name := strings.TrimSuffix(filepath.Base(path), ".parquet")
		s.traces[path] = &Trace{Must(trace.Open(path)), name, map[profileKey]*pipeline.Profile{}}
	}
	return s.traces[path]
}

// DrawTrace draws a synthetic trace with the dials of a preset once.
func (s *Study) DrawTrace(preset, name string, steps int) *Trace {
	if s.folder == "" {
		s.folder = Must(os.MkdirTemp("", "kvreplay-"+s.paper.Name+"-"))
	}
	path := filepath.Join(s.folder, preset+".parquet")
	if s.traces[path] == nil {
		if s.Synthetic == nil {
			Check(errors.New("the inputs have no maker of synthetic traces"))
		}
		Check(s.Synthetic(s.Context, path, preset, steps))
		s.Open(path).Name = name
	}
	return s.traces[path]
}

// Options returns those of `kvreplay replay` for some policies at some capacities.
func (s *Study) Options(policies, capacities []string, warmup string) replay.Options {
	o := replay.Options{Workers: runtime.GOMAXPROCS(0), Warmup: Must(replay.ParseWarmup(warmup))}
	for _, name := range policies {
		o.Policies = append(o.Policies, Must(all.Table().Parse(name)))
	}
	if len(capacities) > 0 {
		o.Capacities = Must(replay.ParseCapacities(capacities))
	}
	return o
}

// Replay replays a trace, as `kvreplay replay` does.
func (s *Study) Replay(t *Trace, o replay.Options) []result.Row {
	r, err := replay.Run(s.Context, t.File, o)
	if err != nil {
		Check(fmt.Errorf("replay %s: %w", t.Name, err))
	}
	return r.Rows
}

// Replay is a replay that writes a profile.
type Replay struct {
	Policy string
	Warmup string // empty for auto
	Tier   string // tier below the GPU, empty for none
	Shape  replay.Shape
}

// Profiles returns the profiles of a replay, in the order of the capacities. Each is replayed once.
func (s *Study) Profiles(t *Trace, r Replay, capacities ...string) (profiles []*pipeline.Profile) {
	missing := slice.Filter(capacities, func(c string) bool { return t.profiles[profileKey{r, c}] == nil })
	if len(missing) > 0 {
		for i, p := range s.profile(t, r, missing) {
			t.profiles[profileKey{r, missing[i]}] = p
		}
	}
	return slice.Map(capacities, func(c string) *pipeline.Profile { return t.profiles[profileKey{r, c}] })
}

// profile returns the profiles of a replay. A policy without capacity has an empty one.
func (s *Study) profile(t *Trace, r Replay, capacities []string) []*pipeline.Profile {
	given := capacities
	if capacities[0] == "" {
		given = nil
	}
	o := s.Options([]string{r.Policy}, given, cmp.Or(r.Warmup, "auto"))
	o.Shape = r.Shape
	if r.Tier != "" {
		o.Tiers = []replay.Tier{Must(replay.ParseTier(all.Table(), r.Tier))}
	}
	var profiles []*pipeline.Profile
	job, err := replay.Plan(t.File, o)
	if err == nil {
		_, profiles, err = pipeline.Replay(s.Context, job)
	}
	if err != nil {
		Check(fmt.Errorf("replay %s: %w", t.Name, err))
	}
	return slice.Map(capacities, func(c string) *pipeline.Profile { // a replay orders them by size
		return profiles[slices.IndexFunc(profiles, func(p *pipeline.Profile) bool { return p.Cell.Capacity == c })]
	})
}

// Price returns the output of `kvreplay time` for a profile. An empty selection means auto. The
// kernel model and the engine are the default ones unless the options have others, such as
// kernel.None.
func (s *Study) Price(p *pipeline.Profile, order, selection string, o pipeline.Options) *pipeline.Result {
	s.useDefaults(&o)
	o.Schedule = Must(schedule.Parse(order))
	o.Selection = Must(operator.ParseSelection(cmp.Or(selection, "auto"), o.Model))
	r, err := pipeline.Price(s.Context, p, o)
	if err != nil {
		Check(fmt.Errorf("%s, batch %d: %w", order, o.Batch, err))
	}
	return r
}

// Plan returns the first choice of `kvreplay plan` for a profile.
func (s *Study) Plan(p *pipeline.Profile, order, selection string, o plan.Options) *plan.Candidate {
	o.Schedule = Must(schedule.Parse(order))
	o.Selection = Must(operator.ParseSelection(cmp.Or(selection, "auto"), o.Model))
	o.Schedules = []schedule.Schedule{o.Schedule}
	s.useDefaults(&o.Options)
	return &Must(plan.Search(s.Context, []*pipeline.Profile{p}, o)).Candidates[0]
}

// Engine returns an engine of `kvreplay time --engine`.
func (s *Study) Engine(name string) *operator.Engine { return Must(operator.ParseEngine(name)) }

func (s *Study) useDefaults(o *pipeline.Options) {
	if o.Kernels == nil {
		o.Kernels = s.Kernels
	}
	o.Network = s.network
	o.Engine = cmp.Or(o.Engine, s.Engine(operator.DefaultEngine))
}

// Request is one decode step of each layer of one request, for papers that state counts instead of
// traces.
type Request struct {
	Context  int64 // cached tokens
	Demand   int64 // blocks that attention reads, all heads of a layer
	Misses   int64 // missed blocks, moved one by one
	Resident int64 // blocks that the GPU keeps after the step
	Block    int64 // tokens in a block, 0 for 1
}

// Profile returns a profile with the request in every layer and head of a model. The scaling maps
// it to the model.
func (r Request) Profile(m *hardware.Model) (*pipeline.Profile, *pipeline.Scaling) {
	heads := max(1, int64(m.KVHeads.Value))
	if m.Latent != nil {
		heads = 1
	}
	block := max(1, r.Block)
	counts := pipeline.Counts{Demand: r.Demand, Fetched: r.Misses, FetchedRuns: r.Misses, Moved: r.Misses * block, Resident: r.Resident,
		Positions: 1, SeqLen: r.Context, Prompt: r.Context}
	p := &pipeline.Profile{Meta: replay.ProfileMeta{Setting: result.Setting{TopK: int(max(1, r.Demand/heads)), BlockTokens: int(r.Block)}},
		Layers: []int32{0}, Heads: int(heads),
		Requests: []pipeline.Request{{Steps: [][]pipeline.Counts{{counts}}}}}
	return p, Must(pipeline.NewScaling(p, m, "nearest", 0))
}
