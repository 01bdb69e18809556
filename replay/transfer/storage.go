package transfer

import (
	"math"

	"github.com/kvreplay/kvreplay/replay/hardware"
)

// SSD is one drive or a stripe of equal ones. Reads of b bytes with q in flight run at X:
//
//	lone   = b / (Latency + piece/RequestRate)
//	limit  = min(IOPS·piece, Bandwidth)
//	1/X^k  = 1/(q·lone)^k + (1 − q^−k)/limit^k
//
// X is a soft minimum of the rate by Little's law for q requests and the drives' limit. A lone read
// takes exactly its latency. Many reads approach the drives' limits, and a larger knee k makes the
// bend sharper. piece is b on one drive. On a stripe, all drives read at once. piece is then the
// part of one drive in a read of more than a chunk. With Knee 0, requests go in rounds of Depth: T
// = ceil(n/Depth)·Latency + bytes/Bandwidth.
type SSD struct {
	Latency     float64 // s, of a lone read, before its bytes
	RequestRate float64 // bytes/s of one request
	IOPS        float64 // per drive
	Bandwidth   float64 // bytes/s per drive, reads
	Knee        float64
	Depth       int64 // requests in flight over all drives, 0 for 1
	Drives      int64 // 0 means 1
}

// chunk is the number of consecutive bytes of a stripe on one drive: the default of mdadm(8),
// --chunk.
const chunk = 512 << 10

// NewSSD returns drives with the constants of a data file.
func NewSSD(d *hardware.Drive, drives int, depth int64) *SSD {
	return &SSD{Latency: float64(d.ReadLatency.Value), RequestRate: float64(d.RequestRate.Or(d.ReadBandwidth.Value)), IOPS: float64(d.ReadIOPS.Value),
		Bandwidth: float64(d.ReadBandwidth.Value), Knee: float64(d.Knee.Value), Depth: depth, Drives: int64(drives)}
}

// Rate returns the throughput of reads of block bytes with depth ≥ 1 in flight, in bytes per
// second.
func (s *SSD) Rate(depth, block float64) float64 {
	drives := float64(max(1, s.Drives))
	piece := math.Min(block, math.Max(chunk, block/drives))
	lone := block / (s.Latency + piece/s.RequestRate)
	queued := depth * lone
	limit := drives * math.Min(s.IOPS*piece, s.Bandwidth)
	// The smaller one is factored out, so that no power overflows.
	least, full := math.Min(queued, limit), 1-math.Pow(depth, -s.Knee)
	sum := math.Pow(least/queued, s.Knee) + full*math.Pow(least/limit, s.Knee)
	return least / math.Pow(sum, 1/s.Knee)
}

// Cost prices random reads. r has Descriptors extents with Bytes in all.
func (s *SSD) Cost(r Request) Cost {
	if r.Descriptors == 0 {
		return Cost{}
	}
	by := Causes{Link: s.streams(r)}
	by.Descriptor = math.Max(0, s.Time(r)-by.Link)
	return Cost{Bytes: r.Bytes, Descriptors: r.Descriptors, WireForward: float64(r.Bytes), Seconds: by.Descriptor + by.Link, By: by}
}

// streams returns the time of a request's bytes, without latency.
func (s *SSD) streams(r Request) float64 {
	return float64(r.Bytes) / (s.Bandwidth * float64(max(1, s.Drives)))
}

// Time returns Cost(r).Seconds.
func (s *SSD) Time(r Request) float64 {
	if r.Descriptors == 0 {
		return 0
	}
	n := float64(r.Descriptors)
	depth := math.Min(n, float64(max(1, s.Depth)))
	if s.Knee == 0 {
		return math.Ceil(n/depth)*s.Latency + s.streams(r)
	}
	return math.Max(s.streams(r), float64(r.Bytes)/s.Rate(depth, float64(r.Bytes)/n))
}

// Memory is DRAM or CXL memory from which threads of the host copy. Each piece waits for a latency,
// and threads work in parallel. Bytes move at the smaller rate of the threads and the memory.
type Memory struct {
	Latency    float64 // s per piece
	Rate       float64 // bytes/s of all threads
	ThreadRate float64 // bytes/s of one thread
	Threads    int     // 0 means 1
}

// DRAM returns the host's memory, read by some threads.
func DRAM(h *hardware.Host, threads int) Memory {
	return Memory{float64(h.Latency.Value), float64(h.StreamBandwidth.Value), float64(h.ThreadBandwidth.Value), threads}
}

// CXL returns the host's CXL memory, read by some threads. A thread keeps as many bytes in flight
// as on DRAM, so the longer latency makes it slower. ok is false if the host has none.
func CXL(h *hardware.Host, threads int) (m Memory, ok bool) {
	if h.CXL == nil {
		return Memory{}, false
	}
	slower := float64(h.Latency.Value) / float64(h.CXL.Latency.Value)
	return Memory{float64(h.CXL.Latency.Value), float64(h.CXL.Bandwidth.Value), float64(h.ThreadBandwidth.Value) * math.Min(1, slower), threads}, true
}

// Time returns Cost(r).Seconds.
func (m Memory) Time(r Request) float64 { return m.Cost(r).Seconds }

// Cost prices a copy within the host.
func (m Memory) Cost(r Request) Cost {
	threads := float64(max(1, m.Threads))
	by := Causes{
		Descriptor: math.Ceil(float64(r.Descriptors)/threads) * m.Latency,
		Link:       float64(r.Bytes) / math.Min(m.Rate, threads*m.ThreadRate),
	}
	return Cost{Bytes: r.Bytes, Descriptors: r.Descriptors, WireForward: float64(r.Bytes), Seconds: by.Descriptor + by.Link, By: by}
}
