//go:build !amd64

package echo

func assessGroup(g *group, c *calibrator, scores *[64]int32, notes *[64]note) {
	assessPlain(g, c, scores, notes)
}

func sumGroup(g *group, past *[64]uint64, other *[64]otherSum, s *sums, bit, demanded uint64) uint32 {
	return sumPlain(g, past, other, s, bit, demanded)
}

func fillTables(tables *[8][256]uint64, at *[64]uint64) { fillPlain(tables, at) }

func addEvents(to []otherSum, of *[16]otherSum, list []event) { addPlain(to, of, list) }
