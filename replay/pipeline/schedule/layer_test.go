package schedule

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// staged is a layer with the fetches of transfer's example of KVDrive's levels. It has 8 blocks of
// 4 us in host memory, 2 on the SSD that take 120 us there, and 60 us of selection before.
func staged(a ReadAhead) Layer {
	return Layer{Project: 20, Select: 40, Fetch: Transfer{Seconds: 32}, Read: 120, Hop: Transfer{Seconds: 8}, Attend: 5, Ahead: a}
}

// By hand: max(32, 120) + 8. Ahead: max(32, 120 − 60) + 8. Direct: max(32 + 8, 120). Both: max(32 +
// max(0, 8 − 60), 120 − 60). If a tenth is wrong, the SSD takes 12 us more and, if direct, the link
// 0.8 us. The second layer's reads begin after the first layer.
func TestReadAheadByHand(t *testing.T) {
	for _, c := range []struct {
		ahead ReadAhead
		want  float64
	}{
		{ReadAhead{}, 128}, {ReadAhead{Accuracy: 1}, 68}, {ReadAhead{Direct: true}, 120}, {ReadAhead{Accuracy: 1, Direct: true}, 60},
		{ReadAhead{Accuracy: 0.9}, 80}, {ReadAhead{Accuracy: 0.9, Direct: true}, 72},
	} {
		l := staged(c.ahead)
		near(t, "fetch", l.fetching(1), c.want)
		for _, name := range []string{"sequential", "sfc:parts=1"} {
			if name == "sfc:parts=1" && c.ahead.Accuracy > 0 {
				l.Project = 60 // projections and selection together hide reads
				l.Select = 0
			}
			tl := place(t, scheduleOf(t, name), layers(l, 3))
			near(t, name, tl.End(), 3*(60+c.want+5))
		}
	}
}

// If nothing else takes time, closed forms also hold with reads ahead.
func TestReadAheadClosed(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for range 200 {
		s := random(r, 1+r.IntN(6))
		for i := range s.Whole {
			l := &s.Whole[i]
			l.Read, l.Hop = 3*r.Float64(), Transfer{Seconds: r.Float64()}
			l.Ahead = ReadAhead{float64(r.IntN(3)) / 2, r.IntN(2) == 0}
			l.Missed = 0 // da: nothing computes while attention waits for the fetch
		}
		c := scheduleOf(t, "sequential").(Closed)
		near(t, "sequential", place(t, c, s).End(), c.Closed(s))
		c = scheduleOf(t, "da").(Closed)
		near(t, "da", place(t, c, s).End(), c.Closed(s))
		for _, name := range Names() {
			plain := &Step{Whole: append([]Layer{}, s.Whole...), Output: s.Output}
			for i := range plain.Whole {
				plain.Whole[i].Ahead.Accuracy = 0
				s.Whole[i].Ahead.Accuracy = 1
			}
			s.Parts = [][]Layer{s.Whole, s.Whole}
			plain.Parts = [][]Layer{plain.Whole, plain.Whole}
			if ahead, waiting := place(t, scheduleOf(t, name), s).End(), place(t, scheduleOf(t, name), plain).End(); ahead > waiting+1e-9 {
				t.Errorf("%s takes %g with reads ahead, %g without", name, ahead, waiting)
			}
		}
	}
}

// The timeline of a step has the all-reduces in their places, and the closed form has the same time.
func TestTensorParallelTimeline(t *testing.T) {
	l := Layer{Project: 1, Pre: 2, Post: 4, Reduce: 0.5, Dense: Dense{Attend: 3}}
	step := layers(l, 3)
	step.Output, step.Embed, step.Gather = 5, 0.5, 0.25
	tl := place(t, OnGPU{Dense: true}, step)
	near(t, "step", tl.End(), 3*(1+2+3+4+2*0.5)+5+0.5+0.25)
	near(t, "closed form", OnGPU{Dense: true}.Closed(step), tl.End())
	var kinds []string
	for _, e := range tl.Events {
		if e.End > e.Start {
			kinds = append(kinds, e.Kind.String())
		}
	}
	layer := "project, pre-attention, attention, output projection, FFN, all-reduce, all-reduce, "
	want := "all-reduce, " + strings.Repeat(layer, 3) + "vocabulary, all-gather"
	if got := strings.Join(kinds, ", "); got != want {
		t.Errorf("operations: %s, expected %s", got, want)
	}
	x := tl.Exposure()
	near(t, "communication", x[Communication], 3*1+0.75)
}
