package hardware

import "fmt"

// machineFile is a machine whose parts are given by name.
type machineFile struct {
	Header
	GPU    string       `yaml:"gpu"`
	GPUs   Fact[Number] `yaml:"gpus" most:"1e4"` // GPUs that share the host
	Link   string       `yaml:"link"`            // link of each GPU
	Host   string       `yaml:"host"`
	Drive  string       `yaml:"drive"`
	Drives Fact[Number] `yaml:"drives" most:"1e4"` // striped
	// GPUDirect is the rate from drives straight into one GPU's memory. Without it, data goes
	// through the host.
	GPUDirect Fact[BytesPerSecond] `yaml:"gpudirect" need:"no"`
	// ReadsInFlight is the number of reads that programs keep in flight, over all drives and GPUs.
	ReadsInFlight Fact[Number] `yaml:"reads_in_flight" need:"no" most:"1048576"`
	// NetworkBandwidth is the rate from one GPU to GPUs of other hosts, in each direction.
	NetworkBandwidth Fact[BytesPerSecond] `yaml:"network_bandwidth" need:"no"`
}

func (m *machineFile) check(*faults) {} // Resolve checks the parts

// Machine is a GPU with its link, host and drives. --hardware names it.
type Machine struct {
	Name string
	// Shown is the name of the file that has the machine's numbers. Note says what Compose assumed.
	Shown, Note string

	GPU       *GPU
	GPUs      int // GPUs that share the host
	Link      *Link
	Host      *Host
	Drive     *Drive
	Drives    int                  // striped
	GPUDirect Fact[BytesPerSecond] // from drives into one GPU's memory, not Known if data goes through the host
	// ReadsInFlight is the number of reads that programs keep in flight, over all drives and GPUs.
	ReadsInFlight int
	// NetworkBandwidth is the rate from one GPU to GPUs of other hosts, in each direction, not Known
	// if no file states it.
	NetworkBandwidth Fact[BytesPerSecond]
	// Stated is the number of GPUs that the user states, over all sockets. Routed experts then stay on
	// these GPUs. 0 lets them use GPUs of further hosts.
	Stated int
	// Bridged GPUs are joined in pairs by NVLink bridges, which are optional hardware.
	Bridged bool
}

// Peers returns the rate from one GPU to the others of its host, in each direction. GPUs without
// links of their own exchange over PCIe. The rate of bridged GPUs holds between the two of a pair.
// The rate is 0 if no file states it.
func (m *Machine) Peers() (rate BytesPerSecond, pcie bool) {
	if m.Bridged {
		return m.GPU.BridgeBandwidth.Value, false
	}
	if m.GPU.PeerBandwidth.Known() || m.Link.PCIe == nil {
		return m.GPU.PeerBandwidth.Value, false
	}
	return m.Link.Bandwidth.Value, true
}

// WithBridges returns the machine with NVLink bridges between pairs of GPUs.
func (m *Machine) WithBridges() (*Machine, error) {
	if !m.GPU.BridgeBandwidth.Known() {
		return nil, fmt.Errorf("GPU %s states no bridge_bandwidth, its rate over an NVLink bridge: remove --bridge", m.GPU.Name)
	}
	bridged := *m
	bridged.Bridged = true
	return &bridged, nil
}

// Values of machines and hosts whose files lack a fact. No source states them.
const (
	assumedReadsInFlight = 64
	assumedLookupThreads = 16
)

// GPU is an accelerator: dense arithmetic, memory and measured rates.
type GPU struct {
	Header
	// Memory is the capacity that the device reports. Vendors call 80 × 2³⁰ B 80 GB.
	Memory Fact[Bytes] `yaml:"memory"`
	// Reserved is the part of Memory that programs cannot allocate. The driver and the context of a
	// process keep it.
	Reserved        Fact[Bytes]          `yaml:"reserved" need:"no"`
	MemoryBandwidth Fact[BytesPerSecond] `yaml:"memory_bandwidth"`
	// PeerBandwidth is the rate of links between the GPUs of a host, such as NVLink, in each direction.
	// It is not Known if GPUs exchange over PCIe.
	PeerBandwidth Fact[BytesPerSecond] `yaml:"peer_bandwidth" need:"no"`
	// BridgeBandwidth is the rate of NVLink bridges to one other GPU, in each direction.
	BridgeBandwidth Fact[BytesPerSecond] `yaml:"bridge_bandwidth" need:"no"`
	BF16            Fact[FLOPPerSecond]  `yaml:"bf16"`           // dense with FP32 accumulation, FP16 if the GPU has no BF16
	FP8             Fact[FLOPPerSecond]  `yaml:"fp8" need:"no"`  // dense
	FP4             Fact[FLOPPerSecond]  `yaml:"fp4" need:"no"`  // dense, both operands NVFP4
	SMs             Fact[Number]         `yaml:"sms" most:"1e5"` // streaming multiprocessors, compute units

	// Facts that package kernel uses. Architecture is the generation in small letters, as in hopper.
	Architecture string      `yaml:"architecture" need:"no"`
	ECC          bool        `yaml:"ecc" need:"no"`   // whether ECC of the memory is on by default
	Clock        Fact[Hertz] `yaml:"clock" need:"no"` // of the SMs at the datasheet's arithmetic rate
	L2           Fact[Bytes] `yaml:"l2" need:"no"`    // cache of all SMs
	// FastestBF16 is the rate of the fastest matrix product that a source measured. Only package
	// kernel uses it, and without it AchievedBF16.
	FastestBF16 Fact[FLOPPerSecond] `yaml:"fastest_bf16" need:"no"`

	// Measured rates of matrix products and copies.
	AchievedBF16            Fact[FLOPPerSecond]  `yaml:"achieved_bf16" need:"no"`
	AchievedFP8             Fact[FLOPPerSecond]  `yaml:"achieved_fp8" need:"no"`
	AchievedFP4             Fact[FLOPPerSecond]  `yaml:"achieved_fp4" need:"no"`
	AchievedMemoryBandwidth Fact[BytesPerSecond] `yaml:"achieved_memory_bandwidth" need:"no"`
}

func (g *GPU) check(f *faults) {
	if g.Reserved.Value >= g.Memory.Value {
		f.at("reserved", "%s is not below memory %s", g.Reserved.Written, g.Memory.Written)
	}
	atMost(f, "achieved_bf16", &g.AchievedBF16, "bf16", &g.BF16)
	atMost(f, "fastest_bf16", &g.FastestBF16, "bf16", &g.BF16)
	for _, rate := range []struct {
		name            string
		sheet, achieved *Fact[FLOPPerSecond]
	}{{"fp8", &g.FP8, &g.AchievedFP8}, {"fp4", &g.FP4, &g.AchievedFP4}} {
		if rate.achieved.Known() && !rate.sheet.Known() {
			f.at("achieved_"+rate.name, "%s needs %s", rate.achieved.Written, rate.name)
		} else {
			atMost(f, "achieved_"+rate.name, rate.achieved, rate.name, rate.sheet)
		}
	}
	atMost(f, "achieved_memory_bandwidth", &g.AchievedMemoryBandwidth, "memory_bandwidth", &g.MemoryBandwidth)
}

// Host is the memory side of a machine, one socket.
type Host struct {
	Header
	Memory          Fact[Bytes]          `yaml:"memory"`
	MemoryBandwidth Fact[BytesPerSecond] `yaml:"memory_bandwidth"` // nominal rate of all channels
	// StreamBandwidth is the measured rate of all cores, ThreadBandwidth that of one thread's copy.
	StreamBandwidth Fact[BytesPerSecond] `yaml:"stream_bandwidth"`
	ThreadBandwidth Fact[BytesPerSecond] `yaml:"thread_bandwidth"`
	Latency         Fact[Seconds]        `yaml:"latency"`
	// LookupThreads is the number of threads that look up entries in parallel.
	LookupThreads Fact[Number] `yaml:"lookup_threads" need:"no" most:"4096"`
	// FP32 is the peak rate of all cores, for attention on the CPU.
	FP32 Fact[FLOPPerSecond] `yaml:"fp32" need:"no"`
	CXL  *CXL                `yaml:"cxl" need:"no"`
}

// Threads returns the number of threads that look up entries, 16 if the file lacks it.
func (h *Host) Threads() int { return int(h.LookupThreads.Or(assumedLookupThreads)) }

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
	ReadLatency    Fact[Seconds]        `yaml:"read_latency"`              // of a lone read, without its bytes at RequestRate
	// RequestRate is the rate of one request after its latency. If absent, it is ReadBandwidth.
	RequestRate Fact[BytesPerSecond] `yaml:"request_rate" need:"no"`
	// Knee is the sharpness of the transition from throughput that grows with queue depth to the
	// drive's limits. 1 is a long bend, above 8 it is a corner.
	Knee   Fact[Number]  `yaml:"knee"`
	Series []DriveSeries `yaml:"measurements" need:"no"`
}

// DriveSeries holds reads measured under the same conditions.
type DriveSeries struct {
	Name   string   `yaml:"name"`
	Source Citation `yaml:"source"`
	Note   string   `yaml:"note" need:"no"`
	// Fits is set if the drive's constants are fitted to these points. Sets is set if one of them
	// is taken from a point.
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
	Why   string                  `yaml:"why" need:"no"` // reason that the model misses it
}

// BytesPerSecond returns the measured throughput.
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
