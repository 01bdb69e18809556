package transfer

import (
	"math"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

// In rounds, by hand: 10 reads of 100 kB at depth 4, 80 µs and 5 GB/s take 3 rounds and 200 µs.
func TestRounds(t *testing.T) {
	s := &SSD{Latency: 80e-6, Bandwidth: 5e9, Depth: 4}
	near(t, "10 reads", s.Time(Request{Descriptors: 10, Bytes: 1e6, Launches: 1}), 440e-6)
	near(t, "two drives", (&SSD{Latency: 80e-6, Bandwidth: 5e9, Depth: 4, Drives: 2}).Time(Request{Descriptors: 10, Bytes: 1e6, Launches: 1}), 340e-6)
	if s.Cost(Request{}) != (Cost{}) {
		t.Error("no reads cost something")
	}
}

// A lone read takes exactly its latency and its bytes. With depth the rate grows towards the lesser
// of the drive's limits, by at most the depth. Knee 1 by hand: 4 reads of 1 MB take 1 ms each alone
// (1 GB/s). With a limit of 2 GB/s, 1/X = 1/4 + 3/4 · 1/2, so X = 1.6 GB/s.
func TestKnee(t *testing.T) {
	s := &SSD{Latency: .5e-3, RequestRate: 2e9, IOPS: 1e6, Bandwidth: 2e9, Knee: 1}
	near(t, "alone", s.Rate(1, 1e6), 1e9)
	near(t, "four", s.Rate(4, 1e6), 1.6e9)
	for _, knee := range []float64{.5, 1, 1.5, 4, 16} {
		s.Knee = knee
		for _, block := range []float64{512, 4096, 1 << 20} {
			before := 0.
			for depth := 1.; depth <= 1<<14; depth *= 2 {
				x := s.Rate(depth, block)
				lone := block / (s.Latency + block/s.RequestRate)
				limit := math.Min(s.IOPS*block, s.Bandwidth)
				if x < before*(1-1e-12) || x > depth*lone*(1+1e-12) {
					t.Fatalf("knee %v, %v B, depth %v: %v bytes/s after %v", knee, block, depth, x, before)
				}
				if depth == 1<<14 && knee > 1 && math.Abs(x/limit-1) > .1 {
					t.Fatalf("knee %v, %v B: %v bytes/s at the end, limit %v", knee, block, x, limit)
				}
				before = x
			}
		}
	}
}

// A sharp knee under a very deep queue reaches the limit.
func TestSharpKnee(t *testing.T) {
	s := &SSD{Latency: 1e-3, RequestRate: 2e9, IOPS: 1e6, Bandwidth: 2e9, Knee: 64}
	near(t, "deep", s.Rate(1<<30, 4096), 2e9)
	near(t, "alone", s.Rate(1, 4096), 4096/(1e-3+4096/2e9))
}

// n reads have at most n in flight. One read of a deep queue takes its latency.
func TestShallow(t *testing.T) {
	s := &SSD{Latency: 80e-6, RequestRate: 5e9, IOPS: 1e6, Bandwidth: 5e9, Knee: 1.5, Depth: 64}
	near(t, "one read", s.Time(Request{Descriptors: 1, Bytes: 1e5, Launches: 1}), 100e-6)
	r := Request{Descriptors: 64, Bytes: 64e5, Launches: 1}
	near(t, "64 reads", s.Time(r), 64e5/s.Rate(64, 1e5))
	near(t, "causes", s.Cost(r).By.Link+s.Cost(r).By.Descriptor, s.Time(r))
	near(t, "a stripe", (&SSD{Latency: 80e-6, RequestRate: 5e9, IOPS: 1e6, Bandwidth: 5e9, Knee: 1.5, Depth: 64, Drives: 4}).Rate(1, 1e5), 1e9)
}

// A read of 8 MB lies on all four drives, 2 MB on each: 80 µs and 400 µs at 5 GB/s. One drive takes
// 1600. A read of 1 MiB lies on two of them, and one of a chunk on one.
func TestLargeReadsOfAStripe(t *testing.T) {
	s := &SSD{Latency: 80e-6, RequestRate: 5e9, IOPS: 1e6, Bandwidth: 5e9, Knee: 1.5, Depth: 64, Drives: 4}
	one := *s
	one.Drives = 1
	near(t, "8 MB", s.Time(Request{Descriptors: 1, Bytes: 8e6, Launches: 1}), 480e-6)
	near(t, "8 MB of one drive", one.Time(Request{Descriptors: 1, Bytes: 8e6, Launches: 1}), 1680e-6)
	near(t, "1 MiB", s.Time(Request{Descriptors: 1, Bytes: 1 << 20, Launches: 1}), 80e-6+float64(512<<10)/5e9)
	near(t, "a chunk", s.Time(Request{Descriptors: 1, Bytes: 512 << 10, Launches: 1}), one.Time(Request{Descriptors: 1, Bytes: 512 << 10, Launches: 1}))
	before := 0.
	for b := int64(4096); b < 64<<20; b += b / 7 {
		now := s.Time(Request{Descriptors: 3, Bytes: 3 * b, Launches: 1})
		if now < before {
			t.Errorf("3 reads of %d B take %g s, smaller ones %g", b, now, before)
		}
		before = now
	}
}

// Four threads of 10 GB/s read a memory of 30 GB/s. 8 pieces take two latencies, and 3 MB 0.1 ms.
// Two threads carry 20.
func TestMemory(t *testing.T) {
	m := Memory{Latency: 100e-9, Rate: 30e9, ThreadRate: 10e9, Threads: 4}
	near(t, "memory bound", m.Time(Request{Descriptors: 8, Bytes: 3e6, Launches: 0}), 200e-9+100e-6)
	m.Threads = 2
	near(t, "thread bound", m.Time(Request{Descriptors: 8, Bytes: 3e6, Launches: 0}), 400e-9+150e-6)
	m.Threads = 0
	near(t, "one thread", m.Time(Request{Descriptors: 1, Bytes: 1e6, Launches: 0}), 100e-9+100e-6)
}

// Only hosts with CXL have it. It is slower than DRAM in rate and latency.
func TestCXL(t *testing.T) {
	if _, ok := CXL(machine(t, "h100").Host, 8); ok {
		t.Error("a DGX H100 has CXL memory")
	}
	lib, err := hardware.Load("")
	fatal.If(t, err)
	host, err := lib.Host("epyc-9004-cxl")
	fatal.If(t, err)
	dram := DRAM(host, 8)
	cxl, ok := CXL(host, 8)
	if !ok || cxl.Latency <= dram.Latency || cxl.Rate >= dram.Rate || cxl.ThreadRate >= dram.ThreadRate {
		t.Errorf("CXL %+v, DRAM %+v", cxl, dram)
	}
	r := Request{Descriptors: 1000, Bytes: 1e9, Launches: 0}
	near(t, "CXL", cxl.Time(r), 125*250e-9+1e9/25e9)
}
