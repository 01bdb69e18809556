package hardware

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

func (h *Host) check(f *faults) {
	if h.StreamBandwidth.Value > h.MemoryBandwidth.Value {
		f.at("stream_bandwidth", "%s exceeds memory_bandwidth %s", h.StreamBandwidth.Written, h.MemoryBandwidth.Written)
	}
	if h.ThreadBandwidth.Value > h.StreamBandwidth.Value {
		f.at("thread_bandwidth", "%s exceeds stream_bandwidth %s", h.ThreadBandwidth.Written, h.StreamBandwidth.Written)
	}
}
