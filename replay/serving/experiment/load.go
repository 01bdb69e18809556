package experiment

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kvreplay/kvreplay/datasets/requests"
	"github.com/kvreplay/kvreplay/replay/serving"
)

// Load is the requests of a trace, with changed times and lengths.
type Load struct {
	Path       string
	Lengths    string  // file of requests whose lengths are drawn, "" for those of the trace
	Scale      float64 // factor of the times between arrivals
	Burstiness float64 // shape of the gamma distribution that these times are drawn from, 0 for those of the trace

	// Read sets the following fields.
	Requests int
	Empty    int      // requests without output tokens, which generate one
	Longest  int64    // tokens of the longest request
	Classes  []string // sorted
	Recorded []serving.Recorded
	Gap      float64 // mean time between arrivals, in ns

	drawn [][2]int // lengths of Lengths
}

// mostClasses bounds the memory of summaries.
const mostClasses = 16

// Read reads the trace and the lengths once, so that errors come before a run.
func (l *Load) Read(ctx context.Context) error {
	length := func(q *requests.Request) { l.Longest = max(l.Longest, int64(q.InputTokens)+int64(q.OutputTokens)) }
	if l.Lengths != "" {
		if err := each(ctx, l.Lengths, func(q *requests.Request) {
			l.drawn = append(l.drawn, [2]int{q.InputTokens, q.OutputTokens})
			length(q)
		}); err != nil {
			return err
		}
	}
	last, classes := 0., map[string]bool{}
	err := each(ctx, l.Path, func(q *requests.Request) {
		l.Requests, last = l.Requests+1, float64(q.Arrival)
		if q.Class != "" && len(classes) <= mostClasses {
			classes[q.Class] = true
		}
		if l.drawn != nil {
			return
		}
		length(q)
		if q.OutputTokens == 0 {
			l.Empty++
		}
		if q.LastToken > 0 && l.Scale == 1 && l.Burstiness == 0 {
			l.Recorded = append(l.Recorded, serving.Recorded{Arrival: int64(q.Arrival), First: int64(q.FirstToken), Last: int64(q.LastToken), Output: q.OutputTokens})
		}
	})
	if err == nil && len(classes) > mostClasses {
		err = fmt.Errorf("serve %s: more than %d classes of requests: give several of them one name", l.Path, mostClasses)
	}
	l.Gap, l.Classes = last/float64(max(1, l.Requests-1)), slices.Sorted(maps.Keys(classes))
	return err
}

// each calls do with each request of a file, which has input tokens.
func each(ctx context.Context, path string, do func(q *requests.Request)) error {
	r, err := requests.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	var q requests.Request
	for n := 1; ; n++ {
		switch err := r.Read(&q); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case n%1024 == 0 && ctx.Err() != nil:
			return ctx.Err()
		case q.InputTokens == 0:
			return fmt.Errorf("serve: request %d of %s has no input tokens, expected at least 1: leave it out", n, path)
		}
		do(&q)
	}
}

// source opens the requests with the draws of a seed.
func (l *Load) source(seed uint64) serving.Sources {
	return func(stretch float64) (serving.Source, func(), error) {
		r, err := requests.Open(l.Path)
		if err != nil {
			return nil, nil, err
		}
		var q requests.Request
		draw := rand.New(rand.NewPCG(seed, 0))
		gaps, arrival := distuv.Gamma{Alpha: l.Burstiness, Beta: l.Burstiness, Src: rand.NewPCG(seed, 1)}, -1.
		return func(to *serving.Request) error {
			if err := r.Read(&q); err != nil {
				return err
			}
			switch {
			case l.Burstiness == 0:
				arrival = float64(q.Arrival)
			case arrival < 0: // the first request
				arrival = 0
			default:
				arrival += l.Gap * gaps.Rand()
			}
			*to = serving.Request{Arrival: int64(arrival * l.Scale * stretch), Input: q.InputTokens, Output: q.OutputTokens, Prefix: q.PrefixBlocks, Class: q.Class}
			if l.drawn != nil {
				length := l.drawn[draw.IntN(len(l.drawn))]
				to.Input, to.Output, to.Prefix = length[0], length[1], nil
			}
			to.Output = max(1, to.Output)
			return nil
		}, func() { r.Close() }, nil
	}
}
