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
	Weights bool // go over the link, for the whole batch
	Splits  bool // with MovesLayers: positions are recomputed

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

// repeat adds a share of what is fetched once more.
func (t *Traffic) repeat(share float64) {
	t.H2D += share * t.H2D
	t.SSD += share * t.SSD
	t.Descriptors += share * t.Descriptors
	t.SSDRequests += share * t.SSDRequests
}

// Layer prices one layer of the model for some requests of the batch.
func (p *Pricer) Layer(layer int, t *sums) (l Layer, moved Traffic, err error) {
	s := p.Scaling
	load := Load{Requests: t.requests, Queries: float64(t.Positions), Context: float64(t.SeqLen), Scored: t.scored,
		Demand: float64(t.Demand) * s.Factor, Attended: t.attended, Entries: t.entries, Missed: float64(t.Misses) * s.Factor}
	o, err := p.Compute.Layer(layer, &load)
	if err != nil {
		return l, moved, fmt.Errorf("layer %d: %w", layer, err)
	}
	l = Layer{Project: o.Project, Select: o.Select, Pre: o.Pre, Attend: o.Attend, Post: o.Post, LookupGPU: o.LookupGPU, LookupCPU: o.LookupCPU, Update: o.Update}
	if p.Moves == MovesNothing {
		return l, moved, nil
	}
	store := p.writeBack(t)
	l.Store = p.Store.Time(store)
	moved.D2H = float64(store.Bytes)
	if p.Moves == MovesLayers {
		p.moveLayer(layer, t, &o, &l, &moved)
		return l, moved, nil
	}
	dram := p.request(t.Misses-t.SSDMisses, max(0, t.Runs-t.SSDRuns), t.Moved-t.SSDMoved)
	drive := p.request(t.SSDMisses, t.SSDRuns, t.SSDMoved)
	first := p.Fetch.Cost(dram)
	hop := p.Fetch.Cost(drive)
	l.Fetch = Transfer{first.Seconds, first.By.Launch}
	l.Hop = Transfer{hop.Seconds, hop.By.Launch}
	l.Read = p.SSD.Time(drive)
	l.Gather = max(first.SMs, hop.SMs) / float64(p.Machine.GPU.SMs.Value)
	if load.Entries > 0 {
		l.Missed = min(1, float64(t.Moved)*s.Factor/load.Entries)
	}
	moved.H2D, moved.SSD = float64(dram.Bytes+drive.Bytes), float64(drive.Bytes)
	moved.Descriptors, moved.SSDRequests = float64(dram.Descriptors+drive.Descriptors), float64(drive.Descriptors)
	return l, moved, nil
}

// request moves missed blocks of some entries.
func (p *Pricer) request(blocks, runs, entries int64) transfer.Request {
	pieces := blocks
	if p.Layout.Merge {
		pieces = runs
	}
	if blocks == 0 {
		return transfer.Request{}
	}
	n := max(1, int64(math.Round(float64(pieces)*p.Scaling.Factor)))
	return transfer.Request{Descriptors: n * max(1, p.Layout.Fragments), Bytes: int64(math.Round(float64(entries) * p.Scaling.Factor * p.Scaling.EntryBytes)), Launches: 1}
}

// writeBack stores the entries that a step generated.
func (p *Pricer) writeBack(t *sums) transfer.Request {
	layout := transfer.Layout{EntryBytes: int64(p.Scaling.EntryBytes), Fragments: p.Layout.Fragments}
	return layout.WriteBack(int64(p.Scaling.Heads), t.Positions)
}

// moveLayer prices a layer whose whole KV moves.
func (p *Pricer) moveLayer(layer int, t *sums, o *Operators, l *Layer, moved *Traffic) {
	kv := transfer.Request{Descriptors: int64(t.requests) * max(1, p.Layout.Fragments), Bytes: int64(float64(t.SeqLen) * float64(p.Model.Entry.Value)), Launches: 1}
	cost := p.Fetch.Cost(kv)
	l.Dense = Dense{Attend: o.AttendAll, KV: Transfer{cost.Seconds, cost.By.Launch}, Recompute: o.Recompute,
		Positions: int(math.Round(float64(t.SeqLen) / t.requests)), Prompt: int(math.Round(float64(t.Prompt) / t.requests))}
	rate := float64(kv.Bytes) / (cost.Seconds - cost.By.Launch)
	l.Dense.Activations = t.requests * float64(p.Model.Hidden.Value) * activationBytes / rate
	weights := transfer.Request{Descriptors: 1, Bytes: int64(LayerWeights(p.Model, layer, p.Experts)), Launches: 1}
	l.Dense.Weights = p.Fetch.Time(weights)
	share := 0.
	if p.Splits && l.Dense.Positions > 0 {
		n := float64(l.Dense.SplitPoint())
		p.recomputed = max(p.recomputed, n)
		share = n / float64(l.Dense.Positions)
		moved.H2D += n * t.requests * float64(p.Model.Hidden.Value) * activationBytes
	}
	moved.H2D += float64(kv.Bytes) * (1 - share)
	moved.Descriptors = float64(kv.Descriptors)
}

// activationBytes is the size of a number of the activations that KVPR keeps: FP16.
const activationBytes = 2
