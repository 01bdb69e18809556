package board

import (
	"slices"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// labels are those of all traces of the board together.
func (b *Board) labels() result.Labels {
	of := make([]result.Labels, len(b.Traces))
	for i, t := range b.Traces {
		of[i] = t.Labels
	}
	return result.SharedLabels(of, "traces")
}

// LabelsOn are the labels of the figures on one trace.
func (b *Board) LabelsOn(trace string) result.Labels {
	for _, t := range b.Traces {
		if t.Trace == trace {
			return t.Labels
		}
	}
	return nil
}

// labels are those of both cells of the pair, an oracle policy among them.
func (p pair) labels() result.Labels {
	return result.Labels{}.With(slices.Concat(result.ParseLabels(p.a.sample.Labels), result.ParseLabels(p.b.sample.Labels))...)
}

// shared are the labels of all places of the group together.
func (g *ComparedGroup) shared() result.Labels {
	var traces []string
	var of []result.Labels
	for _, d := range g.Cells {
		if !slices.Contains(traces, d.Trace) {
			traces, of = append(traces, d.Trace), append(of, d.Labels)
		}
	}
	return result.SharedLabels(of, "traces")
}
