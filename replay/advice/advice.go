package advice

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/optional"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/plan"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// Version is the version of Advice's JSON form.
const Version = 1

// The policy and schedule of the serving engines for which advice has options. They evict the entry
// that was selected longest ago, and fetch misses between selection and attention (engines.go).
const (
	EnginePolicy   = "lru"
	EngineSchedule = "sequential"
)

// everything is the schedule with all KV on the GPU.
const everything = "gpu"

// Question is what a user wants to know about one machine.
type Question struct {
	// Options are those of the plan. Advise sets EveryCell.
	plan.Options
	// Rows are the rows of the replay by request, of all cells.
	Rows []result.Row
	// Trace names the replayed trace, and Bundled is true if it came with kvreplay.
	Trace   string
	Bundled bool
	// Dollars is the price of a GPU for an hour, 0 if it is not known.
	Dollars float64
}

// Choice is one configuration.
type Choice struct {
	Schedule string `json:"schedule"`
	// Policy and Capacity are empty if all KV is on the GPU.
	pipeline.Cell
	// Entries is the number of tokens that the cache holds, of a request and layer. It is at most the
	// context. Share is that number ÷ the context, and Bytes the memory of a request in all layers. All are 0 if all KV is on
	// the GPU. JSON then has none of them.
	Entries int     `json:"cache_tokens,omitempty"`
	Share   float64 `json:"cache_share,omitempty"`
	Bytes   float64 `json:"cache_bytes_request,omitempty"`
	Batch   int     `json:"batch"`
	// Experts is the number of GPUs that share routed experts.
	Experts int `json:"expert_gpus"`
	// Tokens is per GPU.
	Tokens float64      `json:"tokens_per_s_gpu"`
	TPOT   float64      `json:"tpot_s"`
	Low    float64      `json:"tpot_low_s"`
	High   float64      `json:"tpot_high_s"`
	Limit  plan.Binding `json:"bound_by"`
	// Cause is the largest part of a step, and CauseShare its share.
	Cause      string  `json:"largest_cause"`
	CauseShare float64 `json:"largest_cause_share"`
	// Host is the host memory of one GPU's batch, in bytes.
	Host float64 `json:"host_bytes_gpu"`
}

// Gain is what another policy than LRU buys, with the same schedule and capacity.
type Gain struct {
	Policy string `json:"policy"`
	// Tokens is the policy's tokens/s ÷ LRU's. Low and High are the range that the errors of the time
	// model allow, null without an upper end.
	Tokens float64  `json:"tokens_ratio"`
	Low    float64  `json:"tokens_ratio_low"`
	High   *float64 `json:"tokens_ratio_high"`
	// Misses is the policy's misses ÷ LRU's, with the 95 % interval over the requests. Its ends are null
	// if the requests are too few.
	Misses   *board.Figure `json:"misses_ratio"`
	Requests int           `json:"requests"`
	// Better is true if the errors of the model and the requests both separate the policy from LRU.
	Better bool `json:"better"`
	// Reason says why Better is false.
	Reason string `json:"reason,omitempty"`
}

// Advice is the answer for one machine.
type Advice struct {
	Machine string   `json:"machine"`
	Model   string   `json:"model"`
	Context int64    `json:"context"`
	TopK    int      `json:"top_k"`
	SLO     *float64 `json:"slo_s"`
	// Labels are the conditions that limit the figures.
	Labels result.Labels `json:"labels"`
	// Advised is the configuration with most tokens/s, and the simplest of those that tie with it.
	Advised Choice `json:"advised"`
	// Tied lists configurations of the first rank that tie with it.
	Tied []pipeline.Cell `json:"tied"`
	// Gain compares the best other policy with LRU. It is null if no other policy ran or no cache is advised.
	Gain *Gain `json:"gain_over_lru"`
	// Served is the best configuration that serving engines run: LRU, and fetches that wait. It is null
	// if none fits and meets the SLO. Refused says why.
	Served  *Choice `json:"served"`
	Refused string  `json:"served_refused,omitempty"`
	// Resident keeps all KV on the GPU, and Dense also attends to all of it. Both are null if they do
	// not fit or miss the SLO.
	Resident *Choice `json:"all_on_gpu"`
	Dense    *Choice `json:"dense"`
	// DollarsPerMillion is the price of a million tokens, null if the price of the GPU is not known.
	DollarsPerMillion *float64 `json:"dollars_per_million_tokens"`
	Engines           []Engine `json:"engines"`
	// Confidence is low, medium or high, for the Reasons.
	Confidence string   `json:"confidence"`
	Reasons    []string `json:"reasons"`
	Notes      []string `json:"notes"`
}

// Advise plans and answers.
func Advise(ctx context.Context, profiles []*pipeline.Profile, q Question) (*Advice, error) {
	q.EveryCell = true
	found, err := plan.Search(ctx, profiles, q.Options)
	if err != nil {
		return nil, err
	}
	return of(found, profiles[0], &q)
}

// of answers from a plan.
func of(found *plan.Plan, profile *pipeline.Profile, q *Question) (*Advice, error) {
	a := &Advice{Machine: found.Machine, Model: found.Model, Context: q.Context, SLO: found.SLO, Tied: []pipeline.Cell{}}
	scaling, err := pipeline.NewScaling(profile, q.Model, q.LayerMap, q.TopK)
	if err != nil {
		return nil, err
	}
	a.TopK = scaling.TopK
	var sparse []*plan.Candidate // in rank order
	for i := range found.Candidates {
		c := &found.Candidates[i]
		switch {
		case c.Oracle:
		case c.Serves == schedule.SparseTopK:
			sparse = append(sparse, c)
		case scheduleName(c.Schedule) == "dense" && a.Dense == nil:
			a.Dense = new(q.choice(c, a))
		}
	}
	if len(sparse) == 0 {
		return nil, errors.New("no configuration with Top-K attention fits and meets the SLO: see kvreplay plan")
	}
	a.Labels = sparse[0].Labels
	best, ties := preferred(sparse)
	if name := best.Policy; name != "" && name != EnginePolicy {
		if g := q.gain(best, sparse); g != nil && !g.Better { // the requests do not separate it from LRU
			if best = same(sparse, best, true); best.Policy != EnginePolicy {
				best = sparse[max(0, slices.IndexFunc(sparse, func(c *plan.Candidate) bool { return c.Policy == EnginePolicy }))]
			}
		}
	}
	a.Advised = q.choice(best, a)
	for _, c := range ties {
		_, low, high := c.Against(best.Result) // the requests may have replaced the first by LRU
		if low <= 1 && high >= 1 && c.Cell != best.Cell && c.Policy != "" && !slices.Contains(a.Tied, c.Cell) {
			a.Tied = append(a.Tied, c.Cell)
		}
	}
	if best.Policy != "" {
		a.Gain = q.gain(best, sparse)
	}
	for _, c := range sparse {
		choice := q.choice(c, a)
		switch {
		case c.Policy == EnginePolicy && scheduleName(c.Schedule) == EngineSchedule && a.Served == nil:
			a.Served = &choice
		case c.Schedule == everything:
			a.Resident = &choice
		}
	}
	if a.Served == nil {
		a.Refused = refused(found)
	}
	if q.Dollars > 0 {
		a.DollarsPerMillion = new(text.Round(q.Dollars/3600/a.Advised.Tokens*1e6, 4))
	}
	a.Engines = q.engines(a)
	a.Confidence, a.Reasons = q.confidence(profile, a)
	a.Notes = best.Notes
	return a, nil
}

// preferred returns the simplest candidate of those that tie with the first, and all of these. All KV
// on the GPU is simpler than a cache, LRU is simpler than another policy, and of the rest the first
// counts.
func preferred(sparse []*plan.Candidate) (best *plan.Candidate, ties []*plan.Candidate) {
	ties = slice.Filter(sparse, func(c *plan.Candidate) bool { return c.Rank == sparse[0].Rank })
	for _, simple := range []func(*plan.Candidate) bool{
		func(c *plan.Candidate) bool { return c.Schedule == everything },
		func(c *plan.Candidate) bool { return c.Policy == EnginePolicy },
	} {
		if i := slices.IndexFunc(ties, simple); i >= 0 {
			return ties[i], ties
		}
	}
	return ties[0], ties
}

// same returns the first candidate of LRU, or of another policy, at the schedule and capacity of c. If
// there is none, it returns c.
func same(sparse []*plan.Candidate, c *plan.Candidate, lru bool) *plan.Candidate {
	for _, o := range sparse {
		if (o.Policy == EnginePolicy) == lru && o.Capacity == c.Capacity && scheduleName(o.Schedule) == scheduleName(c.Schedule) {
			return o
		}
	}
	return c
}

// scheduleName returns a schedule without its options, of which some depend on the misses.
func scheduleName(schedule string) string {
	name, _, _ := strings.Cut(schedule, ":")
	return name
}

// fewestRequests is the least number of requests with which a paired permutation test can reach p < 0.05,
// because 2 ÷ 2⁶ is below.
const fewestRequests = 6

// gain compares the best other policy with LRU at the schedule and capacity of c. If c is of another
// policy, it is that one. The result is nil if one of the two has no candidate.
func (q *Question) gain(c *plan.Candidate, sparse []*plan.Candidate) *Gain {
	lru, other := same(sparse, c, true), c
	if other.Policy == EnginePolicy {
		other = same(sparse, c, false)
	}
	if lru.Policy != EnginePolicy || other.Policy == EnginePolicy {
		return nil
	}
	g := &Gain{Policy: other.Policy}
	var high float64
	g.Tokens, g.Low, high = other.Against(lru.Result)
	if !math.IsInf(high, 1) {
		g.High = &high
	}
	better := q.misses(g, c.Capacity)
	switch {
	case g.Low <= 1:
		g.Reason = "the errors of the time model may hide the difference"
	case !better:
		g.Reason = "the requests do not separate the two"
		if g.Requests > 0 && g.Requests < fewestRequests {
			g.Reason += fmt.Sprintf(": a test needs %d, and the trace has %d", fewestRequests, g.Requests)
		}
	default:
		g.Better = true
	}
	return g
}

// misses sets the ratio of misses. It reports whether the requests show that the policy misses less.
func (q *Question) misses(g *Gain, capacity string) bool {
	rows := slice.Filter(q.Rows, func(r result.Row) bool {
		return r.Capacity != nil && *r.Capacity == capacity && (r.Policy == g.Policy || r.Policy == EnginePolicy)
	})
	c, err := board.Compare(rows, g.Policy, EnginePolicy, board.Options{})
	if err != nil || len(c.Groups) == 0 || c.Groups[0].Pooled == nil {
		return false // rows that cannot be compared separate nothing
	}
	pooled := c.Groups[0].Pooled
	g.Misses = pooled.Ratio
	if pooled.Requests != nil {
		g.Requests = pooled.Requests.Count
	}
	return pooled.Better != nil && *pooled.Better == g.Policy
}

// choice describes a candidate.
func (q *Question) choice(c *plan.Candidate, a *Advice) Choice {
	r := Choice{Schedule: c.Schedule, Cell: c.Cell, Batch: c.Batch, Experts: c.Experts, Tokens: c.Tokens, TPOT: c.TPOT, Low: c.Interval.Low, High: c.Interval.High, Limit: c.Binding}
	r.Cause, r.CauseShare = c.LargestCause()
	r.Host = c.Memory.Host / float64(q.Machine.GPUs)
	if n, ok := multiple(c.Capacity); ok {
		r.Entries = int(math.Round(min(n*float64(a.TopK), float64(q.Context))))
		r.Share = text.Round(float64(r.Entries)/float64(q.Context), 4)
		r.Bytes = float64(r.Entries) * float64(q.Model.Entry.Value) * float64(q.Model.Layers.Value)
	}
	return r
}

// multiple reads a capacity that is a multiple of K, "2x".
func multiple(capacity string) (n float64, ok bool) {
	text, ok := strings.CutSuffix(capacity, "x")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && n > 0
}

// CheckCapacities refuses capacities that are no multiples of K, because only those scale to the model.
func CheckCapacities(texts []string) error {
	for _, text := range texts {
		if n, ok := multiple(text); !ok || n < 1 {
			return fmt.Errorf("capacity %s: expected a multiple of K of at least 1x, as in 2x", text)
		}
	}
	return nil
}

// refused returns why no candidate has the policy and schedule of the engines.
func refused(plan *plan.Plan) string {
	reason, fastest := "its policy or schedule was not planned", math.Inf(1)
	for _, d := range plan.Dropped {
		if scheduleName(d.Schedule) != EngineSchedule || d.Policy != EnginePolicy {
			continue
		}
		tpot := optional.Or(d.FastestTPOT, math.Inf(1))
		if tpot < fastest || math.IsInf(fastest, 1) {
			reason, fastest = d.Reason+" ("+d.Cell.String()+")", tpot
		}
	}
	return reason
}
