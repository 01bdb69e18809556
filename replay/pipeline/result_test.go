package pipeline

import (
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Percentiles by hand, nearest rank: of n steps the ⌈share × n⌉-th by time. Equal times keep the
// order of the steps.
func TestDistribution(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, c := range []struct {
		times         []float64
		p50, p95, p99 float64
		median        int
	}{
		{[]float64{7}, 7, 7, 7, 0},
		{[]float64{4, 2, 3, 1}, 2, 4, 4, 1},
		{[]float64{5, 1, 3, 3, 3}, 3, 5, 5, 3}, // third of 1 3 3 3 5, which is the second of the equal times
		{[]float64{2, 2, 2}, 2, 2, 2, 1},
		{hundred, 50, 95, 99, 50},
	} {
		var r Result
		r.distribution(c.times)
		if r.P50 != c.p50 || r.P95 != c.p95 || r.P99 != c.p99 || r.median != c.median {
			t.Errorf("%v: p50 %g at step %d, p95 %g, p99 %g; expected %g at %d, %g, %g", c.times, r.P50, r.median, r.P95, r.P99, c.p50, c.median, c.p95, c.p99)
		}
	}
}

// A note names exactly the assumptions in the machine's files that a schedule uses.
func TestAssumedIsSaid(t *testing.T) {
	p := read(t, realProfile(t))
	for _, c := range []struct{ schedule, path, has, lacks string }{
		{"sfc", "", "latency; host_to_device.call (all); host_to_device.kernel (all); device_to_host.kernel (all)", ""},
		{"da", "kernel", "host_to_device.kernel (all); device_to_host.call (all)", "latency; host_to_device.call"},
		{"ellm:uncached=0.3", "", "host_to_device.call (all)", "latency; device_to_host"},
		{"gpu", "", "", "latency; host_to_device; device_to_host; stream_bandwidth"},
	} {
		o := options(t, p, c.schedule)
		found, _ := parts(t, "gh200", "smollm2-135m")
		machine, link, host := *found, *found.Link, *found.Host
		for _, paths := range []*hardware.Paths{&link.HostToDevice, &link.DeviceToHost} {
			for _, curve := range []**hardware.Curve{&paths.Call, &paths.Kernel} {
				own := **curve
				own.Launch.Status, own.SMs.Status, own.Regimes = hardware.Assumed, hardware.Assumed, []hardware.Regime{own.Regimes[0]}
				own.Regimes[0].Descriptor.Status, own.Regimes[0].Rate.Status = hardware.Assumed, hardware.Assumed
				*curve = &own
			}
		}
		host.Latency.Status = hardware.Assumed
		machine.Link, machine.Host, o.Machine = &link, &host, &machine
		o.Path, o.Steps = c.path, 2
		notes := strings.Join(priced(t, p, o).Notes, "\n")
		for text := range strings.SplitSeq(c.has, "; ") {
			if !strings.Contains(notes, text) {
				t.Errorf("%s, path %q: %q is not among the notes\n%s", c.schedule, c.path, text, notes)
			}
		}
		for text := range strings.SplitSeq(c.lacks, "; ") {
			if text != "" && strings.Contains(notes, text) {
				t.Errorf("%s, path %q: %q is among the notes\n%s", c.schedule, c.path, text, notes)
			}
		}
	}
}

// Assumptions about PCIe apply to every path. Those about FP8 apply to weights of one byte. Those
// about GPUDirect apply if the drives use it.
func TestAssumedWhereUsed(t *testing.T) {
	p := read(t, realProfile(t, "dram=lru@4x"))
	for name, c := range map[string]struct {
		bytes  hardware.Bytes
		direct bool
		has    []string
	}{
		"FP16":      {2, false, nil},
		"FP8":       {1, false, []string{"fp8 "}},
		"GPUDirect": {2, true, []string{"gpudirect "}},
	} {
		o := options(t, p, "da")
		machine, gpu, m := *o.Machine, *o.Machine.GPU, *o.Model
		gpu.FP8.Status, m.BytesPerParameter.Value = hardware.Assumed, c.bytes
		machine.GPUDirect = hardware.Fact[hardware.BytesPerSecond]{Value: 10e9, Written: "10 GB/s", Status: hardware.Assumed}
		machine.GPU, o.Machine, o.Model = &gpu, &machine, &m
		o.Ahead.Direct, o.Steps = c.direct, 2
		notes := strings.Join(priced(t, p, o).Notes, "\n")
		if !strings.Contains(notes, "pcie5-x16 [pcie.max_payload 256 B, pcie.max_read_request 512 B, ") {
			t.Errorf("%s: no assumption on PCIe in\n%s", name, notes)
		}
		for _, text := range []string{"fp8 ", "gpudirect "} {
			if got, want := strings.Contains(notes, text), slices.Contains(c.has, text); got != want {
				t.Errorf("%s: %q is noted: %t, expected %t\n%s", name, text, got, want, notes)
			}
		}
	}
}

// A path with a source for every number is not named. For other paths the note names the numbers
// without a source.
func TestAssumedOfPaths(t *testing.T) {
	lines := []hardware.Line{
		{Field: "host_to_device.call.launch", Value: 0, Status: hardware.Assumed},
		{Field: "host_to_device.call.regimes[0].from", Value: 1, Status: hardware.Assumed},
		{Field: "host_to_device.call.regimes[0].rate", Value: 1, Status: hardware.Measured},
		{Field: "host_to_device.kernel.launch", Value: 1, Status: hardware.Assumed},
		{Field: "host_to_device.kernel.regimes[0].rate", Value: 1, Status: hardware.Assumed},
		{Field: "host_to_device.kernel.regimes[1].rate", Value: 1, Status: hardware.Assumed},
		{Field: "host_to_device.kernel.sms", Value: 1, Status: hardware.Measured},
		{Field: "device_to_host.call.regimes[0].rate", Value: 1, Status: hardware.Assumed},
	}
	for direction, want := range map[string]string{"host_to_device": "host_to_device.kernel (launch, rate)", "device_to_host": "device_to_host.call (all)"} {
		if got := strings.Join(pathFacts(lines, hardware.Assumed, direction, ""), ", "); got != want {
			t.Errorf("%q is assumed, expected %q", got, want)
		}
	}
}
