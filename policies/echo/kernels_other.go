//go:build !amd64

package echo

func assessGroup(g *group, c *calibrator, scores *[64]int32, notes *[64]note, near *[64]uint8, listed *[64 + 2*margin]uint8) uint64 {
	return assessPlain(g, c, scores, notes, near, listed)
}

func sumGroup(g *group, past *[64]uint64, other *[64]otherSum, s *sums, forgotten uint64, regions *[4]uint32) uint64 {
	return sumPlain(g, past, other, s, forgotten, regions)
}

func fillTables(tables *sums, at *[64]uint64) { fillPlain(tables, at) }

func addCredits(to []otherSum, c *credits, weights *otherSum) { addPlain(to, c, weights) }
