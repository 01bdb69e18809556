package transfer

import (
	"math"

	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Memory is DRAM or CXL memory as threads of the host copy from it: pieces wait for a
// latency each, threads side by side, and bytes for the least of what the threads and
// the memory carry.
type Memory struct {
	Latency    float64 // s, of one piece
	Rate       float64 // bytes/s, of all threads
	ThreadRate float64 // bytes/s, of one
	Threads    int     // 0 is 1
}

// DRAM is the host's memory, read by some threads.
func DRAM(h *hardware.Host, threads int) Memory {
	return Memory{float64(h.Latency.Value), float64(h.StreamBandwidth.Value), float64(h.ThreadBandwidth.Value), threads}
}

// CXL is the host's CXL memory, read by some threads; a thread is slower there than on
// DRAM as the latency is longer, since what it keeps in flight is the same. ok is false
// where the host has none.
func CXL(h *hardware.Host, threads int) (m Memory, ok bool) {
	if h.CXL == nil {
		return Memory{}, false
	}
	slower := float64(h.Latency.Value) / float64(h.CXL.Latency.Value)
	return Memory{float64(h.CXL.Latency.Value), float64(h.CXL.Bandwidth.Value), float64(h.ThreadBandwidth.Value) * math.Min(1, slower), threads}, true
}

// Time is Cost(r).Seconds.
func (m Memory) Time(r Request) float64 { return m.Cost(r).Seconds }

// Cost prices a copy within the host.
func (m Memory) Cost(r Request) Cost {
	threads := float64(max(1, m.Threads))
	by := Causes{
		Descriptor: math.Ceil(float64(r.Descriptors)/threads) * m.Latency,
		Link:       float64(r.Bytes) / math.Min(m.Rate, threads*m.ThreadRate),
	}
	return Cost{Bytes: r.Bytes, Descriptors: r.Descriptors, Launches: r.Launches, WireForward: float64(r.Bytes), Seconds: by.Descriptor + by.Link, By: by}
}
