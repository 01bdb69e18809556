package schedule

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// By hand, a layer: 1 of projections, 1 of selection, 1 before and 2 after the attention, 0.5 each way,
// 6 on the CPU. The GPU takes 2 for half of the attention, if the CPU takes the missed half.
func TestHostByHand(t *testing.T) {
	l := Layer{Project: 1, Select: 1, Pre: 1, Post: 2, Attend: 4, Missed: 0.5}
	l.Host = HostAttention{Send: 0.5, Attend: 6, Return: 0.5}
	near(t, "all", place(t, scheduleOf(t, "host"), layers(l, 3)).End(), 3*11)
	near(t, "demand", place(t, scheduleOf(t, "host:attend=demand"), layers(l, 3)).End(), 3*12)
	near(t, "missed", place(t, scheduleOf(t, "host:attend=missed"), layers(l, 3)).End(), 3*12)
	slow := l
	slow.Attend = 20 // the GPU's half takes 10, the CPU's way 7
	near(t, "missed, slow GPU", place(t, scheduleOf(t, "host:attend=missed"), layers(slow, 3)).End(), 3*15)
	// Fetches of 3 run while the GPU finishes a layer and begins the next one. The last one ends 1 later.
	slow.Fetch.Seconds = 3
	near(t, "missed, with fetches", place(t, scheduleOf(t, "host:attend=missed"), layers(slow, 3)).End(), 3*15)
	x := place(t, scheduleOf(t, "host"), layers(l, 3)).Exposure()
	near(t, "exposed", x[OnHost], 3*7)
}

// By hand, layers of 11 as above, with weights of 12 on the host. The first weights take 12. Those of a next
// layer begin with the layer, and the outputs of the CPU follow them: 12, then 0.5 back and 2 after it. The
// last layer takes 11. Weights of 8 hide behind the 8.5 before the outputs.
func TestHostWeights(t *testing.T) {
	l := Layer{Project: 1, Pre: 1, Post: 2, Host: HostAttention{Send: 0.5, Attend: 6, Return: 0.5}}
	l.Dense.Weights = 12
	h := scheduleOf(t, "host:weights=host")
	near(t, "long", place(t, h, layers(l, 3)).End(), 12+2*(12+0.5+2)+11)
	l.Dense.Weights = 8
	near(t, "hidden", place(t, h, layers(l, 3)).End(), 8+3*11)
	near(t, "on the GPU", place(t, scheduleOf(t, "host"), layers(l, 3)).End(), 3*11)
	if name := scheduleOf(t, "host:weights=gpu").Name(); name != "host:attend=all,halves=no" {
		t.Errorf("weights on the GPU: %s", name)
	}
	if _, err := Parse("host:attend=missed,weights=host"); err == nil || !strings.Contains(err.Error(), "keeps a cache on the GPU") {
		t.Errorf("weights on the host with a cache: %v", err)
	}
}

// By hand: the SMs have 4 for a layer of a half, the CPU and its ways 4. So one hides the other, except
// at the ends: the first projections of 2, and the last way.
func TestHostHalves(t *testing.T) {
	l := Layer{Project: 1, Pre: 1, Post: 2, Host: HostAttention{Send: 0.5, Attend: 3, Return: 0.5}}
	tl := place(t, scheduleOf(t, "host:halves=yes"), halved(l, 20))
	if end := tl.End(); end < busy(tl, SMs) || end > busy(tl, SMs)+8 {
		t.Errorf("20 layers take %g, the SMs work for %g", end, busy(tl, SMs))
	}
	whole := l
	whole.Host.Attend, whole.Post, whole.Project, whole.Pre = 6, 4, 2, 2
	if one := place(t, scheduleOf(t, "host"), layers(whole, 20)).End(); one < 1.7*tl.End() {
		t.Errorf("halves take %g, the whole batch %g", tl.End(), one)
	}
}

// Closed forms equal the timeline. Halves take at least the work of each resource and each half alone.
func TestHostClosed(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	for range 300 {
		s := random(r, 1+r.IntN(9))
		for i := range s.Whole {
			s.Whole[i].Host = HostAttention{r.Float64(), 3 * r.Float64(), r.Float64()}
			s.Whole[i].Fetch = Transfer{}
		}
		for _, name := range []string{"host", "host:attend=demand", "host:attend=missed", "host:weights=host", "host:attend=demand,weights=host"} {
			c := scheduleOf(t, name).(Closed)
			near(t, name, place(t, c, s).End(), c.Closed(s))
			h := scheduleOf(t, strings.Replace(c.Name(), "halves=no", "halves=yes", 1))
			s.Parts = [][]Layer{s.Whole, s.Whole}
			tl := place(t, h, s)
			s.Parts = nil
			least := c.Closed(s)
			for resource := range Resources {
				least = max(least, busy(tl, resource))
			}
			if tl.End() < least-1e-9 || tl.End() > 2*c.Closed(s)+1e-9 {
				t.Errorf("%s takes %g, expected %g to %g", h.Name(), tl.End(), least, 2*c.Closed(s))
			}
		}
	}
}
