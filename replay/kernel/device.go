package kernel

import (
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Device has the rates of a GPU.
type Device struct {
	Name      string
	Matrix    float64 // FLOP/s of the fastest BF16 product
	MatrixLow float64 // FLOP/s of the fastest product with weights of one byte
	MatrixFP4 float64 // FLOP/s of the fastest product of FP4 operands
	Bandwidth float64 // bytes/s of the data sheet
	SMs       float64
	Clock     float64 // Hz
	L2        float64 // bytes
	SlowECC   bool    // Ampere whose memory has ECC on, which costs part of its rate
	// FlashAttention2 is set where engines attend with version 2 of FlashAttention. Hopper has version 3, and
	// Blackwell of data centers has kernels of its own.
	FlashAttention2 bool
	Notes           []string
}

// Values of GPUs whose files lack a fact. The share of the datasheet's arithmetic is the mean of
// A100 (0.87), H100 (0.80), A40 (0.82) and RTX 4090 (1.00).
const (
	assumedMatrix = 0.87
	assumedClock  = 1.7e9
)

// NewDevice returns the rates of a GPU's file.
func NewDevice(g *hardware.GPU) *Device {
	d := &Device{Name: g.Name, Bandwidth: float64(g.MemoryBandwidth.Value), SMs: float64(g.SMs.Value),
		Clock: float64(g.Clock.Or(assumedClock)), L2: float64(g.L2.Or(0)), SlowECC: g.Architecture == "ampere" && g.ECC,
		FlashAttention2: slices.Contains([]string{"ampere", "ada", "blackwell"}, g.Architecture)}
	switch {
	case g.FastestBF16.Known():
		d.Matrix = float64(g.FastestBF16.Value)
	case g.AchievedBF16.Known():
		d.Matrix = float64(g.AchievedBF16.Value)
	default:
		d.Matrix = assumedMatrix * float64(g.BF16.Value)
		d.Notes = append(d.Notes, fmt.Sprintf("fastest matrix product assumed at %g of the datasheet", assumedMatrix))
	}
	d.MatrixLow, d.MatrixFP4 = d.Matrix, d.Matrix
	switch {
	case g.AchievedFP8.Known():
		d.MatrixLow = float64(g.AchievedFP8.Value)
	case g.FP8.Known():
		d.MatrixLow = d.Matrix * float64(g.FP8.Value/g.BF16.Value)
	}
	switch {
	case g.AchievedFP4.Known():
		d.MatrixFP4 = float64(g.AchievedFP4.Value)
	case g.FP4.Known():
		d.MatrixFP4 = d.Matrix * float64(g.FP4.Value/g.BF16.Value)
	}
	if !g.Clock.Known() {
		d.Notes = append(d.Notes, fmt.Sprintf("clock assumed at %g GHz, without effects of the L2 cache", assumedClock/1e9))
	}
	return d
}

// peak returns the FLOP/s of the fastest product with weights of the kernel's size. Weights of one byte are
// FP8. Smaller ones become 16 bits before the product (AWQ, GPTQ), unless both operands are FP4. Without
// FP4 on the GPU these become 16 bits too.
func (d *Device) peak(k *Kernel) float64 {
	switch {
	case k.FP4:
		return d.MatrixFP4
	case k.Bytes == 1:
		return d.MatrixLow
	}
	return d.Matrix
}

// Software is the code of the kernels that were measured. It decides how many elements a thread
// moves at once, and how fine the profiler's clock was.
type Software struct {
	Name string
	// Vector is the number of elements that one thread of a norm or activation moves at once.
	Vector float64
	// Resolution is the step of the profiler's times, in seconds. The profiler cuts fractions of it
	// off, so half a step is added to each time.
	Resolution float64
}

// Current is the software of today's engines. Its norms and activations move 16 bytes at once.
var Current = Software{Name: "current", Vector: 8}

// softwares are the stacks with other properties. Vidur profiled kernels of vLLM 0.2, which move
// one element per thread. Its profiler stored whole microseconds.
var softwares = []Software{{Name: "vidur", Vector: 1, Resolution: 1e-6}}

func softwareOf(name string) Software {
	for _, s := range softwares {
		if s.Name == name {
			return s
		}
	}
	s := Current
	s.Name = name
	return s
}
