package serving

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/memo"
	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// Quantiles of the histogram are those of the sorted times, within a 1024th.
func TestSpread(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h histogram
	var all []int64
	for range 5000 {
		ns := int64(r.Uint64() >> (2 + r.IntN(60)))
		h.add(ns)
		all = append(all, ns)
	}
	slices.Sort(all)
	s := h.spread()
	for _, q := range []struct {
		share     float64
		got, want int64
	}{{0.5, s.P50, all[2499]}, {0.9, s.P90, all[4499]}, {0.99, s.P99, all[4949]}} {
		if q.got > q.want || float64(q.want-q.got) > float64(q.want)/1024 {
			t.Errorf("quantile %g is %d, expected %d or at most a 1024th less", q.share, q.got, q.want)
		}
	}
	var empty histogram
	if empty.spread() != (Spread{}) {
		t.Error("an empty histogram has times")
	}
}

// A request alone runs its prompt in chunks and then one token an iteration. All times follow by hand
// from the prices of toy.
func TestByHand(t *testing.T) {
	o := Options{Preempt: pipeline.ByRecompute, BlockTokens: 4, Budget: 8, MaxRunning: 4, Memory: Memory{Total: 1000, Block: 10}}
	rows, steps, err := runAll(t, []Request{{Arrival: 50, Input: 10, Output: 3}}, o)
	if err != nil {
		t.Fatal(err)
	}
	// 8 tokens: 100 + 56. 2 after 8: 100 + 14 + 1 + 5 for the output. Decoding at 11 and 12 tokens:
	// 100 + 2 + 3 + 5 and 100 + 3 + 3 + 5.
	first := int64(50 + 156 + 120)
	want := RequestRow{ID: 0, Arrival: 50, Admitted: 50, First: first, Finish: first + 110 + 111, Input: 10, Output: 3}
	if len(rows) != 1 || rows[0] != want || len(steps) != 4 || steps[3].Blocks != 3 {
		t.Errorf("%+v in %+v, expected %+v", rows, steps, want)
	}
	if want.TTFT() != 276 || want.TPOT() != 110 || want.Queue() != 0 {
		t.Errorf("TTFT %d, TPOT %d, queue %d", want.TTFT(), want.TPOT(), want.Queue())
	}
}

// A server of one request at a time admits the higher class first, and in order of arrival within a
// class. Limits of a class replace those of all.
func TestClasses(t *testing.T) {
	o := Options{Preempt: pipeline.ByRecompute, BlockTokens: 1, Budget: 8, MaxRunning: 1, Memory: Memory{Total: 100, Block: 10},
		Priority: []string{"chat", "code"}, Limits: Limits{"": {TTFT: 400}, "chat": {TTFT: 250}}}
	all := []Request{{Input: 1, Output: 1, Class: "batch"}, {Input: 1, Output: 1, Class: "batch"}, {Arrival: 10, Input: 1, Output: 1, Class: "code"},
		{Arrival: 20, Input: 1, Output: 1, Class: "chat"}, {Arrival: 30, Input: 1, Output: 1, Class: "chat"}, {Arrival: 150, Input: 1, Output: 1}}
	var order []int64
	s := NewSummary(o)
	err := Run(context.Background(), FromSlice(all), constant(100), o, Rows{func(r *RequestRow) error {
		order = append(order, r.ID)
		return s.Request(r)
	}, s.Step, nil})
	s.finish()
	if want := []int64{0, 3, 4, 2, 1, 5}; err != nil || !slices.Equal(order, want) {
		t.Errorf("requests end in the order %v: %v, expected %v", order, err, want)
	}
	// They end every 100 ns. TTFT of chat is 180 and 270, of batch 100 and 500, of code 390, of the last 450.
	if s.Attainment != 3./6 || len(s.Classes) != 3 || s.attainment() != 0.5 {
		t.Errorf("%+v", s)
	}
	for i, want := range []float64{0.5, 0.5, 1} {
		if c := s.Classes[i]; c.Class != []string{"batch", "chat", "code"}[i] || float64(c.Attainment) != want || c.Requests != []int64{2, 2, 1}[i] {
			t.Errorf("class %s of %d requests meets %g, expected %g", c.Class, c.Requests, c.Attainment, want)
		}
	}
}

// A request of a lower class gives up its memory, although it was admitted first.
func TestPreemptsLowerClass(t *testing.T) {
	o := Options{Preempt: pipeline.ByRecompute, BlockTokens: 1, Budget: 8, MaxRunning: 2, Memory: Memory{Total: 100, Block: 10}, Priority: []string{"chat"}}
	for _, first := range []string{"chat", "batch"} {
		rows, _, err := runAll(t, []Request{{Input: 2, Output: 7, Class: first}, {Arrival: 1, Input: 2, Output: 7, Class: "chat"}}, o)
		if err != nil || len(rows) != 2 {
			t.Fatal(rows, err)
		}
		for _, r := range rows {
			if lower := r.Class == "batch" || first == "chat" && r.ID == 1; lower != (r.Preemptions > 0) {
				t.Errorf("with the first of %s: %+v", first, r)
			}
		}
	}
}

// The search for goodput finds the load of a server that takes requests one by one.
func TestGoodput(t *testing.T) {
	var all []Request
	for i := range 400 {
		all = append(all, Request{Arrival: int64(i) * 1e6, Input: 1, Output: 1})
	}
	// An iteration takes 1 ms and has one request, so that the queue grows beyond 1000 requests/s.
	o := Options{Preempt: pipeline.ByRecompute, BlockTokens: 1, Budget: 1, MaxRunning: 1, Memory: Memory{Total: 100, Block: 10}}
	from := func(stretch float64) (Source, func(), error) {
		scaled := slices.Clone(all)
		for i := range scaled {
			scaled[i].Arrival = int64(float64(scaled[i].Arrival) * stretch)
		}
		return FromSlice(scaled), func() {}, nil
	}
	for _, load := range []float64{1, 5, 1. / 5} {
		got, note, err := goodput(func(stretch float64) (*Summary, error) {
			o.Limits = Limits{"": {TTFT: 3e6}}
			s := NewSummary(o)
			source, _, _ := from(stretch * load)
			err := Run(context.Background(), source, constant(1e6), o, Rows{Request: s.Request, Step: s.Step})
			s.finish()
			return s, err
		}, 0.9)
		if err != nil || got < 980 || got > 1030 || note != "" {
			t.Errorf("goodput from a load of %g is %g, %q: %v, expected about 1000", load, got, note, err)
		}
	}
}

// A goodput above the capacity of a server, whose queue grows to the end, is noted.
func TestGoodputNotesAGrowingQueue(t *testing.T) {
	o := Options{Preempt: pipeline.ByRecompute, BlockTokens: 1, Budget: 1, MaxRunning: 1, Memory: Memory{Total: 100, Block: 10}}
	for _, c := range []struct {
		gap   int64 // ns between arrivals, where the server takes 1 ms for each
		grows bool
	}{{2e6, false}, {1.05e6, false}, {0.8e6, true}, {0.5e6, true}} {
		var all []Request
		for i := range 200 {
			all = append(all, Request{Arrival: int64(i) * c.gap, Input: 1, Output: 1})
		}
		p := pacing(all[199].Arrival)
		fatal.If(t, Run(t.Context(), FromSlice(all), constant(1e6), o, Rows{Request: p.request}))
		if note := p.note(); strings.Contains(note, "requests end while 100 arrive") != c.grows {
			t.Errorf("gaps of %d ns: %q", c.gap, note)
		}
	}
}

// A search that ends at its bounds says so.
func TestGoodputBeyondTheSearch(t *testing.T) {
	for attained, want := range map[float64]struct {
		rate float64
		note string
	}{1: {512, "256 times the load still meets"}, 0: {0, "a 256th of the load does not meet"}} {
		got, note, err := goodput(func(stretch float64) (*Summary, error) {
			return &Summary{Rate: 2 / stretch, Latency: Latency{Attainment: Share64(attained)}}, nil
		}, 0.9)
		if err != nil || got != want.rate || !strings.Contains(note, want.note) {
			t.Errorf("attainment %g: goodput %g, %q, %v, expected %g and %q", attained, got, note, err, want.rate, want.note)
		}
	}
}

// constant is the time of every iteration.
type constant int64

func (c constant) Iteration(*pipeline.Iteration) (int64, error) { return int64(c), nil }
func (constant) Store(int64) int64                              { return 0 }
func (constant) Fetch(int64) int64                              { return 0 }
func (constant) Restore(int64) (int64, error)                   { return 0, nil }

// The memory of a run does not grow with its requests.
func TestFlatMemory(t *testing.T) {
	live := func(requests int) uint64 {
		n, at := 0, int64(0)
		from := func(q *Request) error {
			if n++; n > requests {
				return FromSlice(nil)(q)
			}
			at += 2000
			*q = Request{Arrival: at, Input: 20, Output: 5, Prefix: []int64{int64(n % 50)}}
			return nil
		}
		o := Options{Preempt: pipeline.BySwap, BlockTokens: 4, Budget: 64, MaxRunning: 16, Memory: Memory{Total: 4000, Block: 10, Host: 1000}}
		s := NewSummary(o)
		var m runtime.MemStats
		last := func(r *RequestRow) error {
			if int(r.ID) == requests-1 {
				runtime.GC()
				runtime.ReadMemStats(&m)
			}
			return s.Request(r)
		}
		if err := Run(context.Background(), from, toy{}, o, Rows{Request: last, Step: s.Step}); err != nil {
			t.Fatal(err)
		}
		return m.HeapAlloc
	}
	few, many := live(1000), live(100_000)
	if many > few+few/10+100_000 {
		t.Errorf("%d bytes after 100,000 requests, %d after 1,000", many, few)
	}
}

// Bad requests and options end a run before its first iteration.
func TestRefused(t *testing.T) {
	good := Options{Preempt: pipeline.ByRecompute, BlockTokens: 4, Budget: 8, MaxRunning: 4, Memory: Memory{Total: 100, Block: 10}}
	for want, all := range map[string][]Request{
		"request 2 arrives 5 ns before": {{Arrival: 10, Input: 1, Output: 1}, {Arrival: 5, Input: 1, Output: 1}},
		"has -1 input":                  {{Input: -1, Output: 1}},
		"0 output tokens":               {{Input: 1}},
		"needs 11 blocks of KV":         {{Input: 40, Output: 1}},
		"prefix ids":                    {{Input: 4, Output: 1, Prefix: []int64{1, 2}}},
	} {
		if _, _, err := runAll(t, all, good); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, expected an error with %q", all, err, want)
		}
	}
	for want, change := range map[string]func(o *Options){
		"divisor of 512":        func(o *Options) { o.BlockTokens = 3 },
		"0 tokens":              func(o *Options) { o.Budget = 0 },
		"memory holds no block": func(o *Options) { o.Memory.Weights = 95 },
		"and 0 B are free":      func(o *Options) { o.Memory.Total = -5 },
		"negative memory":       func(o *Options) { o.Memory.Host = -1 },
		"expected recompute":    func(o *Options) { o.Preempt = "" },
	} {
		o := good
		change(&o)
		if _, _, err := runAll(t, []Request{{Input: 1, Output: 1}}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, expected an error with %q", o, err, want)
		}
	}
}

// Times of sparse attention are those of the prices at powers of two, and linear between them.
func TestSparse(t *testing.T) {
	calls := 0
	s := &Sparse{Step: memo.Func(func(size SparseSize) (float64, error) {
		calls++
		batch, tokens := math.Exp2(float64(size.Batch)), math.Exp2(float64(size.Context))
		return batch + tokens*100 + batch*tokens, nil
	})}
	for range 2 {
		for _, at := range [][2]float64{{1, 256}, {4, 1024}, {5, 1024}, {6.5, 700}, {3, 12345}} {
			got, err := s.seconds(at[0], at[1])
			if want := at[0] + 100*at[1] + at[0]*at[1]; err != nil || math.Abs(got-want) > 1e-9*want {
				t.Errorf("%v: %g, expected %g: %v", at, got, want, err)
			}
		}
	}
	if calls != 1+1+1+2+4 {
		t.Errorf("%d prices, expected one for each corner", calls)
	}
	if got, err := s.seconds(1, 3); err != nil || got != 1+25600+256 {
		t.Errorf("a short context takes %g: %v, expected the time of the shortest", got, err)
	}
}
