package pipeline

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// Result holds the times and bytes of a batch.
type Result struct {
	Machine  string `json:"machine"`
	Model    string `json:"model"`
	Schedule string `json:"schedule"`
	Cell
	// Requests are those that Decoding describes, empty for the cell of a replay.
	Requests string `json:"requests,omitempty"`
	// Labels are the conditions that limit the figures.
	Labels  result.Labels `json:"labels"`
	Batch   int           `json:"batch"`
	Steps   int           `json:"steps"`
	Experts int           `json:"expert_gpus"`
	// TensorParallel is the number of GPUs that decode the batch together.
	TensorParallel int `json:"tensor_parallel"`
	// PipelineParallel is the number of GPUs that divide the layers.
	PipelineParallel int     `json:"pipeline_parallel"`
	Accept           float64 `json:"tokens_per_step"`

	Mean   float64 `json:"step_mean_s"`
	P50    float64 `json:"step_p50_s"`
	P95    float64 `json:"step_p95_s"`
	P99    float64 `json:"step_p99_s"`
	TPOT   float64 `json:"tpot_s"`               // mean step ÷ tokens per step
	OTPS   float64 `json:"tokens_per_s_request"` // 1 ÷ TPOT
	Tokens float64 `json:"tokens_per_s_gpu"`     // of the whole batch, ÷ TensorParallel and PipelineParallel
	// Interval is the range of TPOT that the errors of the model allow.
	Interval Interval `json:"tpot_interval"`
	// Causes divides the mean step.
	Causes schedule.Exposure `json:"exposed_s"`
	H2D    float64           `json:"h2d_bytes_per_step"` // of the whole batch, all layers
	D2H    float64           `json:"d2h_bytes_per_step"`
	SSD    float64           `json:"ssd_bytes_per_step"`
	Pieces float64           `json:"descriptors_per_step"`
	Reads  float64           `json:"ssd_reads_per_step"`
	// TTFT is the time until all requests have their first token, if their prompts arrive together. It
	// is 0 if no prompt is priced.
	TTFT float64 `json:"ttft_s,omitempty"`
	// TTFTInterval is the range of TTFT that the errors of the model allow, nil if no prompt is priced.
	TTFTInterval *Interval `json:"ttft_interval,omitempty"`
	Memory       Memory    `json:"memory"`
	Notes        []string  `json:"notes"`
	median       int       // the step whose time is P50

	// Recomputed is the number of positions of a request that are recomputed, averaged over layers
	// and steps.
	Recomputed float64 `json:"recomputed_positions,omitempty"`
}

// Fits reports whether everything fits in memory. If not, the times are meaningless.
func (r *Result) Fits() bool { return r.Memory.Verdict == "" }

// distribution sets the percentiles. Each is the time of one of the steps (nearest rank).
func (r *Result) distribution(times []float64) {
	order := slice.Indices(len(times))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(times[a], times[b]) })
	rank := func(share float64) int { return order[slice.Rank(len(order), share)] }
	r.median = rank(0.5)
	r.P50, r.P95, r.P99 = times[r.median], times[rank(0.95)], times[rank(0.99)]
}

// resultDigits is the number of kept digits of a figure. Processors that fuse multiplication and
// addition differ in further digits. Equal input must give equal output on all of them.
const resultDigits = 12

func (r *Result) round() {
	m := &r.Memory
	for _, v := range []*float64{
		&r.Mean, &r.P50, &r.P95, &r.P99, &r.TPOT, &r.OTPS, &r.Tokens, &r.H2D, &r.D2H, &r.SSD, &r.Pieces, &r.Reads, &r.Recomputed, &r.TTFT,
		&m.Weights, &m.Index, &m.Cache, &m.Staging, &m.Reserve, &m.GPU, &m.GPUHas, &m.Host, &m.HostHas, &m.SSD,
	} {
		*v = rounded(*v)
	}
	for c := range r.Causes {
		r.Causes[c] = rounded(r.Causes[c])
	}
}

func rounded(v float64) float64 { return text.Round(v, resultDigits) }

// Oracle reports whether the profile's policy sees the future.
func (p *Profile) Oracle() bool { return slices.Contains(p.Meta.Oracles, p.Cell.Policy) }

// Lossy reports whether the profile's policy drops entries.
func (p *Profile) Lossy() bool { return slices.Contains(p.Meta.Lossy, p.Cell.Policy) }

// labels returns the conditions that limit a result with the basis b.
func (r *runner) labels(b basis) result.Labels {
	labels := slices.Concat(r.profile.Meta.Labels, r.Scaling.Labels)
	if r.traits.Moves == schedule.MovesMisses && r.profile.Oracle() {
		labels = append(labels, result.LabelOraclePolicy)
	}
	if r.Entry.Lossy() {
		labels = append(labels, result.LabelLossyEntries)
	}
	if r.Ahead.Accuracy > 0 {
		labels = append(labels, result.LabelReadAhead)
	}
	if r.traits.Predicted > 0 {
		labels = append(labels, result.LabelOracleSchedule)
	}
	if b.fitted != "" {
		labels = append(labels, result.LabelFitted)
	}
	if r.Model.FromConfig() {
		labels = append(labels, result.LabelConfig)
	}
	return result.Labels{}.With(labels...)
}

// SharedLabels returns the labels of all results. A label of only some of them states their share.
func SharedLabels(results []*Result) result.Labels {
	labels := slice.Map(results, func(r *Result) result.Labels { return r.Labels })
	return result.SharedLabels(labels, "lines")
}

// ScheduleText returns the result's schedule, with the labels that only some results have.
func (r *Result) ScheduleText(shared result.Labels) string {
	if apart := r.Labels.Without(shared); len(apart) > 0 {
		return fmt.Sprintf("%s [%s]", r.Schedule, apart)
	}
	return r.Schedule
}
