package hardware

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
	if g.AchievedBF16.Known() && g.AchievedBF16.Value > g.BF16.Value {
		f.at("achieved_bf16", "%s exceeds bf16 %s", g.AchievedBF16.Written, g.BF16.Written)
	}
	switch {
	case g.AchievedFP8.Known() && !g.FP8.Known():
		f.at("achieved_fp8", "%s without fp8", g.AchievedFP8.Written)
	case g.AchievedFP8.Known() && g.AchievedFP8.Value > g.FP8.Value:
		f.at("achieved_fp8", "%s exceeds fp8 %s", g.AchievedFP8.Written, g.FP8.Written)
	}
	if g.AchievedMemoryBandwidth.Known() && g.AchievedMemoryBandwidth.Value > g.MemoryBandwidth.Value {
		f.at("achieved_memory_bandwidth", "%s exceeds memory_bandwidth %s", g.AchievedMemoryBandwidth.Written, g.MemoryBandwidth.Written)
	}
}
