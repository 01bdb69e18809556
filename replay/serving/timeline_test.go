package serving

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// A timeline has the figures of all iterations of a span, which the slow way reads one by one.
func TestTimeline(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, iterations := range []int{1, 5, 400, 5000} {
		var steps []StepRow
		var tl Timeline
		for now := int64(r.IntN(1e9)); len(steps) < iterations; {
			s := StepRow{Start: now, End: now + int64(r.IntN(5e7)), Running: r.IntN(100), Waiting: r.IntN(100), Weights: 7, Activations: int64(r.IntN(1000)), KV: int64(r.IntN(1000))}
			if now = s.End; r.IntN(50) == 0 {
				now += int64(r.IntN(3e9)) // no request
			}
			steps = append(steps, s)
			if err := tl.Step(&s); err != nil {
				t.Fatal(err)
			}
		}
		tl.Widen(int64(r.IntN(2)) * 2 * tl.Width)
		spans, end := tl.Spans(), steps[len(steps)-1].End
		if n := int64(len(spans)); n > mostSpans || n != (end+tl.Width-1)/tl.Width {
			t.Fatalf("%d spans of %d ns for %d ns", n, tl.Width, end)
		}
		for i, got := range spans {
			from, to := int64(i)*tl.Width, min(int64(i+1)*tl.Width, end)
			want := Span{Memory: [4]int64{7}}
			for _, s := range steps {
				if inside := float64(min(s.End, to) - max(s.Start, from)); inside > 0 {
					want.Running += inside * float64(s.Running) / float64(to-from)
					want.Waiting += inside * float64(s.Waiting) / float64(to-from)
					want.Memory[1], want.Memory[3] = max(want.Memory[1], s.Activations), max(want.Memory[3], s.KV)
				}
			}
			if math.Abs(got.Running-want.Running) > 1e-9*want.Running || math.Abs(got.Waiting-want.Waiting) > 1e-9*want.Waiting || got.Memory != want.Memory {
				t.Fatalf("%d iterations, span %d: %+v, expected %+v", iterations, i, got, want)
			}
		}
	}
}

// The finding names the system that serves most, by the strictest figure that a run has.
func TestFinding(t *testing.T) {
	of := func(name string, figures ...float64) *Result {
		r := &Result{System: name, Summary: &Summary{Throughput: figures[0]}}
		r.Attainment = Share64(figures[1])
		return r
	}
	plain := func() []*Result { return []*Result{of("a", 100, 0.5), of("b", 200, 0.25), of("c", 200, 0.5)} }
	judged, loads := plain(), plain()
	for i := range judged {
		load := float64(3 - i)
		judged[i].limits = Limits{"": {TPOT: 1}}
		loads[i].limits, loads[i].Goodput = judged[i].limits, &load
	}
	p, ratio := 0.02, 0.8
	seeded := func(values ...float64) []*Result {
		all := plain()[:len(values)]
		for i, r := range all {
			r.Seeds = []Seed{{0, [4]*float64{&values[i]}}, {1, [4]*float64{new(3 * values[i])}}}
			if i > 0 {
				r.Compared = []Compared{{Ratio: &ratio, Low: &ratio, High: &ratio, P: &p}}
			}
		}
		return all
	}
	vague := seeded(4, 2)
	vague[1].Compared[0].P = nil
	for want, results := range map[string][]*Result{
		"The largest throughput is that of b and c (200 tokens/s), before a (100 tokens/s).":                              plain(),
		"The largest share of requests within the limits is that of a and c (50.0 %), before b (25.0 %).":                 judged,
		"The share of requests within the limits of a and c is 50.0 %.":                                                   {judged[0], judged[2]},
		"The largest load within the limits is that of a (3 requests/s), before b (2 requests/s).":                        loads,
		"Over 2 seeds, the throughput of a is 8 tokens/s.":                                                                seeded(4),
		"Over 2 seeds, the largest throughput is that of c (12 tokens/s), with a significant difference between c and a ": seeded(2, 4, 6),
		"(8 tokens/s), with a significant difference between b and a (ratio 0.8, 95 % interval 0.8 to 0.8, p 0.02).":      seeded(4, 2),
		"(8 tokens/s), with no significant difference between b and a (ratio 0.8, 95 % interval 0.8 to 0.8, p –).":        vague,
	} {
		if got := Finding(results); !strings.Contains(got, want) {
			t.Errorf("%s, expected %s", got, want)
		}
	}
}
