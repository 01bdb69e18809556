package demand

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// The divider agrees with division, for every possible entry.
func TestDivider(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 98))
	for d := 1; d <= 64; d++ {
		v := DivideBy(d)
		for range 2000 {
			x := uint32(r.Int32())
			for _, x := range []uint32{x, x / uint32(d) * uint32(d), x | (1<<31 - 1), 0} {
				if got := v.Quotient(x); got != x/uint32(d) {
					t.Fatalf("%d ÷ %d = %d, not %d", x, d, x/uint32(d), got)
				}
			}
		}
	}
}

// drawn holds the parameters with which a drawn stream is read.
type drawn struct {
	meta    trace.Meta
	topk, m int
	ranks   bool
	pins    Pins
	layout  Layout
}

// drawLists draws a stream, K and M.
func drawLists(r *rand.Rand, o replaytest.Options) (*trace.Stream, *drawn) {
	s := replaytest.Stream(r, o)
	m := o.Meta(1 + r.IntN(max(o.M, 1)))
	d := &drawn{meta: m, topk: m.TopK, m: m.TopK, ranks: m.Order == trace.OrderRank}
	if d.ranks {
		d.m += r.IntN(m.Candidates - m.TopK + 1)
	}
	d.pins.Sink, d.pins.Local, _ = m.Pins()
	d.pins.BlockTokens = m.BlockTokens
	return s, d
}

// joinedRow is a row that naiveRow makes.
type joinedRow struct {
	Blocks, picked []int32
	scores         []float32
	demand         int
}

// naiveRow joins the lists of rows of streams by the comments of Joiner and ranking, with maps.
func naiveRow(p *drawn, heads []trace.Stream, rows []int) (out joinedRow) {
	type entry struct {
		head int
		x    int32
	}
	place, seen := map[int32]int{}, map[entry]bool{}
	for r := range p.m {
		if r == p.topk {
			out.demand = len(out.Blocks)
		}
		for _, row := range rows {
			for h := range heads {
				list := heads[h].List(row)
				if r >= len(list) {
					continue
				}
				b := list[r] / int32(p.layout.Factor)
				at, has := place[b]
				if !has {
					at = len(out.Blocks)
					place[b] = at
					out.Blocks, out.picked, out.scores = append(out.Blocks, b), append(out.picked, 0), append(out.scores, float32(math.Inf(-1)))
				}
				if scores := heads[h].ScoreList(row); scores != nil {
					out.scores[at] = max(out.scores[at], scores[r])
				}
				if e := (entry{h, list[r]}); r < p.topk && !seen[e] {
					seen[e] = true
					out.picked[at]++
				}
			}
		}
	}
	if p.topk == p.m {
		out.demand = len(out.Blocks)
	}
	return out
}

// The joiner and naiveRow give the same blocks, demand, entries and scores.
func TestJoinedRows(t *testing.T) {
	j := new(Joiner)
	for seed := uint64(0); seed < 2000; seed++ {
		r := rand.New(rand.NewPCG(seed, 99))
		o := replaytest.Medium(r)
		o.BlockTokens, o.Gap, o.Ascending = 1+r.IntN(2), 0, false
		s, p := drawLists(r, o)
		p.layout = Layout{Factor: 1 + r.IntN(63), Heads: 1 + r.IntN(3), Positions: 1 + r.IntN(3)}
		if r.IntN(2) == 0 {
			p.layout.Factor = 1 + r.IntN(5)
		}
		heads := []trace.Stream{*s}
		for len(heads) < p.layout.Heads {
			heads = append(heads, *replaytest.Stream(r, o))
		}
		j.Layout, j.K, j.M, j.Ranks, j.Checks = p.layout, p.topk, p.m, true, p.m == p.meta.Candidates
		j.Pins.BlockTokens = o.BlockTokens * p.layout.Factor
		if _, err := j.Join(heads); err != nil {
			t.Fatal(err)
		}
		for row, n := 0, 0; row < s.Rows; n++ {
			end := j.groupEnd(s, row)
			var rows []int
			for ; row < end; row++ {
				rows = append(rows, row)
			}
			want := naiveRow(p, heads, rows)
			list, demand := j.list(n)
			set := make([]uint64, s.MaxSeqLen()>>6+1)
			j.load(n, set)
			members := slices.Sorted(slices.Values(list[:demand]))
			if got := appendMembers(nil, set); !slices.Equal(got, members) {
				t.Fatalf("seed %d, row %d of %+v: %v are demanded, of the list %v", seed, n, p.layout, got, members)
			}
			picked, scores := j.appendPicked(nil, list[:demand], 0), j.out.ScoreList(n)
			if !slices.Equal(list, want.Blocks) || demand != want.demand || p.layout.HasPicked() && !slices.Equal(picked, want.picked[:demand]) || scores != nil && !slices.Equal(scores, want.scores) {
				t.Fatalf("seed %d, row %d of %+v: %v, %d demanded, %v picked, scores %v, literally %+v", seed, n, p.layout, list, demand, picked, scores, want)
			}
			if j.positions(n) != len(rows) || j.out.Steps[n] != s.Steps[end-1] || j.span(n) != int(s.Steps[end-1]-s.Steps[rows[0]])+1 {
				t.Fatalf("seed %d, row %d: %d positions", seed, n, j.positions(n))
			}
		}
	}
}

// Join refuses unchecked lists if and only if the format forbids them.
func TestBlocksRefuseWhatTheFormatForbids(t *testing.T) {
	j := new(Joiner)
	refused := uint64(0)
	for seed := uint64(0); seed < 4000; seed++ {
		r := rand.New(rand.NewPCG(seed, 32))
		o := replaytest.Medium(r)
		o.Steps++ // at least one row to break
		s, p := drawLists(r, o)
		if !p.ranks {
			s.Scores = nil
		}
		if seed%16 == 0 {
			p.meta.Candidates = max(p.topk, p.meta.Candidates-1)
		}
		replaytest.Damage(r, s, p.pins.Blocks(s.MaxSeqLen()))
		want := trace.NewChecker("stream", &p.meta).First(s)
		j.Layout, j.K, j.M, j.Ranks, j.Checks = Layout{Factor: 2 + r.IntN(20), Heads: 1, Positions: 1}, p.topk, p.meta.Candidates, p.ranks, true
		j.Pins.BlockTokens = p.pins.BlockTokens * j.Factor
		_, err := j.Join([]trace.Stream{*s})
		if err != nil && err != ErrBroken || (err == nil) != (want == nil) {
			t.Fatalf("seed %d: joining says %v, the format %v", seed, err, want)
		}
		if err != nil {
			refused++
		}
	}
	if refused < 1000 {
		t.Errorf("%d streams were refused: the draw no longer covers what it should", refused)
	}
}

// A delta that derives members when they are read has the same members as one that derives them in
// Build. Its counts of entries, for rows and for entering blocks, agree with its members.
func TestDerivedMembers(t *testing.T) {
	var now, later Delta
	pinned := 0
	for seed := uint64(0); seed < 1000; seed++ {
		r := rand.New(rand.NewPCG(seed, 33))
		o := replaytest.Medium(r)
		o.BlockTokens, o.Gap, o.Ascending = 1, 0, false
		s, p := drawLists(r, o)
		j := &Joiner{Layout: Layout{Factor: 1 + r.IntN(9), Heads: 1, Positions: 1 + r.IntN(3)}, K: p.topk, M: p.m, Ranks: true, Pins: p.pins}
		if r.IntN(3) == 0 {
			j.Factor, j.Clustered = 1, true
			of := make([]int32, s.MaxSeqLen())
			for t := range of {
				of[t] = r.Int32N(1+int32(len(of))/3) - 1
			}
			j.Group(NewClusters(map[trace.Key][]int32{s.Key: of}, 1), s, p.m)
		}
		j.Pins.BlockTokens = j.Factor
		joined, err := j.Join([]trace.Stream{*s})
		fatal.If(t, err)
		do := Options{K: p.topk, M: p.m, Pins: j.Pins, Meta: &p.meta, Windows: joined.Windows, Joined: j}
		fatal.If(t, later.Build(joined, do, nil))
		do.Members = true
		fatal.If(t, now.Build(joined, do, nil))
		if !j.HasPicked() {
			continue
		}
		for i := range now.Rows {
			members, picked := later.Members(i), later.Picked(i)
			if !slices.Equal(members, now.Members(i)) || !slices.Equal(picked, now.Picked(i)) {
				t.Fatalf("seed %d, row %d: members %v hold %v, at once %v hold %v", seed, i, members, picked, now.Members(i), now.Picked(i))
			}
			var a, b Change
			later.Change(i, &a)
			now.Change(i, &b)
			if !slices.Equal(a.Enter, b.Enter) || !slices.Equal(a.EnterPicked, b.EnterPicked) || a.Entries != b.Entries || a.Demand != len(members) {
				t.Fatalf("seed %d, row %d: changes %+v, at once %+v", seed, i, a, b)
			}
			sum := int64(0)
			for _, n := range picked {
				sum += int64(n)
			}
			if a.Entries != sum {
				t.Fatalf("seed %d, row %d: %d entries, the members hold %d", seed, i, a.Entries, sum)
			}
			for n, x := range a.Enter {
				if at, _ := slices.BinarySearch(members, x); a.EnterPicked[n] != picked[at] {
					t.Fatalf("seed %d, row %d: block %d enters with %d entries and has %d", seed, i, x, a.EnterPicked[n], picked[at])
				}
			}
			if _, demand := later.rows.list(i); demand > len(members) {
				pinned++
			}
		}
	}
	if pinned < 1000 {
		t.Errorf("%d rows list pinned blocks: the draw no longer covers what it should", pinned)
	}
}
