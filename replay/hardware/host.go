package hardware

import "fmt"

// Host is the memory side of a machine, one socket.
type Host struct {
	Header
	Memory          Fact[Bytes]          `yaml:"memory"`
	MemoryBandwidth Fact[BytesPerSecond] `yaml:"memory_bandwidth"` // of all channels
	// StreamBandwidth is what all cores reach, ThreadBandwidth what one copies.
	StreamBandwidth Fact[BytesPerSecond] `yaml:"stream_bandwidth"`
	ThreadBandwidth Fact[BytesPerSecond] `yaml:"thread_bandwidth"`
	Latency         Fact[Seconds]        `yaml:"latency"`
	CXL             *CXL                 `yaml:"cxl" need:"no"`
}

// CXL is memory behind CXL.mem.
type CXL struct {
	Memory    Fact[Bytes]          `yaml:"memory"`
	Bandwidth Fact[BytesPerSecond] `yaml:"bandwidth"`
	Latency   Fact[Seconds]        `yaml:"latency"`
}

func (h *Host) check() error {
	if h.StreamBandwidth.Value > h.MemoryBandwidth.Value {
		return fmt.Errorf("stream_bandwidth %s exceeds memory_bandwidth %s", h.StreamBandwidth.Written, h.MemoryBandwidth.Written)
	}
	if h.ThreadBandwidth.Value > h.StreamBandwidth.Value {
		return fmt.Errorf("thread_bandwidth %s exceeds stream_bandwidth %s", h.ThreadBandwidth.Written, h.StreamBandwidth.Written)
	}
	return nil
}
