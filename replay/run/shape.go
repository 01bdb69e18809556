package run

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/trace"
)

func (p *plan) resolveShape() (err error) {
	p.layout, err = demand.NewLayout(p.opt.Shape, p.meta)
	return err
}

// shareHeads keeps the first stream of each layer, which stands for all of its heads.
func (p *plan) shareHeads() error {
	if !p.opt.Shape.ShareHeads {
		return nil
	}
	infos := p.file.Streams()
	var firsts, siblings []int
	var heads []int // of each layer
	for n, i := range p.streams {
		if n > 0 && sameLayer(infos[p.streams[n-1]].Key, infos[i].Key) {
			heads[len(heads)-1]++
			continue
		}
		firsts, siblings, heads = append(firsts, i), append(siblings, p.siblings[n]), append(heads, 1)
	}
	for n, have := range heads {
		if have != heads[0] {
			k := infos[firsts[n]].Key
			return fmt.Errorf("heads cannot share a cache: request %q layer %d has %d, the first layer %d", k.Request, k.Layer, have, heads[0])
		}
	}
	if heads[0] == 1 {
		return fmt.Errorf("heads cannot share a cache: %v is the only stream of its layer", infos[firsts[0]].Key)
	}
	p.streams, p.siblings, p.layout.Heads = firsts, siblings, heads[0]
	return nil
}

func sameLayer(a, b trace.Key) bool { return a.Request == b.Request && a.Layer == b.Layer }

// checkClusters checks the clusters against the trace.
func (p *plan) checkClusters() error {
	c := p.opt.Clusters
	if c == nil {
		return nil
	}
	p.layout.Clustered = true
	var keys []trace.Key
	for i := range p.streams {
		keys = append(keys, p.selected(i).Key)
	}
	p.warn = append(p.warn, "clusters of unequal sizes: residents are counted in entries; no optimum is known")
	return c.Check(p.meta, keys)
}
