package fit

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// points returns the times of a curve for blocks of some sizes and numbers.
func points(c *transfer.Curve, sizes, counts []int64) (list []Point) {
	for _, b := range sizes {
		for _, n := range counts {
			r := transfer.Request{Descriptors: n, Bytes: n * b, Launches: 1}
			list = append(list, Point{Request: r, Seconds: c.Time(r)})
		}
	}
	return list
}

// close reports whether two constants agree to 0.1 %.
func close(got, want float64) bool { return math.Abs(got-want) <= 1e-3*want }

// The fit recovers the constants that made the times, and predicts each point that is left out: 9
// µs, 0.4 µs and 25 GB/s.
func TestRecovers(t *testing.T) {
	want := &transfer.Curve{Launch: 9e-6, Packets: transfer.DeviceReads(256, 512), Regimes: []transfer.Regime{{Descriptor: .4e-6, Rate: 25e9}}}
	r, err := Curve(points(want, []int64{656, 4096, 65536}, []int64{16, 256, 4096}), Form{Packets: want.Packets})
	fatal.If(t, err)
	g := r.Curve.Regimes[0]
	if !close(r.Curve.Launch, 9e-6) || !close(g.Descriptor, .4e-6) || !close(g.Rate, 25e9) || r.Zero != nil {
		t.Errorf("fitted %+v, zero %v", r.Curve, r.Zero)
	}
	if len(r.Errors) != 9 || len(r.LeftOut) != 9 || Worst(r.Errors) > 1e-3 || Worst(r.LeftOut) > 2e-3 {
		t.Errorf("errors %v, left out %v", r.Errors, r.LeftOut)
	}
}

// The fit also recovers a batch, with submission ahead of the engine and an inline regime.
func TestRecoversBatch(t *testing.T) {
	want := &transfer.Curve{Submit: .5e-6, Ahead: 8000, Regimes: []transfer.Regime{{Rate: 7e9, Inline: true}, {From: 32768, Descriptor: .1e-6, Rate: 55e9}}}
	list := points(want, []int64{4096, 16384, 32768, 131072}, []int64{2000, 8000, 30000, 100000})
	r, err := Curve(list, Form{From: []float64{0, 32768}, Inline: []bool{true}, Batch: true})
	fatal.If(t, err)
	c := r.Curve
	if math.Abs(c.Submit/.5e-6-1) > .02 || math.Abs(c.Ahead/8000-1) > .02 || !close(c.Regimes[0].Rate, 7e9) || math.Abs(c.Regimes[1].Rate/55e9-1) > .01 {
		t.Errorf("fitted %+v", c)
	}
	if Worst(r.Errors) > .01 {
		t.Errorf("errors %v", r.Errors)
	}
}

// The fit recovers the time to translate addresses, which hides the bytes of small blocks only.
func TestRecoversTranslation(t *testing.T) {
	want := &transfer.Curve{Launch: 6e-6, Submit: 33e-9, Regimes: []transfer.Regime{{Descriptor: 2e-9, Rate: 50e9}}}
	list := points(want, []int64{128, 656, 2048, 16384}, []int64{256, 2048, 16384})
	r, err := Curve(list, Form{Translate: true})
	fatal.If(t, err)
	c := r.Curve
	if math.Abs(c.Submit/33e-9-1) > .01 || math.Abs(c.Launch/6e-6-1) > .01 || math.Abs(c.Regimes[0].Rate/50e9-1) > .01 || c.Ahead != 0 {
		t.Errorf("fitted %+v", c)
	}
	if plain, err := Curve(list, Form{}); err != nil || Worst(plain.Errors) < 10*Worst(r.Errors) {
		t.Errorf("a curve without translation has errors %v, %v", plain.Errors, err)
	}
}

// One bad point does not change the curve for the others.
func TestOutlier(t *testing.T) {
	want := &transfer.Curve{Launch: 5e-6, Regimes: []transfer.Regime{{Descriptor: .2e-6, Rate: 20e9}}}
	list := points(want, []int64{512, 4096, 32768}, []int64{16, 256, 4096})
	list[4].Seconds *= 3
	r, err := Curve(list, Form{})
	fatal.If(t, err)
	for i, e := range r.Errors {
		if i != 4 && math.Abs(e) > .03 {
			t.Errorf("point %d is off by %v", i, e)
		}
	}
	if math.Abs(r.LeftOut[4]+2./3) > .03 {
		t.Errorf("the bad point is off by %v, expected -2/3", r.LeftOut[4])
	}
}

// Constants that the points do not determine stay 0 and are named. With one number of blocks this
// is the launch, with one block size the descriptor, and with one point everything but a rate.
func TestIdentifiability(t *testing.T) {
	c := &transfer.Curve{Launch: 9e-6, Regimes: []transfer.Regime{{Descriptor: .4e-6, Rate: 25e9}}}
	for name, k := range map[string]struct {
		sizes, counts []int64
		zero          []string
	}{
		"one count":  {[]int64{512, 4096, 32768}, []int64{100}, []string{"launch"}},
		"one size":   {[]int64{4096}, []int64{10, 100, 1000}, []string{"regimes[0].descriptor"}},
		"one point":  {[]int64{4096}, []int64{100}, []string{"launch", "regimes[0].descriptor"}},
		"everything": {[]int64{512, 4096}, []int64{10, 1000}, nil},
	} {
		r, err := Curve(points(c, k.sizes, k.counts), Form{})
		fatal.If(t, err)
		if !slices.Equal(r.Zero, k.zero) {
			t.Errorf("%s: zero %v, expected %v", name, r.Zero, k.zero)
		}
		if name == "one point" && !math.IsNaN(r.LeftOut[0]) {
			t.Errorf("a lone point left out is %v", r.LeftOut[0])
		}
	}
	if _, err := Curve(points(c, []int64{512}, []int64{1}), Form{From: []float64{0, 4096}}); err == nil || !strings.Contains(err.Error(), "4096") {
		t.Errorf("a regime without points: %v", err)
	}
}

// A regime whose points have one size cannot separate a descriptor from its bytes. It uses the rate
// of the last regime with several sizes, unless the submitting thread moves its bytes. The regimes
// begin at 0, 100 and 1000 B.
func TestSharedRates(t *testing.T) {
	for _, c := range []struct {
		sizes  []int64
		inline []bool
		want   []int
	}{
		{[]int64{8, 16, 200, 300, 2000, 3000}, nil, []int{0, 1, 2}},
		{[]int64{8, 16, 200, 2000}, nil, []int{0, 0, 0}},
		{[]int64{8, 200, 300, 2000, 3000}, nil, []int{2, 1, 2}},
		{[]int64{8, 200, 300, 2000}, []bool{true, false, false}, []int{0, 1, 1}},
		{[]int64{8, 200, 2000}, nil, []int{0, 1, 2}}, // no regime has several sizes
	} {
		curve := &transfer.Curve{Regimes: []transfer.Regime{{Rate: 1e9}}}
		f, err := newFitting(points(curve, c.sizes, []int64{1, 10}), Form{From: []float64{0, 100, 1000}, Inline: c.inline})
		fatal.If(t, err)
		if !slices.Equal(f.rateOf, c.want) {
			t.Errorf("sizes %v, inline %v: rates of the regimes %v, expected %v", c.sizes, c.inline, f.rateOf, c.want)
		}
	}
}

// A fitted rate never exceeds the bound.
func TestMaxRate(t *testing.T) {
	c := &transfer.Curve{Regimes: []transfer.Regime{{Descriptor: 1e-6, Rate: 80e9}}}
	r, err := Curve(points(c, []int64{4096, 1 << 20}, []int64{100}), Form{MaxRate: 50e9})
	if err != nil || r.Curve.Regimes[0].Rate > 50e9 {
		t.Errorf("%+v, %v", r.Curve, err)
	}
}

// The same points give the same bits.
func TestDeterministic(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	c := &transfer.Curve{Launch: 9e-6, Regimes: []transfer.Regime{{Descriptor: .4e-6, Rate: 25e9}}}
	list := points(c, []int64{656, 4096, 65536}, []int64{16, 256, 4096})
	for i := range list {
		list[i].Seconds *= 1 + .1*r.Float64()
	}
	a, err := Curve(list, Form{})
	fatal.If(t, err)
	b, _ := Curve(list, Form{})
	if a.Curve.Launch != b.Curve.Launch || a.Curve.Regimes[0] != b.Curve.Regimes[0] || !slices.Equal(a.LeftOut, b.LeftOut) {
		t.Errorf("%+v and %+v", a.Curve, b.Curve)
	}
}

// Worst returns the largest absolute error.
func TestWorst(t *testing.T) {
	for _, errors := range [][]float64{{.1, -.4, .2}, {.4, .1}, {-.4}} {
		if got := Worst(errors); got != .4 {
			t.Errorf("of %v the worst is %v", errors, got)
		}
	}
	if got := Worst([]float64{math.NaN()}); got == got {
		t.Errorf("the worst of none is %v", got)
	}
}

// The fit recovers the constants of a drive.
func TestRecoversDrive(t *testing.T) {
	want := &transfer.SSD{Latency: 80e-6, RequestRate: 2e9, IOPS: 8e5, Bandwidth: 7e9, Knee: 1.6}
	var list []DrivePoint
	for _, b := range []float64{4096, 65536, 262144} {
		for _, q := range []float64{1, 4, 16, 64, 256} {
			list = append(list, DrivePoint{q, b, want.Rate(q, b)})
		}
	}
	r, err := Drive(list, 7e9)
	fatal.If(t, err)
	if len(r.Errors) != len(list) || len(r.LeftOut) != len(list) {
		t.Errorf("%d errors and %d left out of %d points", len(r.Errors), len(r.LeftOut), len(list))
	}
	if Worst(r.Errors) > .01 || Worst(r.LeftOut) > .02 || math.Abs(r.SSD.Knee/1.6-1) > .05 || math.Abs(r.SSD.Latency/80e-6-1) > .02 {
		t.Errorf("fitted %+v, errors %v, left out %v", r.SSD, r.Errors, r.LeftOut)
	}
	if _, err := Drive(list[:4], 7e9); err == nil {
		t.Error("four points make four constants")
	}
}

// The fitted constants of the bundled files equal those of the fit, to 1 % of every time.
func TestBundledFitsAreCurrent(t *testing.T) {
	lib, err := hardware.Load("")
	fatal.If(t, err)
	fits := 0
	for _, it := range lib.Items(hardware.KindLink) {
		l := it.(*hardware.Link)
		link := transfer.NewLink(l)
		for _, f := range FittedPaths(l) {
			fits++
			r, err := Curve(f.Points, f.Form)
			fatal.If(t, err)
			stated, err := link.Path(directionOf(f.Direction), mechanismOf(f.Path))
			fatal.If(t, err)
			for _, p := range f.Points {
				if e := relative(stated.Time(p.Request), r.Curve.Time(p.Request)); math.Abs(e) > .01 {
					t.Errorf("%s %s %s, %+v: the file's constants are off the fit by %.1f %%; it finds %+v", l.Name, f.Path, f.Direction, p.Request, 100*e, r.Curve)
				}
			}
		}
	}
	for _, it := range lib.Items(hardware.KindDrive) {
		d := it.(*hardware.Drive)
		stated := transfer.NewSSD(d, 1, 1)
		for i := range d.Series {
			if !d.Series[i].Fits {
				continue
			}
			fits++
			list := DrivePoints(&d.Series[i])
			r, err := Drive(list, float64(d.ReadBandwidth.Value))
			fatal.If(t, err)
			for _, p := range list {
				if e := relative(stated.Rate(p.Depth, p.Block), r.SSD.Rate(p.Depth, p.Block)); math.Abs(e) > .01 {
					t.Errorf("%s: off the fit by %.1f %%; it finds %+v", d.Name, 100*e, r.SSD)
				}
			}
		}
	}
	if fits < 5 {
		t.Errorf("%d fits", fits)
	}
}
