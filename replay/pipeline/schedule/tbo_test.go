package schedule

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// halved returns a step of n equal layers in two equal halves.
func halved(l Layer, n int) *Step {
	s := layers(l, n)
	s.Parts = [][]Layer{s.Whole, s.Whole}
	return s
}

// The stages of both halves in their order on the SMs, with and without an exchange of experts.
func TestTBOTurns(t *testing.T) {
	l := Layer{Project: 1, Attend: 1, Post: 2, Fetch: Transfer{Seconds: 1}}
	moe := l
	moe.Dispatch, moe.Routed, moe.Combine = 1, 1, 1
	for _, c := range []struct {
		layer Layer
		want  string
	}{
		{l, "project 0, project 1, attention 0, output projection, FFN 0, project 0, " +
			"attention 1, output projection, FFN 1, project 1, attention 0, output projection, FFN 0, attention 1, output projection, FFN 1"},
		{moe, strings.TrimSuffix(strings.Repeat("project 0, project 1, attention 0, "+
			"output projection, FFN 0, attention 1, output projection, FFN 1, routed experts 0, routed experts 1, ", 2), ", ")},
	} {
		var order []string
		for _, e := range place(t, scheduleOf(t, "tbo"), halved(c.layer, 2)).Events {
			if e.Kind.Resource() == SMs && e.End > e.Start {
				order = append(order, e.Kind.String()+" "+string('0'+rune(e.Part)))
			}
		}
		if got := strings.Join(order, ", "); got != c.want {
			t.Errorf("SMs: %s\nexpected: %s", got, c.want)
		}
	}
}

// By hand: three stages of 2 s for each half and layer. Each transfer of 2 s hides behind a stage of
// the other half, except for the last combine. Without halves, every transfer is exposed.
func TestTBOHidesExchange(t *testing.T) {
	l := Layer{Project: 2, Attend: 1, Post: 3, Routed: 2, Dispatch: 2, Combine: 2, Fetch: Transfer{Seconds: 2}}
	near(t, "tbo", place(t, scheduleOf(t, "tbo"), halved(l, 10)).End(), 10*2*6+2)
	near(t, "sequential", place(t, scheduleOf(t, "sequential"), layers(l, 10)).End(), 10*(6+6))
	x := place(t, scheduleOf(t, "tbo"), halved(l, 10)).Exposure()
	near(t, "exposed combine", x[Combining], 2)
	near(t, "exposed dispatch", x[Dispatching], 0)
}

// By hand, a layer: selection of 2, attention of 8 of which half is on residents, a fetch of 10.
func TestTBOWithinByHand(t *testing.T) {
	s := halved(Layer{Select: 2, Attend: 8, Missed: 0.5, Fetch: Transfer{Seconds: 10}}, 1)
	// Plain: fetches end at 12 and 22, attention at 20 and 30.
	near(t, "tbo", place(t, scheduleOf(t, "tbo"), s).End(), 30)
	// DA: the first half computes from 4 to 8 and from 12 to 16, the second from 16 to 20 and from 22
	// to 26.
	near(t, "da", place(t, scheduleOf(t, "tbo:within=da"), s).End(), 26)
	// DBA: the fetches of half a selection begin at 1, after 5 each: 6, 11, 16, 21.
	near(t, "dba", place(t, scheduleOf(t, "tbo:within=dba"), s).End(), 25)
	near(t, "dba with overhead", place(t, scheduleOf(t, "tbo:within=dba,delta_us=500000"), s).End(), 25.5)
}

// A step takes at least the work of each resource and at least each half alone. Overlap within the
// halves never makes a step longer if fetches have no fixed part.
func TestTBOBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	for range 300 {
		s := random(r, 1+r.IntN(9))
		a, b := random(r, len(s.Whole)), random(r, len(s.Whole))
		for i := range a.Whole { // both halves exchange, or none does
			x, y := &a.Whole[i], &b.Whole[i]
			y.Dispatch, y.Combine, y.Routed = x.Dispatch/2, x.Combine/2, y.Post*x.Routed/x.Post
		}
		s.Parts = [][]Layer{a.Whole, b.Whole}
		before := 0.
		for _, name := range []string{"tbo:within=dba", "tbo:within=da", "tbo"} {
			tl := place(t, scheduleOf(t, name), s)
			end := tl.End()
			for resource := range Resources {
				if work := busy(tl, resource); end < work-1e-9 {
					t.Fatalf("%s takes %g, less than the %g of %s", name, end, work, resource)
				}
			}
			for _, half := range s.Parts {
				alone := place(t, scheduleOf(t, name), &Step{Whole: half, Output: s.Output}).End()
				if end < alone-1e-9 {
					t.Fatalf("%s takes %g, one half alone %g", name, end, alone)
				}
			}
			if end < before-1e-9 {
				t.Fatalf("%s takes %g, with more overlap %g", name, end, before)
			}
			before = end
		}
	}
}

func TestParseTBO(t *testing.T) {
	for text, want := range map[string]string{
		"tbo": "tbo", "tbo:within=none": "tbo", "tbo:within=da": "tbo:within=da",
		"tbo:within=dba":                        "tbo:within=dba,phi=0.5,delta_us=0",
		"two-batch-overlap:within=dba,phi=0.25": "tbo:within=dba,phi=0.25,delta_us=0",
	} {
		if got := scheduleOf(t, text).Name(); got != want {
			t.Errorf("%s is %s, expected %s", text, got, want)
		}
		if again := scheduleOf(t, want).Name(); again != want {
			t.Errorf("%s parses to %s", want, again)
		}
	}
	for _, text := range []string{"tbo:phi=0.3", "tbo:within=da,delta_us=5", "tbo:within=sfc"} {
		if s, err := Parse(text); err == nil {
			t.Errorf("%s is %s, expected an error", text, s.Name())
		}
	}
}
