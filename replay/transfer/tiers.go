package transfer

import "math"

// Level is the extent to which a system hides an SSD behind DRAM and compute (KVDrive, section 7.3,
// Figure 21a).
type Level int

// The levels. Each includes the previous one.
const (
	LayerWise    Level = iota // (a) a whole layer through a memory map, as FlexGen
	Sparse                    // (b) the demanded blocks, in extents, with queue depth
	Hierarchical              // (c) read ahead into pinned buffers during selection and projection
	Balanced                  // (d) blocks that stall most often stay in pinned memory
)

func (l Level) String() string {
	return [...]string{"layer-wise", "sparse", "hierarchical", "balanced"}[l]
}

// Tiers fetches one layer's demand from DRAM and SSD into the GPU.
type Tiers struct {
	Link   Path // host to device
	SSD    Path // reads, usually an *SSD
	Layout Layout
	// Direct lets the drive write into the GPU (GPUDirect Storage). This avoids the second hop, but
	// the bytes share the link with those from DRAM. DirectRate limits the drive. 0 is no limit.
	Direct     bool
	DirectRate float64 // bytes/s
}

// Demand is the part of one layer's and step's demand that is below the GPU, in blocks.
type Demand struct {
	DRAM   int64   // demanded blocks in DRAM
	SSD    int64   // demanded blocks that are only on the SSD
	Pinned int64   // part of SSD that level Balanced keeps in pinned memory
	Layer  int64   // blocks of the whole layer, for level LayerWise
	Ahead  float64 // seconds of selection and projection that hide reads ahead
}

// Fetch returns the traffic of a demand and its time that is not hidden behind Ahead seconds of
// selection and projection.
//
//	(a)  ssd(layer) + link(layer)
//	(b)  link(d) + ssd(s) + link(s)
//	(c)  max(link(d), ssd(s) − ahead) + link(s)
//	(d)  max(link(d + pinned), ssd(s − pinned) − ahead) + link(s − pinned)
//
// d is the number of blocks in DRAM and s on the SSD. With Direct, blocks from the SSD pass the
// link while they are read instead of afterwards:
//
//	(a)  max(ssd(layer), link(layer))    (b)  link(d) + max(ssd(s), link(s))
//	(c)  max(link(d) + max(0, link(s) − ahead), ssd(s) − ahead); (d) likewise
//
// Negative differences count as 0.
func (t *Tiers) Fetch(level Level, d Demand) TierCost {
	if level == LayerWise { // one segment, one copy
		whole := Request{Descriptors: min(1, d.Layer), Bytes: d.Layer * t.Layout.BlockBytes(), Launches: 1}
		return TierCost{t.through(t.ssd(whole), t.Link.Time(whole)), whole.Bytes, whole.Bytes, whole.Descriptors}
	}
	if level == Balanced {
		pinned := min(d.Pinned, d.SSD)
		d.DRAM, d.SSD = d.DRAM+pinned, d.SSD-pinned
	}
	near, far := t.Layout.Request(d.DRAM, d.DRAM), t.Layout.Request(d.SSD, d.SSD)
	read := Request{Descriptors: d.SSD, Bytes: d.SSD * t.Layout.BlockBytes(), Launches: 1}
	dram, ssd, hop := t.Link.Time(near), t.ssd(read), t.Link.Time(far)
	seconds := dram + t.through(ssd, hop)
	if level > Sparse {
		seconds = Staged(dram, ssd, hop, d.Ahead, 0, t.Direct)
	}
	return TierCost{seconds, near.Bytes + far.Bytes, read.Bytes, read.Descriptors}
}

// TierCost is the result of Fetch.
type TierCost struct {
	Seconds   float64 // time that is not hidden
	LinkBytes int64
	SSDBytes  int64
	Reads     int64 // requests to the SSD
}

// through returns the time of blocks that are read in ssd seconds and pass the link in hop seconds.
// They pass it afterwards, or meanwhile if the drive writes into the GPU.
func (t *Tiers) through(ssd, hop float64) float64 {
	if t.Direct {
		return math.Max(ssd, hop)
	}
	return ssd + hop
}

// Staged returns the seconds of a fetch that are not hidden. The SSD reads while blocks from DRAM
// pass the link. Its reads begin hidden seconds before the demand is known:
//
//	max(dram, late) + hop
//	direct: max(dram + max(0, hop − hidden) + again·hop, late)
//
// late is max(0, ssd − hidden) + again·ssd. again is the share of wrong reads, which are made again.
// hop is the time of the SSD's blocks over the link. If direct, they pass it while they are read.
func Staged(dram, ssd, hop, hidden, again float64, direct bool) float64 {
	late := max(0, ssd-hidden) + again*ssd
	if direct {
		return max(dram+max(0, hop-hidden)+again*hop, late)
	}
	return max(dram, late) + hop
}

func (t *Tiers) ssd(r Request) float64 {
	if t.Direct && t.DirectRate > 0 {
		return Capped(t.SSD, t.DirectRate).Time(r)
	}
	return t.SSD.Time(r)
}
