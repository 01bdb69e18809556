package allocate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// model returns a problem like those of `--capacity sweep`: 64 multiples of K from 1 to 16, concave
// except for noise.
func model(layers, heads int, family Family) *Problem {
	r := rand.New(rand.NewPCG(uint64(layers), uint64(heads)))
	p := &Problem{Family: family, Unit: 1}
	const k = 2048
	for layer := range layers {
		for head := range heads {
			c := Curve{Key: Key{int32(layer), int32(head)}}
			moved, saved := int64(1e9), 1e7+1e8*r.Float64()
			cost := int64(k)
			for i := range 64 {
				size := k * (16 + i%16) / 16 << (i / 16)
				pt := Point{Size: size, Cost: int64(size), Misses: moved, Moved: moved}
				if family == Windows {
					pt.Size, pt.Cost = i, cost
				}
				c.Points = append(c.Points, pt)
				moved = max(0, moved-int64(saved*(0.5+r.Float64())))
				saved *= 0.93
				cost += int64(k * (0.1 + 0.4*r.Float64()))
			}
			p.Curves = append(p.Curves, c)
		}
	}
	return p
}

// The models have 61 layers with one selection each (DeepSeek-V3.2-Exp) or 32 layers of 8 heads
// (Llama-3-8B), and 64 sizes. The memory is 2 × K per stream. Costs of windows have no common
// divisor.
func BenchmarkAllocate(b *testing.B) {
	for _, m := range []struct{ layers, heads int }{{61, 1}, {32, 8}} {
		for _, family := range []Family{Capacities, Windows} {
			p := model(m.layers, m.heads, family)
			for _, method := range []string{"2d-greedy", "2d-exact"} {
				spec, err := ParseMethod(method)
				fatal.If(b, err)
				b.Run(fmt.Sprintf("model=%dx%d/sizes=%s/method=%s", m.layers, m.heads, family, method), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if _, err := spec.Allocate(p, 2*p.Least()); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
