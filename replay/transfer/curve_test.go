package transfer

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

// near fails unless got equals want to nine digits.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Max(1e-300, math.Abs(want)) {
		t.Errorf("%s is %.12g, expected %.12g", what, got, want)
	}
}

// plain returns a curve with T = launch + N·descriptor + bytes/rate.
func plain(launch, descriptor, rate float64) *Curve {
	return &Curve{Launch: launch, Regimes: []Regime{{Descriptor: descriptor, Rate: rate}}}
}

// KVPR, Table 1: K and V of one layer, b = 32, s = 1024, 16 bits, over 32 GiB/s. 2·32·1024·h·2
// bytes are 512, 640 and 896 MiB for h of 4096, 5120 and 7168. They take 15.625, 19.53125 and
// 27.34375 ms, and the paper prints 15.6, 19.5, 27.3. Over HBM of the A100 40 GB, its figures
// 0.3509, 0.4388 and 0.6143 ms all mean 1.530 TB/s.
func TestKVPRTable1(t *testing.T) {
	lib, err := hardware.Load("")
	fatal.If(t, err)
	link := plain(0, 0, 32<<30)
	for _, c := range []struct {
		model               string
		ms, printed, onGPUs float64
	}{{"opt-6.7b", 15.625, 15.6, .3509}, {"opt-13b", 19.53125, 19.5, .4388}, {"opt-30b", 27.34375, 27.3, .6143}} {
		m, err := lib.Model(c.model)
		fatal.If(t, err)
		r := Layout{EntryBytes: int64(m.Entry.Value)}.Request(32*1024, 32)
		near(t, c.model, link.Time(r)*1e3, c.ms)
		if math.Abs(c.ms/c.printed-1) > 0.005 {
			t.Errorf("%s: %v ms, the paper prints %v", c.model, c.ms, c.printed)
		}
		gpu, _ := lib.GPU("a100-40")
		if got := float64(r.Bytes) / float64(gpu.AchievedMemoryBandwidth.Value) * 1e3; math.Abs(got/c.onGPUs-1) > 1e-3 {
			t.Errorf("%s: %v ms in GPU memory, the paper prints %v", c.model, got, c.onGPUs)
		}
	}
}

// ESS: one miss per layer and request of DeepSeek-V3.2 costs 61 · 656 B / 37 GB/s = 1.08151 µs per
// step. In a layer of 160 requests, a miss costs 2.83676 µs. If all of Top-2048 miss, a layer moves
// 1.343488 MB: 36.31 µs at 37 GB/s, 1.7006 ms at 0.79 GB/s. 61 layers take 2.215 and 103.7 ms.
func TestESSUnits(t *testing.T) {
	gather, percall := plain(0, 0, 37e9), plain(0, 0, .79e9)
	layout := Layout{EntryBytes: 656}
	near(t, "a miss in 61 layers", 61*gather.Time(layout.Request(1, 1)), 61*656/37e9)
	near(t, "a miss of 160 requests", gather.Time(layout.Request(160, 160)), 2.836756756756757e-6)
	all := layout.Request(2048, 2048)
	if all.Bytes != 1343488 || all.Descriptors != 2048 {
		t.Errorf("everything missing is %+v", all)
	}
	near(t, "a layer by gather", gather.Time(all), 3.6310486486486485e-5)
	near(t, "61 layers by gather", 61*gather.Time(all), 2.2149396756756757e-3)
	near(t, "61 layers by calls", 61*percall.Time(all), .10373768101265823)
}

// KVDrive, chunk sizes: 960 entries of 512 B, 0.05 µs per request, 25 GB/s. Chunks of 1, 4 and 8
// have 1, 3.2 and 4 useful entries: 960, 300 and 240 requests of 512, 2048 and 4096 B. They take 48
// + 19.6608 = 67.6608, 15 + 24.576 = 39.576, and 12 + 39.3216 = 51.3216 µs.
func TestChunkSizes(t *testing.T) {
	path := plain(0, .05e-6, 25e9)
	for _, c := range []struct{ chunk, requests, us int64 }{{1, 960, 676608}, {4, 300, 395760}, {8, 240, 513216}} {
		r := Layout{EntryBytes: 512, BlockTokens: c.chunk}.Request(c.requests, c.requests)
		near(t, "time", path.Time(r)*1e10, float64(c.us))
	}
}

// The terms of the formula, by hand: 10 pieces of 1000 B.
func TestTerms(t *testing.T) {
	r := Request{Descriptors: 10, Bytes: 10000, Launches: 2}
	batch := &Curve{Launch: 1e-6, Submit: 3e-6, Ahead: 4, Regimes: []Regime{{Descriptor: 1e-6, Rate: 1e9}}}
	// Launches take 2 µs and 4 submissions 12 µs. Then the engine takes 10 · (1 + 1) = 20, against
	// 6 · 3 = 18 µs of submission.
	near(t, "engine bound", batch.Time(r), 34e-6)
	near(t, "its submission", batch.Cost(r).By.Submit, 12e-6)
	batch.Submit = 4e-6 // 16 µs, then 24 of submission against 20
	near(t, "submission bound", batch.Time(r), 42e-6)
	near(t, "its submission", batch.Cost(r).By.Submit, 20e-6)
	batch.Regimes[0].Inline = true // 2 + max(40, 20) + 4 · 6
	near(t, "inline, by calls", batch.Time(r), 66e-6)
	batch.Regimes[0].Rate = 1e8 // bytes take 100 µs and each piece 1: 2 + 110 + 24
	near(t, "inline, by bytes", batch.Time(r), 136e-6)

	call := &Curve{Submit: 3e-6, Regimes: []Regime{{Descriptor: 1e-6, Rate: 1e9}}}
	near(t, "calls hide behind neither", call.Time(r), 30e-6)
	if c := call.Cost(Request{}); c != (Cost{}) || call.Time(Request{}) != 0 {
		t.Errorf("nothing costs %+v", c)
	}
}

// Random pieces touch as many pages as the formula says, to 2 %. Each page's address is translated
// once: 10 pieces of 1000 B on 5 pages of 4 µs.
func TestPages(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ regions, pages, pieces int }{{1, 16, 8}, {8, 256, 64}, {8, 256, 2048}, {3, 1, 5}} {
		const repeats = 400
		seen := 0
		for range repeats {
			touched := map[int]bool{}
			for region := range c.regions {
				for range c.pieces {
					touched[region*c.pages+random.IntN(c.pages)] = true
				}
			}
			seen += len(touched)
		}
		r := Request{Descriptors: int64(c.regions * c.pieces), Regions: float64(c.regions), RegionBytes: float64(c.pages) * 65536}
		if got, want := r.pages(65536), float64(seen)/repeats; math.Abs(got/want-1) > .02 {
			t.Errorf("%+v touch %.2f pages, expected %.2f", c, got, want)
		}
	}
	few := Request{Descriptors: 5, Regions: 8, RegionBytes: 1 << 20}
	near(t, "fewer pieces than regions", few.pages(65536), 5)
	curve := &Curve{Submit: 4e-6, Page: 1 << 20, Regimes: []Regime{{Rate: 1e9}}}
	r := Request{Descriptors: 10, Bytes: 10000, Regions: 5, RegionBytes: 1 << 20}
	near(t, "pages", curve.Time(r), 20e-6)
	r.Regions = 2 // the bytes take 10 µs
	near(t, "bytes", curve.Time(r), 10e-6)
	r.Regions = 0
	near(t, "a page for each piece", curve.Time(r), 40e-6)
}

// The constants are those of the regime of a piece's size.
func TestRegimes(t *testing.T) {
	c := &Curve{Regimes: []Regime{{Rate: 1e9}, {From: 4096, Rate: 4e9}, {From: 1 << 20, Rate: 8e9}}}
	for bytes, rate := range map[int64]float64{1: 1e9, 4095: 1e9, 4096: 4e9, 1<<20 - 1: 4e9, 1 << 20: 8e9, 1 << 30: 8e9} {
		near(t, "time", c.Time(Request{Descriptors: 1, Bytes: bytes, Launches: 1}), float64(bytes)/rate)
	}
}

// A kernel keeps SMs × bytes in flight per round trip. Two CTAs of 64 KiB in 1.3 µs reach 100.8
// GB/s. Eight exceed the link's 203.6.
func TestBytesInFlight(t *testing.T) {
	lib, err := hardware.Load("")
	fatal.If(t, err)
	l, _ := lib.Link("gb300-c2c")
	c := *l.HostToDevice.Kernel
	s := l.Series[len(l.Series)-1]
	c.SMs, c.InFlight, c.RoundTrip = s.SMs, s.InFlight, s.RoundTrip
	near(t, "two", NewCurve(&c, Packets{}).Regimes[0].Rate, 2*65536/1.3e-6)
	c.SMs.Value = 8
	near(t, "eight", NewCurve(&c, Packets{}).Regimes[0].Rate, 203.6e9)
}

// For random curves and requests, Time equals the sum in Cost. Causes are not negative. More pieces
// or bytes never take less time.
func TestTimeIsCost(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 2000 {
		c := &Curve{Launch: r.Float64() * 1e-5, Submit: r.Float64() * 1e-6, Ahead: float64(r.IntN(3000)), SMs: 4, Packets: DeviceReads(256, 512)}
		c.Regimes = []Regime{{Descriptor: r.Float64() * 1e-6, Rate: 1e9 + r.Float64()*5e10, Inline: r.IntN(2) == 0}}
		q := Request{Descriptors: 1 + r.Int64N(5000), Bytes: 0, Launches: 1}
		q.Bytes = q.Descriptors * (1 + r.Int64N(1<<16))
		cost := c.Cost(q)
		near(t, "time", c.Time(q), cost.Seconds)
		if b := cost.By; min(b.Launch, b.Submit, b.Descriptor, b.Link) < 0 {
			t.Fatalf("negative cause: %+v", cost)
		}
		near(t, "sum", cost.By.Launch+cost.By.Submit+cost.By.Descriptor+cost.By.Link, cost.Seconds)
		b := q.Bytes / q.Descriptors
		if more := c.Time(Request{Descriptors: q.Descriptors + 1, Bytes: q.Bytes + b, Launches: 1}); more < cost.Seconds*(1-1e-12) {
			t.Fatalf("%v s for %+v, %v for a piece more", cost.Seconds, q, more)
		}
	}
}

// No bundled kernel moves N larger pieces faster than N smaller ones.
func TestBundledKernelsGrowWithSize(t *testing.T) {
	lib, err := hardware.Load("")
	fatal.If(t, err)
	for _, it := range lib.Items(hardware.KindLink) {
		link := NewLink(it.(*hardware.Link))
		for d := range DeviceToHost + 1 {
			c, err := link.Path(d, Kernel)
			if err != nil {
				continue
			}
			before := 0.
			for b := int64(16); b < 1<<20; b += 16 + b/200 {
				if now := c.Time(Request{Descriptors: 100, Bytes: 100 * b, Launches: 1}); now < before*(1-1e-12) {
					t.Errorf("%s %s: 100 pieces of %d B take %g s, smaller ones %g", hardware.Head(it).Name, d, b, now, before)
				} else {
					before = now
				}
			}
		}
	}
}
