package run

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

func (p *plan) selectStreams() error {
	layers, requests := map[int32]bool{}, map[string]bool{}
	for _, s := range p.file.Streams() {
		layers[s.Layer], requests[s.Request] = true, true
	}
	for _, l := range p.opt.Layers {
		if !layers[l] {
			return fmt.Errorf("layer %d is not in the trace, expected one of %s", l, listOf(layers))
		}
	}
	for _, r := range p.opt.Requests {
		if !requests[r] {
			known := slices.Sorted(maps.Keys(requests))
			return fmt.Errorf("request %q is not in the trace%s (it has %s)", r, names.Nearest(r, known), names.Some(known))
		}
	}
	perRequest := map[string]int{}
	for i, s := range p.file.Streams() {
		if (p.opt.Layers == nil || slices.Contains(p.opt.Layers, s.Layer)) && (p.opt.Requests == nil || slices.Contains(p.opt.Requests, s.Request)) {
			if s.LastStep < 0 {
				return fmt.Errorf("%v has only prompt windows, expected a step from 0 on", s.Key)
			}
			if err := demand.CheckContext(p.meta, &s); err != nil {
				return err
			}
			p.streams = append(p.streams, i)
			perRequest[s.Request]++
		}
	}
	if len(p.streams) == 0 {
		return fmt.Errorf("no stream is in both the selected layers and the selected requests")
	}
	for _, i := range p.streams {
		p.siblings = append(p.siblings, perRequest[p.file.Streams()[i].Request])
	}
	return nil
}

func listOf(set map[int32]bool) string {
	keys := slices.Sorted(maps.Keys(set))
	if len(keys) > 12 {
		return fmt.Sprintf("%d layers from %d to %d", len(keys), keys[0], keys[len(keys)-1])
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(keys), " ", ", "), "[]")
}

func (p *plan) selected(i int) *trace.StreamInfo { return &p.file.Streams()[p.streams[i]] }

// shareHeads keeps the first stream of each layer, which represents all of its heads.
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
			return fmt.Errorf("heads cannot share a cache: request %q layer %d has %d heads, the first layer has %d", k.Request, k.Layer, have, heads[0])
		}
	}
	if heads[0] == 1 {
		return fmt.Errorf("heads cannot share a cache: %v is the only stream of its layer", infos[firsts[0]].Key)
	}
	p.streams, p.siblings, p.layout.Heads = firsts, siblings, heads[0]
	return nil
}

func sameLayer(a, b trace.Key) bool { return a.Request == b.Request && a.Layer == b.Layer }

// span is the selected streams [from, to) that share a cache.
type span struct{ from, to int }

func (c span) streams() int { return c.to - c.from }

// shareCaches finds the streams that share caches, and checks each pool.
func (p *plan) shareCaches() error {
	joined := func(a, b trace.Key) bool {
		return p.opt.Pool == setting.PoolRequest && a.Request == b.Request || p.opt.Pool == setting.PoolLayer && sameLayer(a, b)
	}
	p.caches = p.caches[:0]
	for i := range p.streams {
		if last := len(p.caches) - 1; i > 0 && joined(p.selected(i-1).Key, p.selected(i).Key) {
			p.caches[last].to = i + 1
		} else {
			p.caches = append(p.caches, span{i, i + 1})
		}
	}
	if p.opt.Pool == setting.PoolNone {
		return nil
	}
	for _, c := range p.caches {
		if err := p.poolable(c); err != nil {
			return err
		}
	}
	return nil
}

// poolable checks that the streams of a pool have the same steps, and that their blocks can
// be numbered.
func (p *plan) poolable(c span) error {
	first := p.selected(c.from)
	if c.streams() == 1 {
		return fmt.Errorf("pool %s: %v is the only stream of its %s, expected several that share a cache", p.opt.Pool, first.Key, p.opt.Pool)
	}
	rows := int64(0)
	for i := c.from; i < c.to; i++ {
		s := p.selected(i)
		if s.PromptLen != first.PromptLen || s.Rows != first.Rows || s.Windows != first.Windows || s.FirstStep != first.FirstStep || s.LastStep != first.LastStep {
			return fmt.Errorf("pool %s: %v and %v share a cache, expected equal prompt lengths and steps", p.opt.Pool, first.Key, s.Key)
		}
		rows += int64(s.Rows)
	}
	if blocks := int64(p.pins.Blocks(first.MaxSeqLen())) * int64(c.streams()); blocks > demand.MostBlocks {
		return fmt.Errorf("pool %s: the %d streams of %v have %d blocks, expected at most %d. Use fewer --layers, larger --block-tokens or --pool layer",
			p.opt.Pool, c.streams(), first.Key, blocks, demand.MostBlocks)
	}
	if most := rows * int64(p.m) * int64(p.layout.Heads*p.layout.Positions); most > math.MaxInt32 {
		return fmt.Errorf("pool %s: the %d streams of %v list up to %d blocks in %d rows, expected at most %d. Use fewer --layers",
			p.opt.Pool, c.streams(), first.Key, most, rows, math.MaxInt32)
	}
	return nil
}
