package s3fifo

import "github.com/kvreplay/kvreplay/policies"

// ghosts remember the last size blocks added, but for those taken.
type ghosts struct {
	added []int32 // number of each block's addition, counted from 1; 0 if taken or never added
	count int32
	size  int
}

func (g *ghosts) reset(blocks, size int) {
	g.added = policies.Fill(g.added, blocks, 0)
	g.count, g.size = 0, size
}

func (g *ghosts) add(x int32) {
	g.count++
	g.added[x] = g.count
}

// take forgets x and reports whether it was remembered.
func (g *ghosts) take(x int32) bool {
	n := g.added[x]
	g.added[x] = 0
	return n > 0 && int(g.count-n) < g.size
}
