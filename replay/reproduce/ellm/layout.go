package ellm

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// layout holds the memory blocks: Fig. 7 and Table 2.
func (s *study) layout() (section reproduce.Section, err error) {
	const first = 6.67 // % at F = 2
	four := blocks{tokens: 4, layers: 4}
	section = reproduce.Section{Name: "blocks", Covers: []string{"Fig. 7", "Table 2"}, Title: "Figure 7 and Table 2: blocks of F layers",
		Method:    "Blocks = requests · ⌈tokens ÷ t⌉ · ⌈layers ÷ F⌉. A lookup finds one block, so that its share of the time goes with 1/F; Table 2's first column is what the others are told by.",
		Constants: []reproduce.Constant{{Name: "map overhead at F = 2", Value: first, Unit: "%", From: "Table 2"}},
		Lines: []reproduce.Line{
			reproduce.Same("Fig. 7, example A: 1 + 1 + 2 layers of 4 tokens, two requests", "blocks", 2, float64(four.of(2, 4, 1+1+2))),
			reproduce.Same("Fig. 7, example B: 2 + 2 + 4 layers", "blocks", 4, float64(four.of(2, 4, 2+2+4))),
			reproduce.ByHand("wasted by one layer of 4 tokens, F = 4", "", 0.75, four.wasted(4, 1)),
		}}
	for _, c := range []struct {
		f                int
		fragments, share float64
	}{{2, 1.18, first}, {4, 1.28, 3.84}, {8, 2.30, 1.47}} {
		kind := reproduce.Transferred
		if c.f == 2 {
			kind = reproduce.Fitted
		}
		l := reproduce.Compare(kind, fmt.Sprintf("Table 2, map overhead, F = %d", c.f), "%", reproduce.Printed(c.share), first*2/float64(c.f), reproduce.Gate{Relative: 0.15})
		section.Lines = append(section.Lines, l, reproduce.Absent(fmt.Sprintf("Table 2, fragmentation, F = %d", c.f), "%", reproduce.Printed(c.fragments), "depends on how many layers and tokens of each request are uncached at a time, which the paper does not print"))
	}
	section.Contradictions = []string{
		"Fragmentation at F = 4 is 1.28 % in Table 2 and 1.38 % in the text.",
		"Table 2 normalises throughput to F = 8: 1.13, 1.31, 1.0. F = 4 is then 1.16 times F = 2; the text says 1.14.",
	}
	return section, nil
}
