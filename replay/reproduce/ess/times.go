package ess

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// step is a step's computation, seconds: fixed + slope × query tokens of the batch +
// request × its requests. The last is what does not grow with the positions that a step
// decodes of a request: its index is read once, and that is selection.
type step struct{ fixed, slope, request float64 }

// shares are how the part of a step's computation that grows with the query tokens is
// divided among the operators of a layer: as on the roofline of the machine, far from
// where weights bound it. What is fixed (weights, launches, what other GPUs are waited
// for) is not told apart and belongs to the feed-forward network, so that no fetch hides
// behind it.
type shares struct{ project, choose, pre, attend, post float64 }

// most query tokens of a timetable.
const most = 640

func (s *study) shares(context int) (x shares, err error) {
	roofline := pipeline.NewRoofline(s.machine, s.model, s.selection, expertGPUs, 1)
	at := func(queries float64) (x shares, err error) {
		k, c := float64(s.model.Indexer.TopK.Value), float64(context)
		load := pipeline.Load{Requests: queries / 2, Queries: queries, Context: queries / 2 * c, Scored: queries * c, Demand: queries / 2 * k, Attended: queries * k, Bytes: queries / 2 * k * float64(s.model.Entry.Value)}
		for i := range int(s.model.Layers.Value) {
			o, err := roofline.Layer(i, &load)
			if err != nil {
				return x, err
			}
			x = shares{x.project + o.Project, x.choose + o.Select, x.pre + o.Pre, x.attend + o.Attend, x.post + o.Post}
		}
		return x, nil
	}
	const far = 1 << 14
	a, err := at(far)
	if err != nil {
		return x, err
	}
	b, err := at(2 * far)
	if err != nil {
		return x, err
	}
	x = shares{b.project - a.project, b.choose - a.choose, b.pre - a.pre, b.attend - a.attend, b.post - a.post}
	sum := x.project + x.choose + x.pre + x.attend + x.post
	return shares{x.project / sum, x.choose / sum, x.pre / sum, x.attend / sum, x.post / sum}, nil
}

// timetable is the CSV that kvreplay time --table reads: the times of steps of mtp
// positions at each context, of a layer and in µs. Lookups are part of the selection.
func (s *study) timetable(mtp int, of map[int]step) (string, error) {
	var b strings.Builder
	b.WriteString("operator,query_tokens,context_tokens,time_us\n")
	layers := float64(s.model.Layers.Value)
	at := map[int]shares{}
	for context := range of {
		x, err := s.shares(context)
		if err != nil {
			return "", err
		}
		at[context] = x
	}
	for _, operator := range []string{"project", "select", "pre", "attend", "post", "lookup_gpu", "output"} {
		for _, queries := range []float64{0, most} {
			for _, context := range slices.Sorted(maps.Keys(of)) {
				x, t := at[context], of[context]
				share := map[string]float64{"project": x.project, "select": x.choose, "pre": x.pre, "attend": x.attend, "post": x.post}[operator]
				micros := 1e6 / layers * share * t.slope * queries
				switch operator {
				case "select":
					micros += 1e6 / layers * t.request * queries / float64(mtp)
				case "post":
					micros += 1e6 / layers * t.fixed
				}
				fmt.Fprintf(&b, "%s,%g,%d,%.6f\n", operator, queries, context, micros)
			}
		}
	}
	return b.String(), nil
}
