package echo

import "golang.org/x/sys/cpu"

var hasAVX2 = cpu.X86.HasAVX2

// assessGroup does the same as assessPlain. With AVX2 it handles eight blocks at once. It then
// overwrites up to seven more scores and notes.
func assessGroup(g *group, c *calibrator, scores *[64]int32, notes *[64]note, near *[64]uint8, listed *[64 + 2*margin]uint8) uint64 {
	if hasAVX2 {
		return assessAVX2(g, c, scores, notes, near, listed)
	}
	return assessPlain(g, c, scores, notes, near, listed)
}

//go:noescape
func assessAVX2(of *group, c *calibrator, scores *[64]int32, notes *[64]note, near *[64]uint8, listed *[64 + 2*margin]uint8) (all uint64)

// fillTables does the same as fillPlain.
func fillTables(tables *sums, at *[64]uint64) {
	if hasAVX2 {
		fillAVX2(tables, at)
		return
	}
	fillPlain(tables, at)
}

//go:noescape
func fillAVX2(tables *sums, at *[64]uint64)

// sumGroup does the same as sumPlain. The sums over the events of inactive blocks must be 0.
func sumGroup(g *group, past *[64]uint64, other *[64]otherSum, s *sums, forgotten uint64, regions *[4]uint32) uint64 {
	if hasAVX2 {
		return sumAVX2(g, past, other, s, forgotten, regions)
	}
	return sumPlain(g, past, other, s, forgotten, regions)
}

//go:noescape
func sumAVX2(of *group, past *[64]uint64, other *[64]otherSum, s *sums, forgotten uint64, regions *[4]uint32) (empty uint64)

// addCredits does the same as addPlain. All blocks must have a sum.
//
//go:noescape
func addCredits(to []otherSum, c *credits, weights *otherSum)
