package transfer

import (
	"testing"

	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Four threads of 10 GB/s on a memory of 30 GB/s: 8 pieces are two latencies, 3 MB 0.1 ms.
// Two threads carry 20.
func TestMemory(t *testing.T) {
	m := Memory{Latency: 100e-9, Rate: 30e9, ThreadRate: 10e9, Threads: 4}
	near(t, "memory bound", m.Time(Request{8, 3e6, 0}), 200e-9+100e-6)
	m.Threads = 2
	near(t, "thread bound", m.Time(Request{8, 3e6, 0}), 400e-9+150e-6)
	m.Threads = 0
	near(t, "one thread", m.Time(Request{1, 1e6, 0}), 100e-9+100e-6)
}

// CXL is there where the host has it, slower than DRAM in rate and latency.
func TestCXL(t *testing.T) {
	if _, ok := CXL(machine(t, "h100").Host, 8); ok {
		t.Error("a DGX H100 has CXL memory")
	}
	lib, err := hardware.Load("")
	if err != nil {
		t.Fatal(err)
	}
	host, err := lib.Host("epyc-9004-cxl")
	if err != nil {
		t.Fatal(err)
	}
	dram := DRAM(host, 8)
	cxl, ok := CXL(host, 8)
	if !ok || cxl.Latency <= dram.Latency || cxl.Rate >= dram.Rate || cxl.ThreadRate >= dram.ThreadRate {
		t.Errorf("CXL %+v, DRAM %+v", cxl, dram)
	}
	r := Request{1000, 1e9, 0}
	near(t, "CXL", cxl.Time(r), 125*250e-9+1e9/25e9)
}
