package transfer

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

func machine(t testing.TB, name string) *hardware.Machine {
	t.Helper()
	lib, err := hardware.Load("")
	fatal.If(t, err)
	m, err := lib.Machine(name)
	fatal.If(t, err)
	return m
}

// The fastest path of an H100 changes with size and count. The kernel is fastest for many entries
// below 28 KiB. Batches are fastest for large blocks, and for a few small ones, because they submit
// sooner than a kernel starts.
func TestFastest(t *testing.T) {
	l := NewLink(machine(t, "h100").Link)
	for _, c := range []struct {
		r    Request
		want Mechanism
	}{{Request{Descriptors: 1, Bytes: 1 << 30, Launches: 1}, Batch}, {Request{Descriptors: 4096, Bytes: 4096 * 16384, Launches: 1}, Kernel}, {Request{Descriptors: 2048, Bytes: 2048 * 656, Launches: 1}, Kernel}, {Request{Descriptors: 1 << 20, Bytes: 1 << 36, Launches: 1}, Batch}, {Request{Descriptors: 4, Bytes: 4 * 656, Launches: 1}, Batch}} {
		best, err := l.Path(HostToDevice, c.want)
		fatal.If(t, err)
		if got, want := l.Fastest(HostToDevice).Time(c.r), best.Time(c.r); got != want {
			t.Errorf("%+v takes %v, by %v %v", c.r, got, c.want, want)
		}
		for m := range Kernel + 1 {
			p, err := l.Path(HostToDevice, m)
			fatal.If(t, err)
			if p.Time(c.r) < best.Time(c.r) {
				t.Errorf("%+v: %v beats %v", c.r, m, c.want)
			}
		}
	}
	if _, err := NewLink(machine(t, "gh200").Link).Path(DeviceToHost, Batch); err == nil || !strings.Contains(err.Error(), "choose among call, kernel") {
		t.Errorf("error %v", err)
	}
}

// Only a kernel takes SMs.
func TestSMs(t *testing.T) {
	l := NewLink(machine(t, "h100").Link)
	r := Request{Descriptors: 2048, Bytes: 2048 * 656, Launches: 1}
	for m, want := range map[Mechanism]float64{Call: 0, Batch: 0, Kernel: 12} {
		p, err := l.Path(HostToDevice, m)
		fatal.If(t, err)
		if got := p.Cost(r).SMs; got != want {
			t.Errorf("%v takes %v SMs, expected %v", m, got, want)
		}
	}
}

// Each direction has 50 GB/s, and the link carries 80 GB/s in both together. 1 GB in each direction
// takes 2/80 s. 2 GB and 1 GB take 25 ms together until 1 GB each has moved, then 20 ms alone. A
// single direction takes its own time.
func TestBoth(t *testing.T) {
	l := &Link{duplex: [3]float64{80e9, math.Inf(1), 80e9}}
	p := plain(0, 0, 50e9)
	one, two := p.Cost(Request{Descriptors: 1, Bytes: 1e9, Launches: 1}), p.Cost(Request{Descriptors: 1, Bytes: 2e9, Launches: 1})
	near(t, "equal", l.Both(Call, one, one), 25e-3)
	near(t, "unequal", l.Both(Call, two, one), 45e-3)
	near(t, "the other way", l.Both(Call, one, two), 45e-3)
	near(t, "alone", l.Both(Call, two, Cost{}), 40e-3)
	near(t, "undisturbed", l.Both(Batch, two, one), 40e-3)
}

// The loads of opposite transfers give the time of Both: long + short·max(0, sum − 1).
func TestLoads(t *testing.T) {
	l := NewLink(machine(t, "h100").Link)
	for m := range Kernel + 1 {
		in, err1 := l.Path(HostToDevice, m)
		out, err2 := l.Path(DeviceToHost, m)
		fatal.If(t, errors.Join(err1, err2))
		a, b := in.Cost(Request{Descriptors: 1000, Bytes: 2e9, Launches: 1}), out.Cost(Request{Descriptors: 500, Bytes: 1e9, Launches: 1})
		near(t, m.String(), max(a.Seconds, b.Seconds)+min(a.Seconds, b.Seconds)*max(0, a.Load+b.Load-1), l.Both(m, a, b))
		if a.Load <= 0.5 || a.Load+b.Load <= 1 {
			t.Errorf("%v: loads %g and %g, expected that large copies disturb each other", m, a.Load, b.Load)
		}
		capped := Capped(in, 1e9).Cost(Request{Descriptors: 1000, Bytes: 2e9, Launches: 1})
		near(t, "capped load", capped.Load, 2e9/capped.Seconds/in.BothWays)
	}
	free, err := NewLink(machine(t, "gh200").Link).Path(HostToDevice, Kernel)
	fatal.If(t, err)
	if c := free.Cost(Request{Descriptors: 1, Bytes: 1e9, Launches: 1}); c.Load != 0 {
		t.Errorf("NVLink-C2C is loaded by %g", c.Load)
	}
}

// A share of the host's memory limits a path. A slower path does not change.
func TestCapped(t *testing.T) {
	p := Capped(plain(1e-6, 0, 50e9), 10e9)
	c := p.Cost(Request{Descriptors: 1, Bytes: 1e6, Launches: 1})
	near(t, "capped", c.Seconds, 101e-6)
	near(t, "its causes", c.By.Launch+c.By.Link, 101e-6)
	near(t, "time", p.Time(Request{Descriptors: 1, Bytes: 1e6, Launches: 1}), 101e-6)
	near(t, "not capped", Capped(plain(0, 1, 50e9), 10e9).Time(Request{Descriptors: 1, Bytes: 1e6, Launches: 1}), 1+20e-6)
}

// No bundled constant exceeds the link's wire rate without packet headers.
func TestPlausibleRates(t *testing.T) {
	lib, err := hardware.Load("")
	fatal.If(t, err)
	for _, it := range lib.Items(hardware.KindLink) {
		l := it.(*hardware.Link)
		if l.PCIe == nil {
			continue
		}
		wire := wireRate(int(l.PCIe.Generation.Value), int(l.PCIe.Lanes.Value))
		if math.Abs(float64(l.Bandwidth.Value)/wire-1) > 1e-4 {
			t.Errorf("%s: bandwidth %v, its generation and lanes make %v", l.Name, l.Bandwidth.Written, wire)
		}
		link := NewLink(l)
		for d := range DeviceToHost + 1 {
			for m := range Kernel + 1 {
				c, err := link.Path(d, m)
				if err != nil {
					continue
				}
				last := c.Regimes[len(c.Regimes)-1]
				if limit := c.Packets.Ceiling(wire); last.Rate > 1.03*limit { // a fit may exceed it by its own error
					t.Errorf("%s %v %v: %v bytes/s, headers leave %v", l.Name, d, m, last.Rate, limit)
				}
			}
		}
	}
}

// 656 B by DMA with packets of 256 B. Host to device has 3 completions of 20 B forward and, with
// requests of 512 B, 2 requests of 24 B back. Device to host has 3 writes of 24 B. A kernel's lines
// of 128 B give 6 completions and 6 requests. Rows of 656 B in a table start at multiples of 16.
// They touch (656 + 112)/128 = 6 lines, and (656 + 48)/64 = 11 fetches of 64 B.
func TestWireBytes(t *testing.T) {
	read, write, gather := DeviceReads(256, 512), DeviceWrites(256), KernelReads(256)
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"read forward", read.Forward(656, 0), 656 + 3*20}, {"read back", read.Back(656, 0), 2 * 24},
		{"write forward", write.Forward(656, 16), 656 + 3*24}, {"write back", write.Back(656, 16), 0},
		{"gather forward", gather.Forward(656, 0), 656 + 6*20}, {"gather back", gather.Back(656, 0), 6 * 24},
		{"rows forward", gather.Forward(656, 16), 11*64 + 6*20}, {"rows back", gather.Back(656, 16), 6 * 24},
		{"no model", Packets{}.Forward(656, 0), 656}, {"one byte", read.Forward(1, 1), 21}, {"none", read.Forward(0, 0), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s is %v, expected %v", c.what, c.got, c.want)
		}
	}
	cost := (&Curve{Packets: read, Regimes: []Regime{{Rate: 1e9}}}).Cost(Request{Descriptors: 10, Bytes: 6560, Launches: 1})
	if cost.WireForward != 7160 || cost.WireBack != 480 || cost.Bytes != 6560 {
		t.Errorf("ten pieces: %+v", cost)
	}
}

// The closed form of touched units equals their number, counted for each start.
func TestTouchedUnits(t *testing.T) {
	for _, c := range []struct{ bytes, align, unit int }{
		{47, 1, 32}, {47, 1, 128}, {188, 4, 32}, {188, 4, 128}, {353, 1, 128}, {656, 16, 32}, {656, 16, 128},
		{1024, 128, 128}, {1024, 128, 32}, {1, 1, 32}, {1312, 32, 128}, {16, 16, 32},
	} {
		counted, starts := 0, 0
		for at := 0; at < c.unit; at += c.align {
			counted += (at+c.bytes-1)/c.unit - at/c.unit + 1
			starts++
		}
		want := float64(counted) / float64(starts) * float64(c.unit)
		near(t, fmt.Sprintf("%+v", c), touched(float64(c.bytes), float64(c.align), float64(c.unit)), want)
	}
	for bytes, want := range map[int64]int64{656: 16, 47: 1, 1024: 128, 768: 128, 64: 64, 576: 64, 0: 0} {
		if got := Alignment(bytes); got != want {
			t.Errorf("rows of %d B are aligned to %d, expected %d", bytes, got, want)
		}
	}
}

// A copy engine reads host memory in requests of the link's size, a kernel in cache lines. Both
// write in full packets. Links without PCIe have no headers.
func TestPacketsOf(t *testing.T) {
	l := *machine(t, "h100").Link // packets of 256 B, requests of 512 B
	for _, c := range []struct {
		payload hardware.Bytes
		d       Direction
		m       Mechanism
		want    Packets
	}{
		{256, HostToDevice, Call, DeviceReads(256, 512)}, {256, HostToDevice, Batch, DeviceReads(256, 512)},
		{256, HostToDevice, Kernel, KernelReads(256)}, {64, HostToDevice, Kernel, KernelReads(64)},
		{256, DeviceToHost, Batch, DeviceWrites(256)}, {256, DeviceToHost, Kernel, DeviceWrites(256)},
	} {
		pcie := *l.PCIe
		pcie.MaxPayload.Value, l.PCIe = c.payload, &pcie
		if got := PacketsOf(&l, c.d, c.m); got != c.want {
			t.Errorf("%v by %v, packets of %g B: %+v, expected %+v", c.d, c.m, float64(c.payload), got, c.want)
		}
	}
	l.PCIe = nil
	if got := PacketsOf(&l, HostToDevice, Kernel); got != (Packets{}) {
		t.Errorf("without PCIe: %+v", got)
	}
}

// transferRates are the transfers per second and lane by PCIe generation. encoding is the share of
// data: 8b/10b, 128b/130b, 242 of 256 bytes of a FLIT.
var (
	transferRates = [...]float64{1: 2.5e9, 2: 5e9, 3: 8e9, 4: 16e9, 5: 32e9, 6: 64e9}
	encoding      = [...]float64{1: 8. / 10, 2: 8. / 10, 3: 128. / 130, 4: 128. / 130, 5: 128. / 130, 6: 242. / 256}
)

// wireRate returns the rate of a PCIe link in each direction, in bytes per second, with packets and
// headers. Generations are 1 to 6.
func wireRate(generation, lanes int) float64 {
	return transferRates[generation] * encoding[generation] * float64(lanes) / 8
}

// Sixteen lanes carry 15.75, 31.51, 63.02 and 121 GB/s from generation 3 on. Headers of packets of
// 256 B leave 14.61, 29.22, 58.45 and 112.2 to completions. Eight lanes of generation 1 carry 2
// GB/s.
func TestCeilings(t *testing.T) {
	for g, want := range map[int][2]float64{3: {15.754, 14.612}, 4: {31.508, 29.225}, 5: {63.015, 58.449}, 6: {121, 112.232}} {
		wire := wireRate(g, 16)
		if math.Abs(wire/1e9-want[0]) > 1e-3 || math.Abs(DeviceReads(256, 512).Ceiling(wire)/1e9-want[1]) > 1e-3 {
			t.Errorf("generation %d: %v, %v, expected %v", g, wire/1e9, DeviceReads(256, 512).Ceiling(wire)/1e9, want)
		}
	}
	near(t, "Gen1 x8", wireRate(1, 8), 2e9)
}

// Rates of full packets are payload rates. Smaller pieces also pay for their headers: 64 B take 84
// bytes on the wire, and a rate of full packets allows for 69.
func TestSmallPieces(t *testing.T) {
	c := &Curve{Packets: DeviceReads(256, 512), Regimes: []Regime{{Rate: 50e9}}}
	near(t, "full packets", c.Time(Request{Descriptors: 1, Bytes: 256 << 10, Launches: 1}), float64(256<<10)/50e9)
	near(t, "64 B", c.Time(Request{Descriptors: 1000, Bytes: 64000, Launches: 1}), 1000*84/(50e9*276/256))
}

// Copies from pageable memory wait for a copy on the CPU. The rate is derived from 9.7 and 51.5 GB/s
// on PCIe 5.0. Other measured pairs are within 15 %. PCIe 3.0 has 5 to 6 GB/s of 11 to 12
// (rapidsai/dask-cuda pull request 98). An RTX 5090 has 9.6 of 32.4 GB/s (kekzl/imp pull request
// 1409).
func TestPageable(t *testing.T) {
	for _, c := range []struct{ pinned, measured, tolerance float64 }{{51.5e9, 9.7e9, 1e-3}, {11.5e9, 5.5e9, .15}, {32.4e9, 9.6e9, .15}} {
		l := &Link{pcie: true}
		l.paths[HostToDevice][Call] = plain(0, 0, c.pinned)
		l.paths[HostToDevice][Kernel] = plain(0, 0, c.pinned)
		path, err := l.Pageable().Path(HostToDevice, Call)
		fatal.If(t, err)
		if got := 1e9 / path.Time(Request{Descriptors: 1, Bytes: 1e9, Launches: 1}); math.Abs(got/c.measured-1) > c.tolerance {
			t.Errorf("%g GB/s of %g, measured %g", got/1e9, c.pinned/1e9, c.measured/1e9)
		}
		if _, err := l.Pageable().Path(HostToDevice, Kernel); err == nil {
			t.Error("a kernel reads pageable memory over PCIe")
		}
		if was := l.paths[HostToDevice][Call].Regimes[0].Rate; was != c.pinned {
			t.Errorf("the pinned rate became %g", was)
		}
	}
	if l := NewLink(machine(t, "gh200").Link); l.Pageable() != l {
		t.Error("NVLink-C2C stages copies")
	}
}
