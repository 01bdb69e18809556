package schedule

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// opposite places a fetch and a write-back that begin together, and computation after the fetch.
func opposite(l Layer) *Timeline {
	t := NewTimeline()
	fetched := t.Add(FetchBlocks, 0, 0, l.Fetch.Seconds, None)
	t.Add(Store, 0, 0, l.Store, None)
	t.Add(Attend, 0, 0, l.Attend, fetched)
	t.Contend(&Step{Whole: []Layer{l}})
	return t
}

// Loads are 0.8 and 0.7 for 10 and 4 s, so both together take 1.5 times as long. The write-back
// ends at 6, with 4 of the fetch's 10 done. The fetch ends at 12 = 10 + 4·0.5, and the SMs begin
// then. With loads 0.6 and 0.4 nothing slows.
func TestOppositeByHand(t *testing.T) {
	l := Layer{Fetch: Transfer{Seconds: 10}, Store: 4, Attend: 3, Loads: Loads{Fetch: 0.8, Store: 0.7}}
	tl := opposite(l)
	near(t, "write-back", tl.Events[1].End, 6)
	near(t, "fetch", tl.Events[0].End, 12)
	near(t, "step", tl.End(), 15)
	x := tl.Exposure()
	near(t, "exposed fetch", x[Fetch], 12)
	near(t, "computation", x[Compute], 3)
	l.Loads = Loads{Fetch: 0.6, Store: 0.4}
	near(t, "undisturbed", opposite(l).End(), 13)

	// The write-back begins at 7, with 3 of the fetch left. Both are slow until the fetch ends at
	// 11.5. By then 3 of the write-back's 4 are done.
	tl = NewTimeline()
	l = Layer{Project: 7, Fetch: Transfer{Seconds: 10}, Store: 4, Loads: Loads{Fetch: 0.8, Store: 0.7}}
	project := tl.Add(Project, 0, 0, l.Project, None)
	tl.Add(FetchBlocks, 0, 0, l.Fetch.Seconds, None)
	tl.Add(Store, 0, 0, l.Store, project)
	tl.Contend(&Step{Whole: []Layer{l}})
	near(t, "a late write-back delays the fetch", tl.Events[1].End, 11.5)
	near(t, "and ends alone", tl.Events[2].End, 12.5)
}

// A fetch and a write-back on real links take the time of transfer.Link.Both.
func TestOppositeIsBoth(t *testing.T) {
	library, err := hardware.Load("")
	fatal.If(t, err)
	for _, name := range []string{"h100", "rtx4090", "h20", "gh200"} {
		m, err := library.Machine(name)
		fatal.If(t, err)
		link := transfer.NewLink(m.Link)
		for mechanism := range transfer.Kernel + 1 {
			in, err1 := link.Path(transfer.HostToDevice, mechanism)
			out, err2 := link.Path(transfer.DeviceToHost, mechanism)
			if err1 != nil || err2 != nil {
				continue
			}
			for _, blocks := range []int64{10, 1000, 3000} {
				a, b := in.Cost(transfer.Request{Descriptors: 1000, Bytes: 1000 << 16, Launches: 1}), out.Cost(transfer.Request{Descriptors: blocks, Bytes: blocks << 16, Launches: 1})
				l := Layer{Fetch: Transfer{a.Seconds, a.By.Launch}, Store: b.Seconds, Loads: Loads{Fetch: a.Load, Store: b.Load}}
				if got, want := opposite(l).End(), link.Both(mechanism, a, b); math.Abs(got/want-1) > 1e-9 {
					t.Errorf("%s, %v, %d blocks back: %g s, both ways %g", name, mechanism, blocks, got, want)
				}
			}
		}
	}
}

// loaded returns a random step with write-back, SSD and loads of the link.
func loaded(r *rand.Rand, layers int) *Step {
	s := random(r, layers)
	for i := range s.Whole {
		l := &s.Whole[i]
		l.Store, l.Read, l.Hop = 3*r.Float64(), r.Float64(), Transfer{Seconds: r.Float64()}
		l.Loads = Loads{r.Float64(), r.Float64(), r.Float64(), r.Float64()}
	}
	s.Parts = [][]Layer{s.Whole, s.Whole}
	return s
}

// If everything is placed anew without loads, no event moves.
func TestPlacedAnew(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 100 {
		s := loaded(r, 1+r.IntN(6))
		for i := range s.Whole {
			s.Whole[i].Loads = Loads{}
		}
		for _, name := range Names() {
			tl := place(t, scheduleOf(t, name), s)
			before, end := append([]Event{}, tl.Events...), tl.End()
			tl.sim.run(tl, s)
			for i, e := range tl.Events {
				if e.Start != before[i].Start || e.End != before[i].End {
					t.Fatalf("%s: %s of layer %d is at %g to %g, was at %g to %g", name, e.Kind, e.Layer, e.Start, e.End, before[i].Start, before[i].End)
				}
			}
			if tl.End() != end {
				t.Errorf("%s ends at %g, ended at %g", name, tl.End(), end)
			}
		}
	}
}

// slowly runs a timeline's operations in small steps of time and returns the end of each.
func slowly(tl *Timeline, s *Step, dt float64) (ends []float64) {
	left, queue := make([]float64, len(tl.Events)), [Resources][]Op{}
	ends = make([]float64, len(tl.Events))
	for i, e := range tl.Events {
		left[i], ends[i] = e.Seconds, math.Inf(1)
		queue[e.Kind.Resource()] = append(queue[e.Kind.Resource()], Op(i))
	}
	for now, open := 0., len(ends); open > 0; now += dt {
		var at [Resources]Op
		for again := true; again; { // until no more operations end or begin
			again = false
			for r := range queue {
				at[r] = None
				var rest []Op
				for _, op := range queue[r] {
					ready := true
					for _, before := range tl.needs(op) {
						ready = ready && (before == None || ends[before] <= now)
					}
					switch {
					case ready && left[op] <= 0 && (at[r] == None || tl.Events[op].Seconds == 0):
						ends[op], again = now, true
						open--
						continue
					case tl.Events[op].Seconds > 0 && at[r] == None:
						at[r] = op
						if !ready {
							at[r] = -2 // other operations wait behind it
						}
					}
					rest = append(rest, op)
				}
				queue[r] = rest
			}
		}
		pace := 1.
		if at[H2D] >= 0 && at[D2H] >= 0 {
			pace = 1 / max(1, s.load(&tl.Events[at[H2D]])+s.load(&tl.Events[at[D2H]]))
		}
		for r, op := range at {
			if op >= 0 && (Resource(r) == H2D || Resource(r) == D2H) {
				left[op] -= dt * pace
			} else if op >= 0 {
				left[op] -= dt
			}
		}
	}
	return ends
}

// Every operation ends at the time of a simulation with the same rules in small steps of time.
// Causes still sum to the step, which is no shorter than without contention.
func TestContendAgainstSmallSteps(t *testing.T) {
	r, slowed := rand.New(rand.NewPCG(13, 14)), 0
	for range 4 {
		s := loaded(r, 3)
		for _, name := range Names() {
			tl := place(t, scheduleOf(t, name), s)
			undisturbed := tl.End()
			tl.Contend(s)
			if tl.End() < undisturbed-1e-12 {
				t.Errorf("%s takes %g, undisturbed %g", name, tl.End(), undisturbed)
			}
			if tl.End() > undisturbed*1.01 {
				slowed++
			}
			x := tl.Exposure()
			near(t, name+": causes", x.Sum(), tl.End())
			const dt = 1e-3
			for i, end := range slowly(tl, s, dt) {
				if e := &tl.Events[i]; math.Abs(e.End-end) > dt*float64(len(tl.Events)) {
					t.Fatalf("%s: %s of layer %d ends at %g, by small steps at %g", name, e.Kind, e.Layer, e.End, end)
				}
			}
		}
	}
	if slowed < 5 {
		t.Errorf("%d timelines were slowed, expected more", slowed)
	}
}

// A stretched step ends when the step ends whose operations are added one by one.
func TestStretchedAgainstAppend(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	again := NewTimeline() // one for all
	for range 200 {
		s := loaded(r, 1+r.IntN(6))
		var factors [kinds]float64
		for k := range factors {
			factors[k] = []float64{0, 0.5, 1, 3 * r.Float64()}[r.IntN(4)]
		}
		for _, name := range Names() {
			tl, want := place(t, scheduleOf(t, name), s), NewTimeline()
			for i, e := range tl.Events {
				want.append(e.Kind, int(e.Layer), int(e.Part), e.Seconds*factors[e.Kind], tl.needs(Op(i)))
			}
			want.Contend(s)
			if got := tl.Stretched(again, s, func(k Kind) float64 { return factors[k] }); got != want.End() || got != again.End() {
				t.Fatalf("seed %d: %s ends at %g, expected %g", seed, name, got, want.End())
			}
		}
	}
}
