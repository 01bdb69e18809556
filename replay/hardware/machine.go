package hardware

import "fmt"

// machineFile is a machine as its file names the parts.
type machineFile struct {
	Header
	GPU    string       `yaml:"gpu"`
	GPUs   Fact[Number] `yaml:"gpus" most:"1e4"` // that share the host
	Link   string       `yaml:"link"`            // of each GPU
	Host   string       `yaml:"host"`
	Drive  string       `yaml:"drive"`
	Drives Fact[Number] `yaml:"drives" most:"1e4"` // striped
	// GPUDirect is what drives deliver straight into one GPU's memory; absent: through the host.
	GPUDirect Fact[BytesPerSecond] `yaml:"gpudirect" need:"no"`
}

func (m *machineFile) check(*faults) {} // Resolve has the parts

// Machine is a GPU with its link, host and drives: what --hardware names.
type Machine struct {
	Name      string
	Title     string
	GPU       *GPU
	GPUs      int // share the host
	Link      *Link
	Host      *Host
	Drive     *Drive
	Drives    int                  // striped
	GPUDirect Fact[BytesPerSecond] // from drives into one GPU's memory; not Known: through the host
}

// GPU is an accelerator: dense arithmetic, memory, and what a benchmark has reached.
type GPU struct {
	Header
	// Memory is the capacity that the device reports. Vendors call 80 × 2³⁰ B 80 GB.
	Memory Fact[Bytes] `yaml:"memory"`
	// Reserved is the part of Memory that no program can allocate: the driver keeps some,
	// and the context of a process some more.
	Reserved        Fact[Bytes]          `yaml:"reserved" need:"no"`
	MemoryBandwidth Fact[BytesPerSecond] `yaml:"memory_bandwidth"`
	BF16            Fact[FLOPPerSecond]  `yaml:"bf16"`           // dense, FP32 accumulate; FP16 where the GPU has no BF16
	FP8             Fact[FLOPPerSecond]  `yaml:"fp8" need:"no"`  // dense
	SMs             Fact[Number]         `yaml:"sms" most:"1e5"` // streaming multiprocessors, compute units

	// What matrix products and copies were measured to reach.
	AchievedBF16            Fact[FLOPPerSecond]  `yaml:"achieved_bf16" need:"no"`
	AchievedFP8             Fact[FLOPPerSecond]  `yaml:"achieved_fp8" need:"no"`
	AchievedMemoryBandwidth Fact[BytesPerSecond] `yaml:"achieved_memory_bandwidth" need:"no"`
}

func (g *GPU) check(f *faults) {
	if g.Reserved.Value >= g.Memory.Value {
		f.at("reserved", "%s is not below memory %s", g.Reserved.Written, g.Memory.Written)
	}
	atMost(f, "achieved_bf16", &g.AchievedBF16, "bf16", &g.BF16)
	if g.AchievedFP8.Known() && !g.FP8.Known() {
		f.at("achieved_fp8", "%s without fp8", g.AchievedFP8.Written)
	} else {
		atMost(f, "achieved_fp8", &g.AchievedFP8, "fp8", &g.FP8)
	}
	atMost(f, "achieved_memory_bandwidth", &g.AchievedMemoryBandwidth, "memory_bandwidth", &g.MemoryBandwidth)
}

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
	atMost(f, "stream_bandwidth", &h.StreamBandwidth, "memory_bandwidth", &h.MemoryBandwidth)
	atMost(f, "thread_bandwidth", &h.ThreadBandwidth, "stream_bandwidth", &h.StreamBandwidth)
}

// Drive is an NVMe drive.
type Drive struct {
	Header
	ReadBandwidth  Fact[BytesPerSecond] `yaml:"read_bandwidth"`            // sequential
	WriteBandwidth Fact[BytesPerSecond] `yaml:"write_bandwidth" need:"no"` // sequential
	ReadIOPS       Fact[PerSecond]      `yaml:"read_iops"`                 // random 4 KiB
	ReadLatency    Fact[Seconds]        `yaml:"read_latency"`              // of a lone read, less its bytes at RequestRate
	// RequestRate is what one request streams at, after its latency; absent: ReadBandwidth.
	RequestRate Fact[BytesPerSecond] `yaml:"request_rate" need:"no"`
	// Knee is how sharply throughput turns from growing with queue depth to the drive's
	// limits: 1 is a long bend, above 8 a corner.
	Knee   Fact[Number]  `yaml:"knee"`
	Series []DriveSeries `yaml:"measurements" need:"no"`
}

// DriveSeries are reads measured under the same conditions.
type DriveSeries struct {
	Name   string   `yaml:"name"`
	Source Citation `yaml:"source"`
	Note   string   `yaml:"note" need:"no"`
	// Fits says that the drive's constants are fitted to these points, Sets that one of
	// them is taken from a point.
	Sets   bool         `yaml:"sets" need:"no"`
	Fits   bool         `yaml:"fits" need:"no"`
	Points []DrivePoint `yaml:"points"`
}

// DrivePoint is the throughput of random reads of one size at one queue depth.
type DrivePoint struct {
	Block Measure[Bytes]          `yaml:"block"`
	Depth Measure[Number]         `yaml:"depth"` // requests in flight
	Rate  Measure[BytesPerSecond] `yaml:"rate" need:"no"`
	IOPS  Measure[PerSecond]      `yaml:"iops" need:"no"`
	Why   string                  `yaml:"why" need:"no"` // why the model misses it
}

// BytesPerSecond is the measured throughput.
func (p *DrivePoint) BytesPerSecond() float64 {
	if p.Rate.Known() {
		return float64(p.Rate.Value)
	}
	return float64(p.IOPS.Value) * float64(p.Block.Value)
}

func (d *Drive) check(f *faults) {
	if d.Knee.Value < 0.5 || d.Knee.Value > 64 {
		f.at("knee", "%s, expected 0.5 to 64", d.Knee.Written)
	}
	for i, s := range d.Series {
		for j, p := range s.Points {
			path := fmt.Sprintf("measurements[%d].points[%d]", i, j)
			if p.Rate.Known() == p.IOPS.Known() {
				f.at(path, "needs either rate or iops (%s)", s.Name)
			}
			if p.Depth.Value < 1 {
				f.at(path+".depth", "%s, expected at least 1 (%s)", p.Depth.Written, s.Name)
			}
		}
	}
}
