package pipeline

import "github.com/kvreplay/kvreplay/policies"

// Quantization is how numbers of FP16 lie in host memory: as they are, or as 4-bit
// integers, each group of adjacent ones with its scale and its least value in FP16
// (FlexGen, ICML 2023, section 5, with groups of 64). It is lossy; what it loses is not
// said here.
type Quantization struct {
	Group int // numbers that share a scale; 0: FP16
}

const (
	halfBytes   = 2   // a number of FP16
	packedBytes = 0.5 // one of 4 bits
)

// PerNumber are the bytes of a number, with its share of two of FP16 a group: 0.5625 in
// groups of 64, 3.6 times less than FP16.
func (q Quantization) PerNumber() float64 {
	if q.Group == 0 {
		return halfBytes
	}
	return packedBytes + 2*halfBytes/float64(q.Group)
}

// Ratio is PerNumber over that of FP16.
func (q Quantization) Ratio() float64 { return q.PerNumber() / halfBytes }

// Dequantized are the bytes of GPU memory read and written to make a number FP16 again,
// pass by pass as FlexGen's code does (FlexLLMGen, flexgen/compression.py, decompress):
// shift and mask read and write all packed bytes, what each leaves is copied into every
// second number, and a division and an addition in place take a constant a group: 13.06
// in groups of 64. A fused kernel would take 2.56.
func (q Quantization) Dequantized() float64 {
	if q.Group == 0 {
		return 0
	}
	const unpack = 2 * (2*packedBytes + packedBytes + halfBytes/2.)
	inPlace := 2*halfBytes + halfBytes/float64(q.Group)
	return unpack + 2*inPlace
}

// Quantized are the bytes of GPU memory read and written to quantise a new number (the
// same file, compress): least and greatest of a group; subtract, multiply, clamp, round;
// to bytes; a shift of every second one and their union. 25.5.
func (q Quantization) Quantized() float64 {
	if q.Group == 0 {
		return 0
	}
	const bounds, passes, bytes, pack = 2 * halfBytes, 4 * 2 * halfBytes, halfBytes + 1, 2*packedBytes + 3*packedBytes
	return bounds + passes + bytes + pack
}

// quantizations are the options kv, x and group of schedules that move whole layers.
type quantizations struct {
	kv, x string
	group int
}

func (q *quantizations) options() []policies.Option {
	*q = quantizations{"fp16", "fp16", 64}
	return []policies.Option{policies.Word("kv", &q.kv, "fp16", "int4"), policies.Word("x", &q.x, "fp16", "int4"), policies.Int("group", &q.group, 2, 1<<16)}
}

func (q *quantizations) of(word string) Quantization {
	if word == "int4" {
		return Quantization{q.group}
	}
	return Quantization{}
}
