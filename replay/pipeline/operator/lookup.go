package operator

import (
	"cmp"
	"math"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// Lookup is the structure that a system looks up demanded blocks in, to find those that are resident.
type Lookup struct {
	name, summary string
	// host returns the dependent accesses of the host's memory and the bytes that it reads in
	// order.
	host func(d *lookedUp) (touches, bytes float64)
	// gpu returns the bytes that a kernel reads and writes.
	gpu   func(d *lookedUp) float64
	scans bool // the host reads at its rate
}

// lookedUp are the blocks that a layer looks up in a step, in all caches of a batch.
type lookedUp struct {
	demand, missed float64 // blocks
	resident       float64 // blocks in all caches
	each           float64 // blocks in a cache
}

// Bytes of the structures. No source states them, so they are assumed, except for those of hash.
const (
	// sectorBytes is the unit of access of device memory. For each block a kernel reads a word of
	// the table and writes two.
	sectorBytes = 32
	sectors     = 3
	// idBytes is the size of a block's number in a list.
	idBytes = 4
	// In ShadowKV's public code, reorder_keys_and_compute_offsets, a kernel reads the resident and
	// the demanded blocks, in 8 B each, and builds a table in shared memory. It writes the demanded
	// blocks and an offset of 4 B for each.
	hashReads, hashWrites = 8, 8 + 4
	// In PQCache's public code, vq_method/retrieval_based/lfu/include/lfu_cache.h, a lookup goes
	// from the bucket of an unordered_map to its node, and to the block in a list.
	hashTouches = 3
)

// lookups is the table of lookups. Times of page, and of hash on the host, do not depend on the
// size of the cache. KVDrive's grow with it (section 6.2, "cache size", and Fig. 16), but it does
// not state its structure. RetroInfer's public code looks up a cluster by its number
// (wave_buffer_cpu.cpp, batch_access).
var lookups = []*Lookup{
	{
		name: "page", summary: "a table by block, as of pages (RetroInfer)",
		host: func(d *lookedUp) (float64, float64) { return d.demand, 0 },
		gpu:  func(d *lookedUp) float64 { return d.demand * sectors * sectorBytes },
	},
	{
		name: "hash", summary: "a hash table (PQCache on the host, ShadowKV on the GPU)",
		host: func(d *lookedUp) (float64, float64) { return hashTouches * d.demand, 0 },
		gpu:  func(d *lookedUp) float64 { return hashReads*(d.resident+d.demand) + hashWrites*d.demand },
	},
	{
		name: "sorted", summary: "a binary search in a sorted list",
		host: func(d *lookedUp) (float64, float64) { return d.demand * d.halvings(), 0 },
		gpu:  func(d *lookedUp) float64 { return d.demand * (d.halvings() + sectors - 1) * sectorBytes },
	},
	{
		name: "list", summary: "a scan of a list, half of it for a hit", scans: true,
		host: func(d *lookedUp) (float64, float64) { return 0, d.scanned() },
		gpu:  func(d *lookedUp) float64 { return d.scanned() + d.demand*(sectors-1)*sectorBytes },
	},
}

// halvings returns the accesses of a binary search.
func (d *lookedUp) halvings() float64 { return max(1, math.Log2(1+d.each)) }

// scanned returns the bytes that scans of lists read.
func (d *lookedUp) scanned() float64 {
	hits := max(0, d.demand-d.missed)
	return idBytes * d.each * (hits/2 + min(d.missed, d.demand))
}

// LookupList describes the structures of lookups, one per line.
func LookupList() string {
	return strings.Join(slice.Map(lookups, func(s *Lookup) string { return listed(s.name, s.summary) }), "\n")
}

// ParseLookup returns the structure with a name, page if it is empty.
func ParseLookup(name string) (*Lookup, error) {
	return names.FindIn(lookups, "lookup", cmp.Or(name, lookups[0].name), func(s *Lookup) names.Name { return names.Name{Name: s.name} })
}

// String returns the name and the summary.
func (s *Lookup) String() string { return s.name + ", " + s.summary }

// Default reports whether it is the structure of options that name none.
func (s *Lookup) Default() bool { return s == lookups[0] }

// Scans reports whether the host reads the structure in order, at the rate of its threads.
func (s *Lookup) Scans() bool { return s.scans }

// lookup returns the seconds to look up a layer's demanded blocks on the GPU and on the host. The
// host's threads work in parallel.
func (r *Roofline) lookup(l *Load) (gpu, host float64) {
	d := lookedUp{demand: l.Demand, missed: l.Fetched, resident: l.Resident}
	if l.Caches > 0 {
		d.each = l.Resident / l.Caches
	}
	touches, bytes := r.Lookup.host(&d)
	return r.Lookup.gpu(&d) / r.memory, touches*r.latency/float64(r.Threads) + bytes/r.scan
}
