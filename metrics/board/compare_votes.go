package board

import "github.com/kvreplay/kvreplay/metrics/result"

// Votes count which of two policies missed less, one vote a request or stream: its
// misses summed over the cells.
type Votes struct {
	// Count = Wins + Losses + Ties.
	Count int `json:"count"`
	// Wins are those in which A missed less, Losses those in which B did.
	Wins   int `json:"wins"`
	Losses int `json:"losses"`
	Ties   int `json:"ties"`
}

// byPart is misses by part of a cell: by request, or by stream.
type byPart map[result.Part]int64

// voter is a request or a stream of a trace.
type voter struct {
	trace string
	part  result.Part
}

// requestMisses is a cell's misses by request; nil where rows are pooled over them.
func requestMisses(c *cell) byPart {
	if c.requests == nil {
		return nil
	}
	by := byPart{}
	for i, t := range c.requests {
		by[result.Part{Request: c.ids[i]}] = t.misses
	}
	return by
}

// streamMisses finds the rows of single streams, as `replay --per stream` writes them.
func streamMisses(rows []*result.Row) map[cellKey]byPart {
	streams := map[cellKey]byPart{}
	for _, r := range rows {
		if r.RequestID == nil || r.LayerID == nil || r.Streams != 1 {
			continue
		}
		k := cellKey{trace: r.Trace, policy: r.Policy}
		if r.Capacity != nil {
			k.capacity = *r.Capacity
		}
		if streams[k] == nil {
			streams[k] = byPart{}
		}
		streams[k][result.PartOf(r)] = r.Misses
	}
	return streams
}

// vote lets every voter of the pairs vote; nil where a pair lacks votes of one side.
func vote(pairs []pair, missesOf func(*cell) byPart) *Votes {
	lead := map[voter]int64{} // A's misses less B's
	for _, p := range pairs {
		a, b := missesOf(p.a), missesOf(p.b)
		if len(a) == 0 || len(a) != len(b) {
			return nil
		}
		for part, n := range a {
			m, both := b[part]
			if !both {
				return nil
			}
			lead[voter{p.at.Trace, part}] += n - m
		}
	}
	v := &Votes{Count: len(lead)}
	for _, d := range lead {
		switch {
		case d < 0:
			v.Wins++
		case d > 0:
			v.Losses++
		default:
			v.Ties++
		}
	}
	return v
}

// outcome is what the requests say of a contest.
type outcome int

const (
	unknown   outcome = iota // rows are pooled over requests
	tooFew                   // no outcome of so few requests could be significant
	undecided                // not significant
	decided
)

// outcome judges p, which Holm corrected for a number of tests.
func (d *Contest) outcome(p *float64, tests int) outcome {
	switch {
	case p == nil:
		return unknown
	case *p < Significant:
		return decided
	case !decidable(d.Requests.Count, tests):
		return tooFew
	}
	return undecided
}

// leads reports whether A misses less than B, as the ratio has it.
func (d *Contest) leads() bool { return d.Ratio != nil && d.Ratio.Value < 1 }

// contradicts reports whether the interval excludes 1 and the p decides nothing, or the
// other way round.
func (d *Contest) contradicts(p *float64, tests int) bool {
	interval := d.Ratio
	if d.Inverse != nil {
		interval = d.Inverse
	}
	is := d.outcome(p, tests)
	return interval.Bounded() && (is == decided || is == undecided) && (interval.below1() || interval.above1()) != (is == decided)
}

// Bounded is true for a figure that has an interval, with an upper end or without.
func (f *Figure) Bounded() bool { return f != nil && f.Low != nil }

func (f *Figure) below1() bool { return f.Bounded() && f.High != nil && *f.High < 1 }

func (f *Figure) above1() bool { return f.Bounded() && *f.Low > 1 }
