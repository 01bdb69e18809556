package pipeline

import (
	"fmt"
	"math"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// Traffic counts the moved bytes and requests.
type Traffic struct {
	H2D, D2H, SSD            float64 // bytes
	Descriptors, SSDRequests float64
}

func (t *Traffic) add(more ...Traffic) {
	for _, o := range more {
		t.H2D += o.H2D
		t.D2H += o.D2H
		t.SSD += o.SSD
		t.Descriptors += o.Descriptors
		t.SSDRequests += o.SSDRequests
	}
}

// fetched returns the traffic of a share of the fetches, without write-back.
func (t *Traffic) fetched(share float64) Traffic {
	return Traffic{H2D: share * t.H2D, SSD: share * t.SSD, Descriptors: share * t.Descriptors, SSDRequests: share * t.SSDRequests}
}

// layer prices one layer of the model for some requests of the batch. It turns their counts into
// the seconds of its operators and transfers.
func (r *runner) layer(layer int, t *sums) (l schedule.Layer, traffic Traffic, err error) {
	s := r.Scaling
	load := operator.Load{Requests: t.requests, Queries: float64(t.Positions), Context: float64(t.SeqLen), Scored: t.scored,
		Demand: float64(t.Demand) * s.Factor, Attended: t.attended, Bytes: t.entries * s.EntryBytes, Fetched: float64(t.Fetched) * s.Factor,
		Resident: t.residents(r.profile.Meta.Clusters != "") * s.Factor,
		Caches:   t.requests * s.Heads / float64(max(1, r.profile.Meta.SharedHeads)),
		Remade:   r.traits.Moves == schedule.MovesLayers}
	if r.ellm != nil {
		share := r.ellm.Uncached
		load.Again = share * float64(t.SeqLen)
		load.Pairs = (share*share*t.squares + load.Again) / 2
	}
	o, err := r.operators.Layer(layer, &load)
	if err != nil {
		return l, traffic, fmt.Errorf("layer %d: %w", layer, err)
	}
	l = schedule.Layer{Project: o.Project, Select: o.Select, Pre: o.Pre, Attend: o.Attend, Post: o.Post, LookupGPU: o.LookupGPU, LookupCPU: o.LookupCPU, Update: o.Update}
	l.Reduce = r.group.AllReduce(load.Queries)
	l.Dispatch, l.Routed, l.Combine = o.Dispatch, o.RoutedShare*o.Post, o.Combine
	if o.Again > 0 && l.Dispatch > 0 {
		dispatch, combine := r.exchange.Seconds(load.Again, true)
		o.Again += dispatch + combine
	}
	switch r.traits.Moves {
	case schedule.MovesNothing:
		l.Dense.Attend = o.AttendAll
	case schedule.MovesDropped:
	case schedule.MovesQueries:
		r.writeBack(t, s.EntryBytes, &l, &traffic)
		if r.traits.Weights {
			_, weights := r.loadLayer(layer)
			l.Dense.Weights, l.Dense.WeightsGather = weights.Seconds, r.smShare(&weights)
		}
	case schedule.MovesUncached:
		r.moveUncached(layer, t, &o, &l, &traffic)
	case schedule.MovesLayers:
		r.writeBack(t, s.EntryBytes*r.kvpr.KV.Ratio(), &l, &traffic)
		r.moveLayer(layer, t, &o, &l, &traffic)
	default:
		r.writeBack(t, r.moved, &l, &traffic)
		r.moveMisses(t, &l, &traffic)
		r.restore(t, &l)
	}
	if r.host != nil {
		r.attendOnHost(&load, &l, &traffic)
	}
	return l, traffic, nil
}

// residents returns the number of resident blocks. A profile counts the entries of clusters. The
// resident clusters are assumed to have the mean size of the demanded ones.
func (t *sums) residents(clustered bool) float64 {
	if !clustered || t.Listed == 0 {
		return float64(t.Resident)
	}
	return float64(t.Resident) * float64(t.Demand) / float64(t.Listed)
}

// smShare returns the share of the SMs that a transfer takes while it runs.
func (r *runner) smShare(c *transfer.Cost) float64 { return c.SMs / float64(r.Machine.GPU.SMs.Value) }

// writeBack prices the entries that a step generated. entry is their size in bytes.
func (r *runner) writeBack(t *sums, entry float64, l *schedule.Layer, traffic *Traffic) {
	layout := transfer.Layout{EntryBytes: int64(entry), Fragments: r.Fragments}
	store := r.store.Cost(layout.WriteBack(int64(r.Scaling.Heads), t.Positions))
	l.Store, l.Loads.Store, l.Scatter = store.Seconds, store.Load, r.smShare(&store)
	traffic.D2H = float64(store.Bytes)
}

// moveMisses prices the misses of a cache: from host memory, and from the SSD through host memory
// or directly. Only the missed blocks of an extent go on to the GPU, unless the
// SSD writes there.
func (r *runner) moveMisses(t *sums, l *schedule.Layer, traffic *Traffic) {
	runs := max(t.FetchedRuns-t.SSDRuns, t.SSDRuns-t.FetchedRuns) // lower bound of the runs in host memory: host runs separate SSD runs, and the reverse
	dram := r.pieces(t, t.Fetched-t.SSDFetched, runs, t.Moved-t.SSDMoved)
	drive := r.pieces(t, t.SSDFetched, t.SSDRuns, t.SSDMoved)
	read := r.reads(t, drive)
	if r.Ahead.Direct { // whole extents reach the GPU
		drive = read
	}
	fetch, hop := dram.cost(r.fetch), drive.cost(r.hop)
	l.Fetch, l.Loads.Fetch = schedule.Transfer{Seconds: fetch.Seconds, Fixed: fetch.By.Launch}, fetch.Load
	l.Hop, l.Loads.Hop = schedule.Transfer{Seconds: hop.Seconds, Fixed: hop.By.Launch}, hop.Load
	l.Read = read.cost(r.ssd).Seconds
	l.Ahead = r.Ahead
	l.Gather = max(r.smShare(&fetch), r.smShare(&hop))
	if t.entries > 0 {
		l.Missed = min(1, float64(t.Moved)*r.Scaling.Factor/t.entries)
	}
	reads := 1 + r.Ahead.Again()
	passes := 1.
	if r.Ahead.Direct {
		passes = reads
	}
	traffic.H2D, traffic.SSD = dram.bytes+passes*drive.bytes, reads*read.bytes
	traffic.Descriptors, traffic.SSDRequests = dram.count+passes*drive.count, reads*read.count
}

// restore adds the work that makes K and V of the fetched entries. The part that needs no moved
// bytes runs between selection and attention. The rest delays the attention on fetched entries.
func (r *runner) restore(t *sums, l *schedule.Layer) {
	early, late := r.operators.Restore(r.Entry, operator.Arrivals{
		Requests: t.requests, Entries: float64(t.Moved) * r.Scaling.Factor,
		Hits:  max(0, t.demanded-float64(t.Moved)) * r.Scaling.Factor,
		Heads: r.Scaling.Heads, Generated: float64(t.Positions),
	})
	l.Pre += early
	if late > 0 {
		all := l.Attend + late
		l.Attend, l.Missed = all, (l.Attend*l.Missed+late)/all
	}
}

// pieces are missed blocks of some entries that move together. Scaling may give a fractional
// number.
type pieces struct {
	count, bytes float64
	align        int64   // of transfer.Request
	regions      float64 // of transfer.Request: the KV of each request and head
	regionBytes  float64
}

func (r *runner) pieces(t *sums, blocks, runs, entries int64) pieces {
	count := blocks
	if r.Merge {
		count = min(blocks, max(1, runs))
	}
	s := r.Scaling
	fragments := max(1, r.Fragments)
	return pieces{float64(count*fragments) * s.Factor, float64(entries) * s.Factor * r.moved,
		transfer.Alignment(int64(r.moved) / fragments), t.requests * s.Heads, float64(t.SeqLen) / t.requests * r.moved}
}

// cost returns the cost of one launch on a path. It is linear between whole numbers of pieces of
// equal size.
func (m pieces) cost(path transfer.Path) transfer.Cost {
	if m.count == 0 {
		return transfer.Cost{}
	}
	few := math.Floor(m.count)
	share := m.count - few
	if share < 1e-9 || share > 1-1e-9 {
		return path.Cost(m.whole(math.Round(m.count)))
	}
	c, more := path.Cost(m.whole(few)), path.Cost(m.whole(few+1))
	c.Seconds += share * (more.Seconds - c.Seconds)
	c.By.Launch += share * (more.By.Launch - c.By.Launch)
	c.Load += share * (more.Load - c.Load)
	c.SMs = max(c.SMs, more.SMs)
	return c
}

// whole returns a request for n of the pieces.
func (m pieces) whole(n float64) transfer.Request {
	if n == 0 {
		return transfer.Request{}
	}
	bytes := int64(math.Round(n * (m.bytes / m.count)))
	return transfer.Request{Descriptors: int64(n), Bytes: bytes, Launches: 1, Align: m.align, Regions: m.regions, RegionBytes: m.regionBytes}
}

// cached returns the request for bytes of the KV of some requests, one piece per request.
func (r *runner) cached(t *sums, bytes float64) transfer.Request {
	return transfer.Request{Descriptors: int64(t.requests) * max(1, r.Fragments), Bytes: int64(bytes), Launches: 1}
}

// moveLayer prices a layer whose whole KV moves. The bytes follow from the step's split
// (KVPR.recomputation).
func (r *runner) moveLayer(layer int, t *sums, o *operator.Times, l *schedule.Layer, traffic *Traffic) {
	k, m := r.kvpr, r.Model
	entry, hidden := float64(m.Entry.Value), float64(m.Hidden.Value)
	kv := r.cached(t, float64(t.SeqLen)*entry*k.KV.Ratio())
	cost := r.layers.Cost(kv)
	l.Loads.Layer = cost.Load
	rate := float64(kv.Bytes) / (cost.Seconds - cost.By.Launch)
	activations := t.requests * hidden * k.X.PerNumber() // bytes per position
	numbers := entry / hardware.HalfBytes
	all, weights := r.loadLayer(layer)
	l.Dense = schedule.Dense{
		Attend: o.AttendAll, KV: schedule.Transfer{Seconds: cost.Seconds, Fixed: cost.By.Launch}, Gather: r.smShare(&cost),
		Positions: int(math.Round(float64(t.SeqLen) / t.requests)), Prompt: int(math.Round(float64(t.Prompt) / t.requests)),
		Activations: activations / rate, Recompute: o.Recompute + r.operators.Touch(t.requests*hidden*k.X.Dequantized()),
		Dequantize: r.operators.Touch(t.requests * numbers * k.KV.Dequantized()), Quantize: r.operators.Touch(float64(t.Positions) * numbers * k.KV.Quantized()),
		Weights: weights.Seconds, WeightsGather: r.smShare(&weights),
		KeyValueShare:  m.Bytes(hardware.Weights{hardware.Attention: m.KeyValueParameters()}) / all,
		AttentionShare: m.Bytes(m.AttentionParameters()) / all,
		Bytes:          float64(kv.Bytes), ActivationBytes: activations,
	}
	traffic.Descriptors = float64(kv.Descriptors)
}

// loadLayer returns the bytes of a layer's weights, and the cost to move them to the GPU.
func (r *runner) loadLayer(layer int) (bytes float64, cost transfer.Cost) {
	bytes = r.Model.LayerBytes(layer, r.Experts)
	return bytes, r.fetch.Cost(transfer.Request{Descriptors: 1, Bytes: int64(bytes), Launches: 1})
}

// moveUncached prices a layer whose first tokens are not cached, both over the link and run again.
// The schedule decides which of the two counts as traffic.
func (r *runner) moveUncached(layer int, t *sums, o *operator.Times, l *schedule.Layer, traffic *Traffic) {
	l.Dense = schedule.Dense{Attend: o.AttendAll, Again: o.Again}
	kv := r.cached(t, r.ellm.Uncached*float64(t.SeqLen)*float64(r.Model.Entry.Value))
	if kv.Bytes == 0 {
		return
	}
	cost := r.fetch.Cost(kv)
	l.Dense.Uncached, l.Dense.Gather = schedule.Transfer{Seconds: cost.Seconds, Fixed: cost.By.Launch}, r.smShare(&cost)
	if r.ellm.Swapped(layer) {
		traffic.H2D, traffic.Descriptors = float64(kv.Bytes), float64(kv.Descriptors)
	}
}
