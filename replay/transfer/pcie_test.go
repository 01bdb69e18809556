package transfer

import (
	"math"
	"testing"

	"github.com/kvreplay/kvreplay/replay/hardware"
)

// 656 B by DMA with packets of 256 B: host to device, 3 completions of 20 B forward and,
// with requests of 512 B, 2 of 24 B back; device to host, 3 writes of 24 B. A kernel's
// lines of 128 B make 6 completions and 6 requests.
func TestWireBytes(t *testing.T) {
	read, write, gather := DeviceReads(256, 512), DeviceWrites(256), DeviceReads(128, 128)
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"read forward", read.Forward(656), 656 + 3*20}, {"read back", read.Back(656), 2 * 24},
		{"write forward", write.Forward(656), 656 + 3*24}, {"write back", write.Back(656), 0},
		{"gather forward", gather.Forward(656), 656 + 6*20}, {"gather back", gather.Back(656), 6 * 24},
		{"no model", Packets{}.Forward(656), 656}, {"one byte", read.Forward(1), 21}, {"none", read.Forward(0), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s is %v, expected %v", c.what, c.got, c.want)
		}
	}
	cost := (&Curve{Packets: read, Regimes: []Regime{{Rate: 1e9}}}).Cost(Request{10, 6560, 1})
	if cost.WireForward != 7160 || cost.WireBack != 480 || cost.Bytes != 6560 {
		t.Errorf("ten pieces: %+v", cost)
	}
}

// A copy engine asks for host memory in requests of the link's size, a kernel in cache
// lines; both write in full packets. Links without PCIe have no headers.
func TestPacketsOf(t *testing.T) {
	l := *machine(t, "h100").Link // packets of 256 B, requests of 512 B
	for _, c := range []struct {
		payload hardware.Bytes
		d       Direction
		m       Mechanism
		want    Packets
	}{
		{256, HostToDevice, Call, DeviceReads(256, 512)}, {256, HostToDevice, Batch, DeviceReads(256, 512)},
		{256, HostToDevice, Kernel, DeviceReads(128, 128)}, {64, HostToDevice, Kernel, DeviceReads(64, 128)},
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

// transferRates are giga-transfers a second and lane by PCIe generation, encoding what
// of them is data: 8b/10b, 128b/130b, 242 of 256 bytes of a FLIT.
var (
	transferRates = [...]float64{1: 2.5e9, 2: 5e9, 3: 8e9, 4: 16e9, 5: 32e9, 6: 64e9}
	encoding      = [...]float64{1: 8. / 10, 2: 8. / 10, 3: 128. / 130, 4: 128. / 130, 5: 128. / 130, 6: 242. / 256}
)

// wireRate is what a PCIe link carries each way, bytes a second, packets and their
// headers included. Generations are 1 to 6.
func wireRate(generation, lanes int) float64 {
	return transferRates[generation] * encoding[generation] * float64(lanes) / 8
}

// Sixteen lanes carry 15.75, 31.51, 63.02 and 121 GB/s from generation 3 on; headers of
// packets of 256 B leave 14.61, 29.22, 58.45 and 112.2 to completions. Eight lanes of
// generation 1 carry 2 GB/s.
func TestCeilings(t *testing.T) {
	for g, want := range map[int][2]float64{3: {15.754, 14.612}, 4: {31.508, 29.225}, 5: {63.015, 58.449}, 6: {121, 112.232}} {
		wire := wireRate(g, 16)
		if math.Abs(wire/1e9-want[0]) > 1e-3 || math.Abs(DeviceReads(256, 512).Ceiling(wire)/1e9-want[1]) > 1e-3 {
			t.Errorf("generation %d: %v, %v, expected %v", g, wire/1e9, DeviceReads(256, 512).Ceiling(wire)/1e9, want)
		}
	}
	near(t, "Gen1 x8", wireRate(1, 8), 2e9)
}

// Rates of full packets are payload rates; smaller pieces pay their headers: 64 B take
// 84 of the 69 bytes-on-the-wire that a rate of full packets has for them.
func TestSmallPieces(t *testing.T) {
	c := &Curve{Packets: DeviceReads(256, 512), Regimes: []Regime{{Rate: 50e9}}}
	near(t, "full packets", c.Time(Request{1, 256 << 10, 1}), float64(256<<10)/50e9)
	near(t, "64 B", c.Time(Request{1000, 64000, 1}), 1000*84/(50e9*276/256))
}
