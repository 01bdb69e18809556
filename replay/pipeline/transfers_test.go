package pipeline

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// On real misses, reads ahead and direct reads shorten the step. Wrong predictions read more.
func TestReadAheadOnRealMisses(t *testing.T) {
	p := read(t, realProfile(t, "dram=lru@4x"))
	o := options(t, p, "sequential")
	o.Machine, _ = parts(t, "l40s", "smollm2-135m")
	price := func(a schedule.ReadAhead) *Result { o.Ahead = a; return priced(t, p, o) }
	waiting, ahead, wrong, direct := price(schedule.ReadAhead{}), price(schedule.ReadAhead{Accuracy: 1}), price(schedule.ReadAhead{Accuracy: 0.5}), price(schedule.ReadAhead{Direct: true})
	if !(ahead.Mean < wrong.Mean && direct.Mean < waiting.Mean && ahead.Mean < waiting.Mean) {
		t.Errorf("a step takes %g, ahead %g, half wrong %g, direct %g", waiting.Mean, ahead.Mean, wrong.Mean, direct.Mean)
	}
	near(t, "read again", wrong.SSD, 1.5*waiting.SSD)
	near(t, "to the GPU", wrong.H2D, waiting.H2D)
	near(t, "all named", ahead.SSD, waiting.SSD)
	for want, change := range map[string]func(*Options, **Profile){
		"read-ahead 2":               func(o *Options, _ **Profile) { o.Ahead.Accuracy = 2 },
		"h100 has no gpudirect rate": func(o *Options, _ **Profile) { o.Machine, _ = parts(t, "h100", "smollm2-135m"); o.Ahead.Direct = true },
		"reads from no SSD":          func(o *Options, p **Profile) { *p = read(t, realProfile(t)); o.Ahead.Accuracy = 1 },
	} {
		o, p := o, p
		o.Ahead = schedule.ReadAhead{}
		change(&o, &p)
		if _, err := Price(t.Context(), p, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}

// For the same bytes, less of the fetch is exposed over NVLink-C2C than over PCIe 5.0. A gather
// kernel takes SM time and a copy engine takes none. Generated entries go back on the link's other
// direction.
func TestPathsOnRealMisses(t *testing.T) {
	p := read(t, realProfile(t))
	o := options(t, p, "sequential")
	o.Batch = 32
	exposed := map[string]float64{}
	for _, name := range []string{"h100", "gh200", "gb300"} {
		o.Machine, _ = parts(t, name, "smollm2-135m")
		r := priced(t, p, o)
		exposed[name] = r.Causes[schedule.Fetch]
		near(t, name+" writes back", r.D2H, 32*30*768)
	}
	if max(exposed["gh200"], exposed["gb300"]) >= exposed["h100"] {
		t.Errorf("exposed fetches: %v", exposed)
	}
	for path, takes := range map[string]bool{"kernel": true, "call": false} {
		o.Machine, _ = parts(t, "h100", "smollm2-135m")
		o.Path = path
		r, err := newRunner(t.Context(), p, o)
		fatal.If(t, err)
		fatal.If(t, r.place(3))
		var gather, store float64
		for _, e := range r.timeline.Events {
			switch e.Kind {
			case schedule.Gather:
				gather += e.End - e.Start
			case schedule.Store:
				store += e.End - e.Start
			}
		}
		if gather > 0 != takes || store <= 0 {
			t.Errorf("%s: the SMs gather for %g s, write-back takes %g", path, gather, store)
		}
	}
}

// A kernel takes its share of the SMs for any transfer in either direction: 12 of the H100's 132.
// Write-back is fastest by kernel. If fetches also go by kernel, the share applies to layers and
// weights.
func TestKernelsTakeSMs(t *testing.T) {
	p := read(t, realProfile(t))
	for _, c := range []struct {
		schedule, path string
		takes          []schedule.Kind
	}{
		{"sequential", "call", []schedule.Kind{schedule.Scatter}},
		{"sequential", "kernel", []schedule.Kind{schedule.Gather, schedule.Scatter}},
		{"flexgen:weights=host", "call", []schedule.Kind{schedule.Scatter}},
		{"flexgen:weights=host", "kernel", []schedule.Kind{schedule.Gather, schedule.GatherWeights, schedule.Scatter}},
		{"kvpr:weights=host,load=fine", "kernel", []schedule.Kind{schedule.Gather, schedule.GatherWeights, schedule.Scatter}},
		{"ellm:uncached=0.3", "call", nil},
		{"ellm:uncached=0.3", "kernel", []schedule.Kind{schedule.Gather}},
	} {
		o := options(t, p, c.schedule)
		o.Batch, o.Path = 16, c.path
		r, err := newRunner(t.Context(), p, o)
		fatal.If(t, err)
		fatal.If(t, r.place(3))
		moved, taken := map[schedule.Kind]float64{}, map[schedule.Kind]float64{}
		by := map[schedule.Kind]schedule.Kind{schedule.FetchBlocks: schedule.Gather, schedule.FetchLayer: schedule.Gather, schedule.LoadActivations: schedule.Gather, schedule.LoadWeights: schedule.GatherWeights, schedule.Store: schedule.Scatter}
		for _, e := range r.timeline.Events {
			moved[by[e.Kind]] += e.Seconds
			taken[e.Kind] += e.Seconds
		}
		for _, k := range []schedule.Kind{schedule.Gather, schedule.GatherWeights, schedule.Scatter} {
			want := 0.
			if slices.Contains(c.takes, k) {
				if want = moved[k] * 12 / 132; want == 0 {
					t.Errorf("%s, %s: nothing moves that a %s would take", c.schedule, c.path, k)
				}
			}
			near(t, c.schedule+", "+c.path+": "+k.String(), taken[k]*1e6, want*1e6)
		}
	}
}

// With four drives and four GPUs, each GPU gets one drive and a quarter of the reads in flight. A
// single read keeps its latency.
func TestGPUsShareDrives(t *testing.T) {
	p := read(t, realProfile(t, "dram=lru@2x"))
	o := options(t, p, "sequential")
	o.Batch, o.Depth, o.Steps = 64, 1024, 3
	busy := func(gpus, drives int, depth int64) float64 {
		shared, _ := parts(t, "l40s", "smollm2-135m")
		own := *shared
		own.GPUs, own.Drives = gpus, drives
		o.Machine, o.Depth = &own, depth
		r, err := newRunner(t.Context(), p, o)
		fatal.If(t, err)
		fatal.If(t, r.place(2))
		return works(r.timeline, schedule.SSD)
	}
	for _, depth := range []int64{256, 1} {
		if of, alone := busy(4, 4, 4*depth), busy(1, 1, depth); math.Abs(of/alone-1) > 0.01 {
			t.Errorf("%d in flight: the drives take %g s for one of four GPUs, a drive of its own %g", depth, of, alone)
		}
	}
	if one, eight := busy(1, 4, 1024), busy(8, 4, 1024); eight <= one {
		t.Errorf("the drives take %g s for one of eight GPUs, %g for the only one", eight, one)
	}
}

// The files of host and machine state the threads of lookups and the reads in flight.
func TestNumbersOfFiles(t *testing.T) {
	p := read(t, realProfile(t, "dram=lru@2x"))
	o := options(t, p, "sequential:lookup=cpu")
	o.Batch, o.Steps, o.Threads, o.Depth = 64, 1, 0, 0
	priced := func(threads, reads int) (lookup, drives float64) {
		shared, _ := parts(t, "l40s", "smollm2-135m")
		own, host := *shared, *shared.Host
		if threads > 0 {
			host.LookupThreads = hardware.Fact[hardware.Number]{Value: hardware.Number(threads), Written: "stated"}
			own.ReadsInFlight = reads
		}
		own.Host, o.Machine = &host, &own
		r, err := newRunner(t.Context(), p, o)
		fatal.If(t, err)
		fatal.If(t, r.place(0))
		return r.step.Whole[0].LookupCPU, works(r.timeline, schedule.SSD)
	}
	lookup, drives := priced(0, 0)
	same, equal := priced(16, 64)
	slow, few := priced(8, 4)
	near(t, "16 threads", same, lookup)
	near(t, "64 reads", equal, drives)
	near(t, "8 threads", slow, 2*lookup)
	if few <= drives {
		t.Errorf("4 reads in flight take %g s, 64 take %g s", few, drives)
	}
}

// Transfers of a priced step share the link. Here each loads it fully, and the write-backs of one
// second each slow the fetches.
func TestPricedStepsContend(t *testing.T) {
	p := read(t, realProfile(t))
	r, err := newRunner(t.Context(), p, options(t, p, "da"))
	fatal.If(t, err)
	fatal.If(t, r.priceStep(0))
	for i := range r.step.Whole {
		l := &r.step.Whole[i]
		l.Fetch, l.Store, l.Loads = schedule.Transfer{Seconds: 1}, 1, schedule.Loads{Fetch: 1, Store: 1}
	}
	r.placePriced()
	alone := schedule.NewTimeline()
	r.Schedule.Place(alone, &r.step)
	if n := float64(len(r.step.Whole)); alone.End() < n || r.timeline.End() < 1.5*alone.End() {
		t.Errorf("%g s, %g s without write-backs in the way", r.timeline.End(), alone.End())
	}
}

// works returns the seconds that a resource works.
func works(t *schedule.Timeline, r schedule.Resource) (seconds float64) {
	for i := range t.Events {
		if e := &t.Events[i]; e.Kind.Resource() == r {
			seconds += e.End - e.Start
		}
	}
	return seconds
}
