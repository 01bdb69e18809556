package pipeline

import (
	"fmt"
	"math"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// Pricer turns the counts of a batch into the seconds of a Layer.
type Pricer struct {
	Machine *hardware.Machine
	Model   *hardware.Model
	Compute Computer
	Scaling *Scaling
	Fetch   transfer.Path // host to device
	Store   transfer.Path // device to host
	SSD     transfer.Path
	Layout  transfer.Layout // Fragments and Merge; sizes come from Scaling
	Context int64           // tokens; 0: the profile's
	Experts int             // GPUs that share routed experts
	Moves   Moves
	Ahead   ReadAhead
	Weights bool // go over the link, for the whole batch
	// Dense says, with MovesLayers, what is recomputed and quantised; nil otherwise.
	Dense  *KVPR
	Memory float64 // bytes/s, of the GPU
	// Partial says, with MovesUncached, what stays uncached; nil otherwise.
	Partial *ELLM

	recomputed float64 // the largest split point so far, positions
}

// Traffic is what moves, bytes and requests.
type Traffic struct {
	H2D, D2H, SSD            float64 // bytes
	Descriptors, SSDRequests float64
}

func (t *Traffic) add(o Traffic) {
	t.H2D += o.H2D
	t.D2H += o.D2H
	t.SSD += o.SSD
	t.Descriptors += o.Descriptors
	t.SSDRequests += o.SSDRequests
}

// fetched is a share of what is fetched; nothing is written back.
func (t *Traffic) fetched(share float64) Traffic {
	return Traffic{H2D: share * t.H2D, SSD: share * t.SSD, Descriptors: share * t.Descriptors, SSDRequests: share * t.SSDRequests}
}

// Layer prices one layer of the model for some requests of the batch.
func (p *Pricer) Layer(layer int, t *sums) (l Layer, moved Traffic, err error) {
	s := p.Scaling
	load := Load{Requests: t.requests, Queries: float64(t.Positions), Context: float64(t.SeqLen), Scored: t.scored,
		Demand: float64(t.Demand) * s.Factor, Attended: t.attended, Bytes: t.entries * s.EntryBytes, Missed: float64(t.Misses) * s.Factor}
	if p.Partial != nil {
		share := p.Partial.Uncached
		load.Again = share * float64(t.SeqLen)
		load.Pairs = (share*share*t.squares + load.Again) / 2
	}
	o, err := p.Compute.Layer(layer, &load)
	if err != nil {
		return l, moved, fmt.Errorf("layer %d: %w", layer, err)
	}
	l = Layer{Project: o.Project, Select: o.Select, Pre: o.Pre, Attend: o.Attend, Post: o.Post, LookupGPU: o.LookupGPU, LookupCPU: o.LookupCPU, Update: o.Update}
	if p.Moves == MovesNothing {
		l.Dense.Attend = o.AttendAll
		return l, moved, nil
	}
	if p.Moves == MovesUncached {
		p.moveUncached(layer, t, &o, &l, &moved)
		return l, moved, nil
	}
	store := p.Store.Cost(p.writeBack(t))
	l.Store, l.Loads.Store, l.Scatter = store.Seconds, store.Load, p.share(&store)
	moved.D2H = float64(store.Bytes)
	if p.Moves == MovesLayers {
		p.moveLayer(layer, t, &o, &l, &moved)
		return l, moved, nil
	}
	dram := p.moved(t.Misses-t.SSDMisses, hostRuns(t.Runs, t.SSDRuns), t.Moved-t.SSDMoved)
	drive := p.moved(t.SSDMisses, t.SSDRuns, t.SSDMoved)
	fetch, hop := dram.over(p.Fetch), drive.over(p.Fetch)
	l.Fetch, l.Loads.Fetch = Transfer{fetch.Seconds, fetch.By.Launch}, fetch.Load
	l.Hop, l.Loads.Hop = Transfer{hop.Seconds, hop.By.Launch}, hop.Load
	l.Read = drive.over(p.SSD).Seconds
	l.Ahead = p.Ahead
	l.Gather = max(p.share(&fetch), p.share(&hop))
	if t.entries > 0 {
		l.Missed = min(1, float64(t.Moved)*s.Factor/t.entries)
	}
	reads := 1 + p.Ahead.again()
	passes := 1.
	if p.Ahead.Direct {
		passes = reads
	}
	moved.H2D, moved.SSD = dram.bytes+passes*drive.bytes, reads*drive.bytes
	moved.Descriptors, moved.SSDRequests = dram.pieces+passes*drive.pieces, reads*drive.pieces
	return l, moved, nil
}

// share is how much of the SMs a transfer takes while it runs.
func (p *Pricer) share(c *transfer.Cost) float64 { return c.SMs / float64(p.Machine.GPU.SMs.Value) }

// moves are missed blocks of some entries as pieces, whose number scaling may leave
// between two whole ones.
type moves struct{ pieces, bytes float64 }

func (p *Pricer) moved(blocks, runs, entries int64) moves {
	pieces := blocks
	if p.Layout.Merge {
		pieces = min(blocks, max(1, runs))
	}
	return moves{float64(pieces*max(1, p.Layout.Fragments)) * p.Scaling.Factor, float64(entries) * p.Scaling.Factor * p.Scaling.EntryBytes}
}

// hostRuns are the runs that misses in host memory have at the least, where all of them have
// runs and those on the SSD ssd: what lies between two of the latter is one of the former.
func hostRuns(runs, ssd int64) int64 { return max(runs-ssd, ssd-runs) }

// over is the cost of one launch on a path: linear between the whole numbers of pieces of
// equal size.
func (m moves) over(path transfer.Path) transfer.Cost {
	if m.pieces == 0 {
		return transfer.Cost{}
	}
	few := math.Floor(m.pieces)
	share := m.pieces - few
	if share < 1e-9 || share > 1-1e-9 {
		return path.Cost(m.whole(math.Round(m.pieces)))
	}
	c, more := path.Cost(m.whole(few)), path.Cost(m.whole(few+1))
	c.Seconds += share * (more.Seconds - c.Seconds)
	c.By.Launch += share * (more.By.Launch - c.By.Launch)
	c.Load += share * (more.Load - c.Load)
	c.SMs = max(c.SMs, more.SMs)
	return c
}

// whole is a request of n of the pieces.
func (m moves) whole(n float64) transfer.Request {
	if n == 0 {
		return transfer.Request{}
	}
	return transfer.Request{Descriptors: int64(n), Bytes: int64(math.Round(n * (m.bytes / m.pieces))), Launches: 1}
}

// writeBack stores the entries that a step generated.
func (p *Pricer) writeBack(t *sums) transfer.Request {
	entry := p.Scaling.EntryBytes
	if p.Dense != nil {
		entry *= p.Dense.KV.Ratio()
	}
	layout := transfer.Layout{EntryBytes: int64(entry), Fragments: p.Layout.Fragments}
	return layout.WriteBack(int64(p.Scaling.Heads), t.Positions)
}

// moveLayer prices a layer whose whole KV moves. The bytes follow from the step's split
// (KVPR.moved).
func (p *Pricer) moveLayer(layer int, t *sums, o *Operators, l *Layer, moved *Traffic) {
	k, m := p.Dense, p.Model
	entry := float64(m.Entry.Value)
	kv := transfer.Request{Descriptors: int64(t.requests) * max(1, p.Layout.Fragments), Bytes: int64(float64(t.SeqLen) * entry * k.KV.Ratio()), Launches: 1}
	cost := p.Fetch.Cost(kv)
	l.Loads.Layer = cost.Load
	l.Dense = Dense{Attend: o.AttendAll, KV: Transfer{cost.Seconds, cost.By.Launch}, Recompute: o.Recompute,
		Positions: int(math.Round(float64(t.SeqLen) / t.requests)), Prompt: int(math.Round(float64(t.Prompt) / t.requests))}
	d := &l.Dense
	d.Gather = p.share(&cost)
	rate := float64(kv.Bytes) / (cost.Seconds - cost.By.Launch)
	activations := t.requests * float64(m.Hidden.Value) * k.X.PerNumber() // bytes a position
	d.Activations = activations / rate
	d.Recompute += t.requests * float64(m.Hidden.Value) * k.X.Dequantized() / p.Memory
	numbers := entry / halfBytes
	d.Dequantize = t.requests * numbers * k.KV.Dequantized() / p.Memory
	d.Quantize = float64(t.Positions) * numbers * k.KV.Quantized() / p.Memory
	p.loadWeights(layer, d)
	d.Bytes, d.ActivationBytes = float64(kv.Bytes), activations
	moved.Descriptors = float64(kv.Descriptors)
}

// moveUncached prices a layer whose first tokens are not cached: over the link, and run
// again. What the schedule does of both is the traffic.
func (p *Pricer) moveUncached(layer int, t *sums, o *Operators, l *Layer, moved *Traffic) {
	l.Dense = Dense{Attend: o.AttendAll, Again: o.Again}
	bytes := int64(p.Partial.Uncached * float64(t.SeqLen) * float64(p.Model.Entry.Value))
	if bytes == 0 {
		return
	}
	kv := transfer.Request{Descriptors: int64(t.requests) * max(1, p.Layout.Fragments), Bytes: bytes, Launches: 1}
	cost := p.Fetch.Cost(kv)
	l.Dense.Uncached, l.Dense.Gather = Transfer{cost.Seconds, cost.By.Launch}, p.share(&cost)
	if p.Partial.swapped(layer) {
		moved.H2D, moved.Descriptors = float64(kv.Bytes), float64(kv.Descriptors)
	}
}

// loadWeights prices a layer's weights over the link.
func (p *Pricer) loadWeights(layer int, d *Dense) {
	all, perParameter := LayerWeights(p.Model, layer, p.Experts), float64(p.Model.BytesPerParameter.Value)
	cost := p.Fetch.Cost(transfer.Request{Descriptors: 1, Bytes: int64(all), Launches: 1})
	d.Weights, d.WeightsGather = cost.Seconds, p.share(&cost)
	d.KeyValueShare = recomputed(p.Model) * perParameter / all
	d.AttentionShare = p.Model.AttentionParameters() * perParameter / all
}
