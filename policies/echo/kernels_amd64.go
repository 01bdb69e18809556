package echo

import "golang.org/x/sys/cpu"

var hasAVX2 = cpu.X86.HasAVX2

// assessGroup does the same as assessPlain. With AVX2 it handles eight blocks at once. It then
// overwrites up to seven more scores and notes.
func assessGroup(g *group, c *calibrator, scores *[64]int32, notes *[64]note) {
	if hasAVX2 {
		assessAVX2(g, c, scores, notes)
		return
	}
	assessPlain(g, c, scores, notes)
}

//go:noescape
func assessAVX2(of *group, c *calibrator, scores *[64]int32, notes *[64]note)

// fillTables does the same as fillPlain.
func fillTables(tables *[8][256]uint64, at *[64]uint64) {
	if hasAVX2 {
		fillAVX2(tables, at)
		return
	}
	fillPlain(tables, at)
}

//go:noescape
func fillAVX2(tables *[8][256]uint64, at *[64]uint64)

// sumGroup does the same as sumPlain.
//
//go:noescape
func sumGroup(of *group, past *[64]uint64, other *[64]otherSum, s *sums, bit, demanded uint64) uint32

// addEvents does the same as addPlain. All blocks of the list must have a sum.
//
//go:noescape
func addEvents(to []otherSum, of *[16]otherSum, list []event)
