package serving

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Sources returns the requests from the first on, with times between arrivals multiplied by stretch.
type Sources func(stretch float64) (from Source, closing func(), err error)

// Served is an engine that can be run many times, by several goroutines.
type Served struct {
	Options
	Notes  []string
	engine Engine
	admits Admission
}

// Admission states when an engine admits requests.
type Admission struct {
	Batch   bool  // by Eq. 1 of eLLM with all KV cached. Engines with Uncached always use Eq. 1
	Literal bool  // by Eqs. 2 to 4 as printed, not by the prices of the machine
	TPOT    int64 // ns, 0 for no limit
}

// NewServed returns an engine.
func NewServed(ctx context.Context, e Engine, a Admission) (*Served, error) {
	o, p, err := NewEngine(ctx, e)
	if err != nil {
		return nil, err
	}
	return &Served{Options: o, Notes: p.Notes(), engine: e, admits: a}, nil
}

// scheduler returns a scheduler for a run with the prices p.
func (e *Served) scheduler(p *Priced) Scheduler {
	if !e.engine.Uncached && !e.admits.Batch {
		return FCFS{}
	}
	s := &Optimised{Time: p.Iteration, SLO: e.admits.TPOT, Partial: e.engine.Uncached}
	if e.admits.Literal {
		s.Time = Literal(e.engine.Model, float64(e.engine.Machine.GPU.BF16.Value))
	}
	return s
}

// Summarise runs all requests and sums them up. Each of rows receives the rows too.
func (e *Served) Summarise(ctx context.Context, from Sources, stretch float64, rows ...Rows) (*Summary, error) {
	source, closing, err := from(stretch)
	if err != nil {
		return nil, err
	}
	defer closing()
	_, p, err := NewEngine(ctx, e.engine)
	if err != nil {
		return nil, err
	}
	o := e.Options
	o.Scheduler = e.scheduler(p)
	s := NewSummary(o)
	if err := Run(ctx, source, p, o, append(rows, Rows{Request: s.Request, Step: s.Step})...); err != nil {
		return nil, err
	}
	s.finish()
	return s, nil
}

// Bounds of the search for goodput, as factors of the rate of arrivals, and its precision.
const (
	leastLoad = 1. / 256
	mostLoad  = 256
	precise   = 1.02
)

// Goodput returns the largest rate of arrivals, in requests/s, at which a share of the requests meets
// the limits (Zhong et al., DistServe, OSDI 2024). It bisects the rate within 2 %, and takes the
// attainment to fall with the rate. Each class meets its limits. The note says if the rate lies beyond
// the loads that are tried: it is 0 if no load down to a 256th meets the limits, and a lower bound if
// 256 times the load does. Another note says if the queue still grows at the last arrival, because more
// requests would then lower the rate. Each of rows receives the rows of all runs.
func (e *Served) Goodput(ctx context.Context, from Sources, share float64, rows ...Rows) (rate float64, note string, err error) {
	if len(e.Limits) == 0 || !(share > 0 && share <= 1) {
		return 0, "", fmt.Errorf("goodput of %g without limits, expected a share above 0, at most 1, and limits", share)
	}
	type run struct {
		stretch float64
		last    int64
	}
	runs := map[float64]run{} // by rate
	rate, note, err = goodput(func(stretch float64) (*Summary, error) {
		s, err := e.Summarise(ctx, from, stretch, rows...)
		if err == nil {
			runs[s.Rate] = run{stretch, s.last}
		}
		return s, err
	}, share)
	if err != nil || note != "" {
		return rate, note, err
	}
	at := runs[rate]
	p := pacing(at.last)
	_, err = e.Summarise(ctx, from, at.stretch, append(slices.Clone(rows), Rows{Request: p.request})...)
	return rate, p.note(), err
}

// pace counts the requests that arrive and those that end between two times.
type pace struct {
	from, to       int64
	arrived, ended int
}

// pacing returns the pace over the second half of the time until the last arrival.
func pacing(last int64) pace { return pace{from: last / 2, to: last} }

func (p *pace) request(r *RequestRow) error {
	if r.Arrival > p.from {
		p.arrived++
	}
	if r.Finish > p.from && r.Finish <= p.to {
		p.ended++
	}
	return nil
}

// keptPace is the least share of arriving requests that end meanwhile, if the number of requests in the
// server does not grow. It leaves room for chance.
const keptPace = 0.9

// note says that the number of requests in the server grows, or is empty.
func (p *pace) note() string {
	if float64(p.ended) >= keptPace*float64(p.arrived) {
		return ""
	}
	return fmt.Sprintf("at the goodput, %d requests end while %d arrive, in the second half of the arrivals. With more requests it may be less", p.ended, p.arrived)
}

// goodput searches with a function that runs the requests.
func goodput(run func(stretch float64) (*Summary, error), share float64) (best float64, note string, err error) {
	meets := func(load float64) (bool, error) {
		s, err := run(1 / load)
		if err != nil || s.attainment() < share {
			return false, err
		}
		best = s.Rate
		return true, nil
	}
	ok, err := meets(1)
	low, high, factor := 1., 1., 2. // low meets the limits, high does not
	if !ok {
		factor = 0.5
	}
	for next, found := 1., ok; err == nil && found == ok; {
		low, high = next, next
		if next *= factor; next < leastLoad || next > mostLoad {
			if ok {
				return best, fmt.Sprintf("goodput is at least the rate shown: %d times the load still meets the limits", mostLoad), nil
			}
			return 0, fmt.Sprintf("no goodput: a %dth of the load does not meet the limits either", int(1/leastLoad)), nil
		}
		found, err = meets(next)
		low, high = min(low, next), max(high, next)
	}
	for err == nil && high/low > precise {
		middle := math.Sqrt(low * high)
		if ok, err = meets(middle); ok {
			low = middle
		} else {
			high = middle
		}
	}
	return best, "", err
}
