package pipeline

import (
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// Oracle reports whether the profile's policy sees the future.
func (p *Profile) Oracle() bool { return slices.Contains(p.Meta.Oracles, p.Cell.Policy) }

// labels are the conditions that limit a result with the basis b.
func (r *runner) labels(b basis) result.Labels {
	labels := slices.Concat(r.profile.Meta.Labels, r.options.Scaling.Labels)
	if r.pricer.Moves == MovesMisses && r.profile.Oracle() {
		labels = append(labels, result.LabelOraclePolicy)
	}
	if r.options.Ahead.Accuracy > 0 {
		labels = append(labels, result.LabelReadAhead)
	}
	if Oracle(r.schedule) {
		labels = append(labels, result.LabelOracleSchedule)
	}
	if b.fitted != "" {
		labels = append(labels, result.LabelFitted)
	}
	return result.Labels{}.With(labels...)
}

// sharedLabels are the labels of several results together.
func sharedLabels(results []*Result) result.Labels {
	of := make([]result.Labels, len(results))
	for i, r := range results {
		of[i] = r.Labels
	}
	return result.SharedLabels(of, "lines")
}

// scheduleText is the result's schedule, with the labels that not all results have.
func (r *Result) scheduleText(shared result.Labels) string {
	if apart := r.Labels.Without(shared); len(apart) > 0 {
		return fmt.Sprintf("%s [%s]", r.Schedule, apart)
	}
	return r.Schedule
}
