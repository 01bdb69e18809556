package synthetic

import "math"

// run is a maximal span of steps that demand a block, in one word, which loads and stores
// at once: from the lowest bit on 32 of the block, 16 of the first step that demands it and
// 16 of the first that no longer does.
type run uint64

// forever is the exit of a run that outlasts the process; steps are below it.
const forever = math.MaxUint16

// endless is a run from step enter on.
func endless(block int32, enter int) run {
	return run(uint32(block)) | run(uint16(enter))<<32 | forever<<48
}

func (r run) block() int32  { return int32(uint32(r)) }
func (r run) enter() uint16 { return uint16(r >> 32) }
func (r run) exit() uint16  { return uint16(r >> 48) }

// bucket is the bucket of its block's distance from the threshold at step now.
func (r run) bucket(now int) uint8 {
	return bucketOf(uint16(now+1)-r.enter(), r.exit()-uint16(now))
}

// from is the run that begins at step enter.
func (r run) from(enter int) run { return r&^(forever<<32) | run(uint16(enter))<<32 }

// until is the run that ends before step exit.
func (r run) until(exit int) run { return r&^(forever<<48) | run(uint16(exit))<<48 }
