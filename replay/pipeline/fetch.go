package pipeline

// ReadAhead is how a system reads a layer's misses from the SSD before they are known.
// The zero value waits for the selection.
type ReadAhead struct {
	// Accuracy is the share of the reads that are named when the layer begins, so that they
	// run during its projections and selection (KVDrive, section 5: hierarchical staging).
	// What was named wrongly was read for nothing, and is read again after the selection.
	Accuracy float64
	// Direct: the SSD writes into the GPU (GPUDirect Storage). Its bytes share the link with
	// what comes from host memory, instead of passing it afterwards.
	Direct bool
}

// again is the share of the reads that is read again.
func (a ReadAhead) again() float64 {
	if a.Accuracy == 0 {
		return 0
	}
	return 1 - a.Accuracy
}

// enter takes note of what a layer's projections wait for: reads ahead wait for the same.
func (t *Timeline) enter(layer, part int, after []Op) {
	for len(t.entered) <= part {
		t.entered = append(t.entered, entrance{layer: -1})
	}
	t.entered[part] = entrance{layer, t.Add(Join, layer, part, 0, after...)}
}

// entrance is the operation that a part's latest layer begins after.
type entrance struct {
	layer int
	after Op
}

// begun is what a layer begins after: of the part, of the whole, or, where neither has
// begun, otherwise.
func (t *Timeline) begun(layer, part int, otherwise Op) Op {
	for _, p := range []int{part, 0} {
		if p < len(t.entered) && t.entered[p].layer == layer {
			return t.entered[p].after
		}
	}
	return otherwise
}

// fetch moves a share of a layer's misses: those in host memory while the SSD reads the
// others, which follow (KVDrive's hierarchical staging), or, direct, share the link.
func (t *Timeline) fetch(k Kind, l *Layer, layer, part int, share float64, after Op) Op {
	seconds, read, hop := l.Fetch.Part(share), l.Read*share, l.Hop.Part(share)
	if read == 0 && hop == 0 {
		blocks := t.Add(k, layer, part, seconds, after)
		t.Add(Gather, layer, part, l.Gather*seconds, after)
		return blocks
	}
	again, begin := l.Ahead.again(), after
	if l.Ahead.Accuracy > 0 {
		begin = t.begun(layer, part, after)
	}
	early := t.Add(ReadSSD, layer, part, read, begin)
	passed := None
	if l.Ahead.Direct {
		passed = t.Add(FetchRead, layer, part, hop, begin)
	}
	blocks := t.Add(k, layer, part, seconds, after)
	late := early
	if again > 0 {
		late = t.Add(ReadSSD, layer, part, read*again, early, after)
	}
	t.Add(Gather, layer, part, l.gathering(share), after)
	if !l.Ahead.Direct {
		return t.Add(FetchRead, layer, part, hop, late, blocks)
	}
	if again > 0 {
		passed = t.Add(FetchRead, layer, part, hop*again, passed, after)
	}
	return t.Add(Join, layer, part, 0, late, passed, blocks)
}

// store writes back what a layer generated; a kernel takes its share of the SMs.
func (t *Timeline) store(l *Layer, layer, part int, after Op) {
	t.Add(Store, layer, part, l.Store, after)
	t.Add(Scatter, layer, part, l.Scatter*l.Store, after)
}

// load moves some of a layer whose KV moves as a whole, or its weights; a kernel takes its
// share of the SMs.
func (t *Timeline) load(k Kind, d *Dense, layer, part int, seconds float64, after ...Op) Op {
	kernel, share := Gather, d.Gather
	if k == LoadWeights {
		kernel, share = GatherWeights, d.WeightsGather
	}
	op := t.Add(k, layer, part, seconds, after...)
	t.Add(kernel, layer, part, share*seconds, after...)
	return op
}

// fetching is the time of fetch on idle resources, from the end of the selection. Reads
// ahead hide behind the layer's projections, selection and lookup on the GPU:
//
//	max(host, late) + hop;  direct: max(host + early + (1 − accuracy)·hop, late)
//
// late being the SSD's time, or max(0, SSD − hidden) + (1 − accuracy)·SSD with reads ahead,
// early what those leave of the hop, max(0, hop − hidden). Without, nothing is hidden and
// nothing read again.
func (l *Layer) fetching(share float64) float64 {
	host, late, hop := l.Fetch.Part(share), l.Read*share, l.Hop.Part(share)
	hidden := 0.
	if l.Ahead.Accuracy > 0 {
		hidden = l.Project + share*(l.Select+l.LookupGPU)
		late = max(0, late-hidden) + l.Ahead.again()*late
	}
	if l.Ahead.Direct {
		return max(host+max(0, hop-hidden)+l.Ahead.again()*hop, late)
	}
	return max(host, late) + hop
}

// gathering is the time that the fetch of a share takes of the SMs; drives that write into
// the GPU take none.
func (l *Layer) gathering(share float64) float64 {
	moved := l.Fetch.Part(share)
	if !l.Ahead.Direct {
		moved += l.Hop.Part(share)
	}
	return l.Gather * moved
}
