package pipeline

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// Submodel is a part of the time model. All its times are too long or too short together, and
// independently of the other submodels.
type Submodel uint8

// The submodels.
const (
	KernelModel  Submodel = iota // operators of the model on the GPU
	SelectModel                  // selection of the Top-K
	LookupModel                  // lookups, bookkeeping and attention of the host
	LinkModel                    // transfers between host and GPU
	DriveModel                   // reads of the SSD
	NetworkModel                 // transfers between GPUs
	StepModel                    // the whole step, with work that the other models lack
	submodels
)

// SubmodelNames are the submodels as reports call them.
var SubmodelNames = [submodels]string{"kernels", "selection", "lookup and CPU", "link", "drives", "network", "whole step"}

func (m Submodel) String() string { return SubmodelNames[m] }

// modelOf is the submodel that gives the times of a cause.
var modelOf = [schedule.Causes]Submodel{
	schedule.Compute: KernelModel, schedule.Selecting: SelectModel, schedule.Lookup: LookupModel, schedule.Fetch: LinkModel, schedule.WriteBack: LinkModel,
	schedule.Drive: DriveModel, schedule.Weights: LinkModel, schedule.Communication: NetworkModel,
	schedule.Dispatching: NetworkModel, schedule.Combining: NetworkModel, schedule.OnHost: LookupModel, schedule.Staging: NetworkModel,
}

// Factors by which modelled and measured times differ. Those of kernels, links and drives come from
// measurements that a fit left out. That of kernels is 1 plus the 95th percentile of the errors. Those
// of links and drives are the 95th percentiles of the longer time divided by the shorter one.
// TestUncertainty holds them current. The others are assumed.
const (
	kernelFactor    = 1.15 // derived: layers on a GPU without measured kernels (replay/kernel/ERRORS.md)
	ownKernelFactor = 1.14 // derived: widths left out on a GPU with measured kernels (the same page)
	rooflineFactor  = 1.5  // assumed: bare roofline, without launches, norms and activation
	selectFactor    = 1.5  // assumed
	lookupFactor    = 1.5  // assumed
	linkFactor      = 1.65 // derived: all published points of links (kvreplay hardware points)
	driveFactor     = 1.49 // derived: all measured points of drives
	networkFactor   = 1.5  // assumed: between 1.1 near measured all-reduces and 2 for GPUs without (replay/collective)
)

// StepKind is a kind of result with its own factor of StepModel.
type StepKind uint8

// The kinds of results.
const (
	OneGPU         StepKind = iota // steps of a dense model on one GPU
	Offloading                     // steps that move KV or weights to the GPU, or that select the Top-K
	ManyGPUs                       // steps of a dense model on more than one GPU
	MixedExperts                   // steps of a mixture of experts
	FirstTokens                    // times to the first token of a dense model
	FirstOfExperts                 // times to the first token of a mixture of experts
	Launched                       // steps of an engine whose kernels Python launches
	stepKinds
)

// stepFactors are the factors of StepModel. With them nine of ten published results of a kind lie in
// their intervals. All are derived. A test of replay/reproduce/blind holds them current.
var stepFactors = [stepKinds]float64{OneGPU: 1.21, Offloading: 1.32, ManyGPUs: 1.5, MixedExperts: 1.62, FirstTokens: 1.74,
	FirstOfExperts: 3.53, Launched: 2.02}

// Factor returns the factor of StepModel.
func (k StepKind) Factor() float64 { return stepFactors[k] }

// stepFactor returns the factor of the step on the timeline. If the step is of more than one kind, it is
// the largest of theirs.
func (r *runner) stepFactor() float64 {
	factor := OneGPU.Factor()
	moves := func(m Submodel) bool { return uses(r.timeline, m) }
	if slices.ContainsFunc([]Submodel{SelectModel, LookupModel, LinkModel, DriveModel}, moves) {
		factor = Offloading.Factor()
	}
	if uses(r.timeline, NetworkModel) {
		factor = max(factor, ManyGPUs.Factor())
	}
	if r.Model.MoE != nil {
		factor = max(factor, MixedExperts.Factor())
	}
	if r.Engine != nil && r.Engine.Python {
		factor = max(factor, Launched.Factor())
	}
	return factor
}

// Uncertainty holds the factor of each submodel.
type Uncertainty [submodels]float64

func (r *runner) uncertainty() Uncertainty {
	first := FirstTokens
	if r.Model.MoE != nil {
		first = FirstOfExperts
	}
	kernels := map[operator.Basis]float64{operator.ByRoofline: rooflineFactor, operator.ByOtherGPUs: kernelFactor, operator.ByOwnProducts: ownKernelFactor}
	return Uncertainty{kernels[r.operators.Basis], selectFactor, lookupFactor, linkFactor, driveFactor, networkFactor, first.Factor()}
}

// Effect is the change of a step's time, in shares of it, if one submodel takes longer by its
// factor (Slow) or shorter (Fast). Both are at least 0.
type Effect struct {
	Slow float64 `json:"slow"`
	Fast float64 `json:"fast"`
}

// Interval is the range of a time that the errors of the submodels allow.
type Interval struct {
	Low  float64 `json:"low_s"`
	High float64 `json:"high_s"`
	// Submodels has the effect of each submodel that changes the time, by name.
	Submodels map[string]Effect `json:"submodels"`
}

// interval sets the ranges of the TPOT and of the TTFT. The schedule places the median step again for
// each stretched submodel.
func (r *runner) interval(result *Result, first *prompts) error {
	if result.median != r.batch.Steps-1 { // run placed the last step
		if err := r.place(result.median); err != nil {
			return err
		}
	}
	base := r.timeline.End()
	factors := r.factors
	factors[StepModel] = r.stepFactor()
	result.Interval = factors.around(result.TPOT, base, func(m Submodel, factor float64) float64 {
		if !uses(r.timeline, m) {
			return base
		}
		return stretched(r.timeline, r.anew, &r.step, m, factor)
	})
	if first != nil {
		result.TTFTInterval = new(r.factors.of(first.seconds))
	}
	return nil
}

// around returns the interval of a time. stretched returns base with one submodel's times multiplied by
// factor. Each submodel is slowed and sped up by its factor in turn. The effects of
// independent submodels add up in quadrature.
func (u *Uncertainty) around(seconds, base float64, stretched func(m Submodel, factor float64) float64) (v Interval) {
	v.Submodels = map[string]Effect{}
	for m := range submodels {
		effect := wholeStep(u[m])
		if m != StepModel {
			effect = Effect{decimals(stretched(m, u[m])/base - 1), decimals(1 - stretched(m, 1/u[m])/base)}
		}
		if effect != (Effect{}) {
			v.Submodels[m.String()] = effect
		}
	}
	v.spread(seconds)
	return v
}

// wholeStep is the effect of a factor of StepModel.
func wholeStep(factor float64) Effect { return Effect{decimals(factor - 1), decimals(1 - 1/factor)} }

// With returns the range of a time in seconds with another factor of StepModel.
func (v *Interval) With(seconds, factor float64) Interval {
	o := Interval{Submodels: maps.Clone(v.Submodels)}
	o.Submodels[StepModel.String()] = wholeStep(factor)
	o.spread(seconds)
	return o
}

// asModelled stretches nothing.
var asModelled = Uncertainty{1, 1, 1, 1, 1, 1, 1}

// of returns the range of a time that follows from a factor for each submodel.
func (u *Uncertainty) of(seconds func(by *Uncertainty) float64) Interval {
	base := seconds(&asModelled)
	return u.around(base, base, func(m Submodel, factor float64) float64 {
		by := asModelled
		by[m] = factor
		return seconds(&by)
	})
}

// spread sets the ends of the range of a time from the effects of the submodels.
func (v *Interval) spread(seconds float64) {
	slow, fast := v.apart(&Interval{})
	v.Low, v.High = rounded(seconds*(1-min(1, fast))), rounded(seconds*(1+slow))
}

// Plus returns the range of the sum of two times, a with the range v and b with the range o. An error
// of a submodel that both depend on lengthens or shortens both.
func (v *Interval) Plus(o *Interval, a, b float64) Interval {
	sum := Interval{Submodels: map[string]Effect{}}
	for _, name := range SubmodelNames {
		x, y := v.Submodels[name], o.Submodels[name]
		effect := Effect{decimals((a*x.Slow + b*y.Slow) / (a + b)), decimals((a*x.Fast + b*y.Fast) / (a + b))}
		if effect != (Effect{}) {
			sum.Submodels[name] = effect
		}
	}
	sum.spread(a + b)
	return sum
}

// decimals returns a change of at least 0 to nine decimals. Processors differ in further ones.
func decimals(change float64) float64 { return max(0, math.Round(change*1e9)/1e9) }

// apart returns the shares by which two times may move against each other: v longer, and v shorter.
// An effect that both share does not count.
func (v *Interval) apart(o *Interval) (slow, fast float64) {
	for _, name := range SubmodelNames {
		a, b := v.Submodels[name], o.Submodels[name]
		slow = math.Hypot(slow, a.Slow-b.Slow)
		fast = math.Hypot(fast, a.Fast-b.Fast)
	}
	return slow, fast
}

// Hides reports whether a configuration with this interval may be as fast as a slower one with the
// interval o. more and less are their tokens per second. The errors of the model hide a difference,
// and so do 2 %.
func (v *Interval) Hides(o *Interval, more, less float64) bool {
	slow, fast := v.apart(o)
	return less >= more*(1-max(TieShare, slow, fast))
}

// HalfWidth returns half of the interval's width, as a share of the time that it is of.
func (v *Interval) HalfWidth(seconds float64) float64 { return (v.High - v.Low) / 2 / seconds }

// HalfWidth returns half of the interval's width, as a share of TPOT.
func (r *Result) HalfWidth() float64 { return r.Interval.HalfWidth(r.TPOT) }

// text returns a time with half of its interval's width, as in "12 ms ±8 %".
func (v *Interval) text(s float64) string {
	return fmt.Sprintf("%s ±%.0f %%", seconds(s), 100*v.HalfWidth(s))
}

func (r *Result) tpot() string { return r.Interval.text(r.TPOT) }

func (r *Result) ttft() string { return r.TTFTInterval.text(r.TTFT) }

// uses reports whether an operation of a submodel takes time.
func uses(t *schedule.Timeline, m Submodel) bool {
	return slices.ContainsFunc(t.Events, func(e schedule.Event) bool { return e.Seconds > 0 && modelOf[e.Kind.Cause()] == m })
}

// stretched returns the end of the step if every operation of a submodel takes factor times as long.
// It places the step in again.
func stretched(t, again *schedule.Timeline, s *schedule.Step, m Submodel, factor float64) float64 {
	return t.Stretched(again, s, func(k schedule.Kind) float64 {
		if modelOf[k.Cause()] == m {
			return factor
		}
		return 1
	})
}

// note states the errors that the intervals of a result combine, in percent. The whole step has one
// factor for TPOT and another for TTFT.
func (u Uncertainty) note(tpot float64, first *prompts) string {
	ttft := u[StepModel]
	u[StepModel] = tpot
	var texts []string
	for m := range submodels {
		texts = append(texts, fmt.Sprintf("%s %.0f %%", m, 100*(u[m]-1)))
	}
	text := "± combines the errors of " + strings.Join(texts, ", ")
	if first != nil {
		text += fmt.Sprintf(" (%.0f %% for TTFT)", 100*(ttft-1))
	}
	return text
}

// TieShare is the share of tokens/s below which two candidates are always a tie. Assumed.
const TieShare = 0.02

// Places ranks n lines that are sorted by tokens/s, the fastest first. The rank of a line is 1 + the
// number of lines above it that do not tie with it. Places returns the lines by rank, and their ranks in
// that order. A rank that several lines share ends in "=".
func Places(n int, ties func(first, later int) bool) (order []int, texts []string) {
	ranks, sharing := make([]int, n), map[int]int{}
	for i := range n {
		order, ranks[i] = append(order, i), 1
		for j := range i {
			if !ties(j, i) {
				ranks[i]++
			}
		}
		sharing[ranks[i]]++
	}
	slices.SortStableFunc(order, func(a, b int) int { return ranks[a] - ranks[b] })
	for _, i := range order {
		text := strconv.Itoa(ranks[i])
		if sharing[ranks[i]] > 1 {
			text += "="
		}
		texts = append(texts, text)
	}
	return order, texts
}

// Against returns the tokens/s of r ÷ those of o, with the range that the errors of the model allow.
// A range that includes 1 is a tie.
func (r *Result) Against(o *Result) (ratio, low, high float64) {
	slow, fast := r.Interval.apart(&o.Interval)
	ratio, apart := r.Tokens/o.Tokens, max(TieShare, slow, fast)
	if apart >= 1 {
		return rounded(ratio), 0, math.Inf(1)
	}
	return rounded(ratio), rounded(ratio * (1 - apart)), rounded(ratio / (1 - apart))
}
