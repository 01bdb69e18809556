package run

import (
	"fmt"
	"math"

	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// joins reports whether two streams share a cache.
func joins(p setting.Pool, a, b trace.Key) bool {
	return p == setting.PoolRequest && a.Request == b.Request || p == setting.PoolLayer && sameLayer(a, b)
}

// shareCaches finds the streams that share caches and checks that they can.
func (p *plan) shareCaches() error {
	p.caches = p.caches[:0]
	for i := range p.streams {
		if last := len(p.caches) - 1; i > 0 && joins(p.opt.Pool, p.selected(i-1).Key, p.selected(i).Key) {
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

// poolable checks what the streams of a pool must have in common, and that their blocks
// can be numbered.
func (p *plan) poolable(c span) error {
	first := p.selected(c.from)
	if c.streams() == 1 {
		return fmt.Errorf("pool %s: %v is the only stream of its %s, there is nothing to share a cache with", p.opt.Pool, first.Key, p.opt.Pool)
	}
	rows := int64(0)
	for i := c.from; i < c.to; i++ {
		s := p.selected(i)
		if s.PromptLen != first.PromptLen || s.Rows != first.Rows || s.Windows != first.Windows || s.FirstStep != first.FirstStep || s.LastStep != first.LastStep {
			return fmt.Errorf("pool %s: %v and %v share a cache but not their prompt length and steps", p.opt.Pool, first.Key, s.Key)
		}
		rows += int64(s.Rows)
	}
	if blocks := int64(p.pins.Blocks(first.MaxSeqLen())) * int64(c.streams()); blocks > demand.MostBlocks {
		return fmt.Errorf("pool %s: the contexts of the %d streams of %v are %d blocks in all; every block is held in memory, so that %d is the most; replay fewer --layers, larger --block-tokens, or share less (--pool layer, or no pool)",
			p.opt.Pool, c.streams(), first.Key, blocks, demand.MostBlocks)
	}
	if most := rows * int64(p.m) * int64(p.layout.Heads*p.layout.Positions); most > math.MaxInt32 {
		return fmt.Errorf("pool %s: the %d streams of %v list up to %d blocks in %d rows, a pool holds at most %d at once; replay fewer --layers",
			p.opt.Pool, c.streams(), first.Key, most, rows, math.MaxInt32)
	}
	return nil
}

// span is the selected streams [from, to) that share a cache.
type span struct{ from, to int }

func (c span) streams() int { return c.to - c.from }
