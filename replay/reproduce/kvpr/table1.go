package kvpr

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// table1: K and V of one layer, 32 requests of 1024 tokens.
func (b *bench) table1(*constants) (reproduce.Section, error) {
	const batch, tokens, linkRate = 32, 1024, 32 << 30
	s := reproduce.Section{
		Name: "table-1", Covers: []string{"Table 1"}, Title: "Table 1: moving one layer's KV cache over the link and reading it on the GPU",
		Method: "Bytes are the batch's tokens times the model's entry, batch 32, 1024 tokens; times are transfer's of one piece at the link's stated rate, and at the GPU's datasheet memory bandwidth. Nothing is fitted.",
		Contradictions: []string{
			"The caption calls the last column the computation of K and V. It is the time in which the GPU's memory reads them: 1.53 TB/s in all three rows. Their projections, 4·b·s·h² FLOP, take 7.0, 11.0 and 21.6 ms at the 312 TFLOP/s of Figure 1, so recomputing is not an order of magnitude faster than moving.",
			"\"32 GB/s\" is 32 GiB/s, which moves 512 MiB in 15.6 ms; 32·10⁹ B/s takes 16.8 ms. PCIe 4.0 x16 carries 31.5·10⁹ B/s.",
		},
	}
	gpu, err := b.lib.GPU("a100-40")
	if err != nil {
		return s, err
	}
	for _, row := range []struct {
		model            string
		mebi, link, read float64
	}{{"opt-6.7b", 512, 15.6, 0.3509}, {"opt-13b", 640, 19.5, 0.4388}, {"opt-30b", 896, 27.3, 0.6143}} {
		m, err := b.lib.Model(row.model)
		if err != nil {
			return s, err
		}
		bytes := batch * tokens * int64(m.Entry.Value)
		s.Lines = append(s.Lines,
			reproduce.Same(m.Title+", KV cache", "MiB", row.mebi, float64(bytes)/(1<<20)),
			reproduce.Compare(reproduce.Arithmetic, m.Title+", link", "ms", reproduce.Printed(row.link), onePiece(linkRate, bytes)*1e3, reproduce.Gate{Relative: 0.005}),
			reproduce.Compare(reproduce.Prediction, fmt.Sprintf("%s, GPU, at the datasheet's %s", m.Title, gpu.MemoryBandwidth.Written), "ms", reproduce.Printed(row.read), onePiece(float64(gpu.MemoryBandwidth.Value), bytes)*1e3, reproduce.Gate{Relative: 0.02}))
	}
	return s, nil
}

// onePiece is the time of one contiguous transfer at a rate.
func onePiece(rate float64, bytes int64) float64 {
	path := transfer.NewCurve(plainLink(rate).HostToDevice.Call, transfer.Packets{})
	return path.Time(transfer.Request{Descriptors: 1, Bytes: bytes, Launches: 1})
}
