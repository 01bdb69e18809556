package metrics

import "gonum.org/v1/gonum/stat/distuv"

// significant is the p below which the sign test tells two policies apart.
const significant = 0.05

// Votes count which of two policies missed less, one vote a request or stream: its
// misses summed over the cells.
type Votes struct {
	// Count = Wins + Losses + Ties.
	Count int `json:"count"`
	// Wins are those in which A missed less, Losses those in which B did.
	Wins   int `json:"wins"`
	Losses int `json:"losses"`
	Ties   int `json:"ties"`
	// P is of the exact two-sided sign test, ties dropped: the chance of votes at least
	// as uneven if neither were better. Null for fewer than five requests, and for
	// streams: those of one request are not independent.
	P *float64 `json:"p"`
}

// byPart is misses by part of a cell: by request, or by stream.
type byPart map[part]int64

// voter is a request or a stream of a trace.
type voter struct {
	trace string
	part  part
}

// requestMisses is a cell's misses by request; nil where rows are pooled over them.
func requestMisses(c *cell) byPart {
	if c.requests == nil {
		return nil
	}
	by := byPart{}
	for i, t := range c.requests {
		by[part{request: c.ids[i]}] = t.misses
	}
	return by
}

// streamMisses finds the rows of single streams, as `replay --per stream` writes them.
func streamMisses(rows []*Row) map[cellKey]byPart {
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
		streams[k][partOf(r)] = r.Misses
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

// signTest is the exact two-sided p of so many wins and losses were each as likely.
func signTest(wins, losses int) float64 {
	if wins+losses == 0 {
		return 1
	}
	even := distuv.Binomial{N: float64(wins + losses), P: 0.5}
	return min(1, 2*even.CDF(float64(min(wins, losses))))
}

// tested is true for votes with a p.
func (v *Votes) tested() bool { return v != nil && v.P != nil }

// testable is true where there are requests enough for an interval and a p.
func (d *Contest) testable() bool {
	return d.Requests.tested() && (d.Ratio.bounded() || d.inverse.bounded())
}

// verdict is -1 where A is better, 1 where B is, 0 where the requests do not tell: it
// takes the interval and the sign test, both, and that they point the same way.
func (d *Contest) verdict() int {
	switch {
	case !d.testable() || *d.Requests.P >= significant:
		return 0
	case d.Ratio.below1() && d.Requests.Wins > d.Requests.Losses:
		return -1
	case (d.Ratio.above1() || d.inverse.below1()) && d.Requests.Losses > d.Requests.Wins:
		return 1
	}
	return 0
}

// bounded is true for a figure that has an interval, with an upper end or without.
func (f *Figure) bounded() bool { return f != nil && f.Low != nil }

func (f *Figure) below1() bool { return f.bounded() && f.High != nil && *f.High < 1 }

func (f *Figure) above1() bool { return f.bounded() && *f.Low > 1 }
