package synthetic

import (
	"fmt"
	"math"

	"github.com/kvreplay/kvreplay/internal/names"
)

// Locality are the dials of a stream: how its demand repeats. Times are in decode
// steps; README.md gives the formulas.
type Locality struct {
	// Overlap is the mean share of the demand that the next step demands again:
	// (1 − overlap)·K blocks leave at a step and as many enter.
	Overlap float64 `yaml:"overlap" json:"overlap"`
	// Burst is the coefficient of variation of the number that leave, step by step.
	Burst float64 `yaml:"burst" json:"burst"`
	// RunShape is the shape β of the log-logistic law of runs, the numbers of
	// consecutive steps that demand a block: 1/(1 + (r/m)^β) of the blocks that entered
	// stay longer than r. The median m follows from the overlap.
	RunShape float64 `yaml:"run_shape" json:"run_shape"`
	// GapMedian and GapShape are median and shape of the log-logistic law of gaps, the
	// numbers of consecutive steps that do not demand a block between two that do.
	GapMedian float64 `yaml:"gap_median" json:"gap_median"`
	GapShape  float64 `yaml:"gap_shape" json:"gap_shape"`
	// Drift is the share of the blocks leaving that never come back.
	Drift float64 `yaml:"drift" json:"drift"`
	// Heat is the correlation of a block's gaps: with 0 all blocks are alike, with 1 a
	// block that came back soon always does, and stays long.
	Heat float64 `yaml:"heat" json:"heat"`
	// Company is the correlation of gaps that begin at the same step: blocks that leave
	// together come back together.
	Company float64 `yaml:"company" json:"company"`
	// Hot is the share of the demand that never leaves, the first tokens first.
	Hot float64 `yaml:"hot" json:"hot"`
	// Recent is the share of the demand that generated tokens hold in their first run,
	// the one that begins when they are generated: what the local window makes of it.
	Recent float64 `yaml:"recent" json:"recent"`
	// Skipped is the share of the generated tokens that are not demanded at once: at the
	// first step at which they are not pinned, which is their own without a local window.
	Skipped float64 `yaml:"skipped,omitempty" json:"skipped,omitempty"`
	// Neighbours is the share of the never-seen blocks that enter behind a demanded one,
	// x where x−1 is demanded, while there are such. The others come from anywhere.
	Neighbours float64 `yaml:"neighbours" json:"neighbours"`
	// Near is the chance that a block which has just left, or enters at the next step,
	// is among the candidates, the ranks K … M−1; n steps away it is Near/n. What
	// candidates then lack is drawn from anywhere.
	Near float64 `yaml:"near" json:"near"`
}

// Dial describes a field of Locality.
type Dial struct {
	Name        string // as dial files and flags have it
	Usage       string
	Least, Most float64
	At          func(*Locality) *float64
}

// LocalityDials are the dials of a stream, in the order of Locality.
var LocalityDials = []Dial{
	{"overlap", "mean share of the demand that the next step demands again", 0, 1, func(l *Locality) *float64 { return &l.Overlap }},
	{"burst", "coefficient of variation of the number of blocks that leave at a step", 0, 2, func(l *Locality) *float64 { return &l.Burst }},
	{"run_shape", "shape of the law of runs in the demand; small is heavy-tailed", 0.3, 10, func(l *Locality) *float64 { return &l.RunShape }},
	{"gap_median", "median gap until a block is demanded again, in steps", 0.01, 1e6, func(l *Locality) *float64 { return &l.GapMedian }},
	{"gap_shape", "shape of the law of gaps; small is heavy-tailed", 0.1, 10, func(l *Locality) *float64 { return &l.GapShape }},
	{"drift", "share of the blocks leaving that never come back", 0, 1, func(l *Locality) *float64 { return &l.Drift }},
	{"heat", "correlation of a block's gaps: how unlike each other blocks are", 0, 1, func(l *Locality) *float64 { return &l.Heat }},
	{"company", "correlation of gaps that begin at the same step", 0, 1, func(l *Locality) *float64 { return &l.Company }},
	{"hot", "share of the demand that never leaves", 0, 1, func(l *Locality) *float64 { return &l.Hot }},
	{"recent", "share of the demand that generated tokens hold from their first step on", 0, 1, func(l *Locality) *float64 { return &l.Recent }},
	{"skipped", "share of the generated tokens that are not demanded at once", 0, 1, func(l *Locality) *float64 { return &l.Skipped }},
	{"neighbours", "share of the never-seen blocks that enter behind a demanded one", 0, 1, func(l *Locality) *float64 { return &l.Neighbours }},
	{"near", "chance that a block which has just left or is about to enter is a candidate", 0, 1, func(l *Locality) *float64 { return &l.Near }},
}

// FindDial returns the dial of that name, or an error that offers the nearest.
func FindDial(name string) (*Dial, error) {
	var known []string
	for i := range LocalityDials {
		if LocalityDials[i].Name == name {
			return &LocalityDials[i], nil
		}
		known = append(known, LocalityDials[i].Name)
	}
	return nil, fmt.Errorf("no dial is named %q%s", name, names.Nearest(name, known))
}

// validate reports the first dial out of its range, or dials that contradict each
// other for a demand of k blocks.
func (l *Locality) validate(k int) error {
	for _, d := range LocalityDials {
		if v := *d.At(l); !(v >= d.Least && v <= d.Most) { // NaN too
			return fmt.Errorf("%s %v, expected %v to %v", d.Name, v, d.Least, d.Most)
		}
	}
	if most := mostOverlap(l, k); l.Overlap > most {
		return fmt.Errorf("overlap %v, expected at most 1 − %.4g/K = %.4f: so many generated tokens enter at a step", l.Overlap, bornOf(l), most)
	}
	if rest, churn := restDemand(l, float64(k)), churnOf(l, float64(k)); rest < churn-bornOf(l) {
		return fmt.Errorf("overlap %v lets %.0f of K = %d blocks leave at a step, but hot %v and recent %v leave %.0f that could; lower hot or recent, or raise the overlap",
			l.Overlap, churn, k, l.Hot, l.Recent, math.Max(0, rest))
	}
	return nil
}

// bornOf is the number of generated tokens that enter at a step, on average.
func bornOf(l *Locality) float64 { return 1 - l.Skipped }

// mostOverlap is the overlap of a demand of k of which only the token generated is new.
func mostOverlap(l *Locality, k int) float64 { return 1 - bornOf(l)/float64(k) }

// churnOf is the mean number of blocks that leave a demand of k at a step.
func churnOf(l *Locality, k float64) float64 { return (1 - l.Overlap) * k }

// recentDemand is what generated tokens hold of a demand of k: those that enter are there
// for a step at least.
func recentDemand(l *Locality, k float64) float64 { return math.Max(bornOf(l), l.Recent*k) }

// recentRun is the mean first run of generated tokens.
func recentRun(l *Locality, k float64) float64 {
	if bornOf(l) <= 0 {
		return 1
	}
	return recentDemand(l, k) / bornOf(l)
}

// restDemand is the part of a demand of k that is neither hot nor recent.
func restDemand(l *Locality, k float64) float64 { return k*(1-l.Hot) - recentDemand(l, k) }
