package echo

import (
	"math/bits"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// workloads are a synthetic stream and a stream of each of three traces.
var workloads = []struct {
	name, path string
	stream, k  int
}{
	{"synthetic", "", 0, 2048},
	{"news", "bundled/smollm2_multi_news_8k", 3, 256},
	{"questions", "corpus/wide_questions", 3, 256},
	{"deep", "corpus/deep_vt", 3, 24},
}

// load returns the stream of workload i and the metadata of its trace.
func load(b *testing.B, i int) (*trace.Stream, *trace.Meta) {
	b.Helper()
	w := &workloads[i]
	if w.path == "" {
		return replaytest.Overlapping(1, 32<<10, w.k, w.k+w.k/4, 512, 0.9),
			&trace.Meta{Version: 1, Order: trace.OrderRank, TopK: w.k, Candidates: w.k + w.k/4, BlockTokens: 1}
	}
	f, err := trace.Open("../../datasets/" + w.path + ".parquet")
	fatal.If(b, err)
	defer f.Close()
	r := f.NewReader(0)
	defer r.Close()
	s, m := new(trace.Stream), *f.Meta()
	fatal.If(b, r.Read(w.stream, s))
	return s, &m
}

// rules runs a benchmark on each workload, with calibration on all blocks, by fine distances, on
// a sample and with trees.
func rules(b *testing.B, run func(b *testing.B, w int, r *rule)) {
	for w, c := range workloads {
		b.Run("trace="+c.name+"/calibrate=on", func(b *testing.B) { run(b, w, &published) })
		b.Run("trace="+c.name+"/calibrate=fine", func(b *testing.B) { run(b, w, &fine) })
		b.Run("trace="+c.name+"/calibrate=sample", func(b *testing.B) { run(b, w, &sample) })
		b.Run("trace="+c.name+"/calibrate=trees", func(b *testing.B) { run(b, w, &withTrees) })
	}
}

// timer keeps the fastest replay of each step.
type timer struct {
	fastest []time.Duration
	at      int
}

// add adds the time of the next step of a replay.
func (t *timer) add(took time.Duration) {
	if t.at == len(t.fastest) {
		t.fastest = append(t.fastest, took)
	}
	t.fastest[t.at] = min(t.fastest[t.at], took)
	t.at++
}

// sum returns the sum of the fastest replays of each step.
func (t *timer) sum() (all time.Duration) {
	for _, d := range t.fastest {
		all += d
	}
	return all
}

// BenchmarkStep measures the steps of a stream without evictions. It reports the sum of the fastest
// replays of each step, so other load on the machine disturbs little.
func BenchmarkStep(b *testing.B) {
	rules(b, func(b *testing.B, w int, r *rule) {
		c := &workloads[w]
		s, _ := load(b, w)
		blocks := 0
		for i := range s.Steps {
			for _, x := range s.List(i) {
				blocks = max(blocks, int(x)+1)
			}
		}
		var h history
		var t timer
		var active, demand int
		for range max(b.N, 3) {
			h.reset(blocks, true, r)
			active, demand, t.at = 0, 0, 0
			for i := range s.Steps {
				list := s.List(i)
				k := min(c.k, len(list))
				begun := time.Now()
				h.step(nil, list[:k], list[k:])
				t.add(time.Since(begun))
				demand += k
				for _, w := range h.active {
					active += bits.OnesCount64(w)
				}
			}
		}
		all, steps := t.sum(), float64(len(s.Steps))
		b.ReportMetric(float64(active)/steps, "active/step")
		b.ReportMetric(float64(all.Nanoseconds())/float64(active), "ns/active")
		b.ReportMetric(float64(all.Microseconds())/steps, "µs/step")
		b.ReportMetric(float64(demand)/all.Seconds()/1e6, "Maccess/s")
		b.ReportMetric(0, "ns/op")
	})
}

// timed measures the steps of a pass.
type timed struct {
	policies.Sweep
	timer
}

func (p *timed) Distances(s *policies.Step, dst []int32) []int32 {
	begun := time.Now()
	dst = p.Sweep.Distances(s, dst)
	p.add(time.Since(begun))
	return dst
}

// BenchmarkCapacities measures passes at 2 × K and at five capacities, with births and evictions. It
// reports the sums of the fastest replays of each step, and their ratio.
func BenchmarkCapacities(b *testing.B) {
	rules(b, func(b *testing.B, w int, r *rule) {
		c := &workloads[w]
		s, m := load(b, w)
		var d demand.Delta
		sink, local, _ := m.Pins()
		o := demand.Options{K: c.k, M: m.Candidates, Meta: m, Windows: s.Windows, Members: true,
			Pins: demand.Pins{Sink: sink, Local: local, BlockTokens: m.BlockTokens}}
		fatal.If(b, d.Build(s, o, nil))
		k := int32(c.k)
		var µs [2]float64
		for i, sizes := range [2][]int32{{2 * k}, {k * 5 / 4, k * 3 / 2, 2 * k, 3 * k, 4 * k}} {
			sweep := cache.NewSweep(&Policy{Calibrate: true, rule: r})
			t := &timed{Sweep: sweep.Pass}
			sweep.Pass = t
			for range max(b.N, 3) {
				t.at = 0
				if _, err := sweep.Run(&d, sizes, cache.Start{Ranks: true, Unit: 1}); err != nil {
					b.Fatal(err)
				}
			}
			µs[i] = t.sum().Seconds() * 1e6 / float64(len(t.fastest))
		}
		b.ReportMetric(µs[0], "µs/step-of-one")
		b.ReportMetric(µs[1], "µs/step-of-five")
		b.ReportMetric(µs[1]/µs[0], "five/one")
		b.ReportMetric(0, "ns/op")
	})
}
