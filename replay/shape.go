package replay

import (
	"fmt"

	"github.com/kvreplay/kvreplay/trace"
)

// layout is a shape settled against a trace.
type layout struct {
	factor int // entries of a list in a block
	heads  int // streams that share a cache
	mtp    int // positions of a step

	clustered bool // units are clusters of tokens
}

// plain reports whether rows are replayed as recorded.
func (l layout) plain() bool { return l.factor == 1 && l.heads == 1 && l.mtp == 1 && !l.clustered }

// unit is the number of entries, of one head and one token each, that a block of a
// joined stream holds.
func (l layout) unit(p Pins) int64 { return int64(p.BlockTokens) * int64(l.heads) }

// settleShape checks the shape against the trace's unit; heads are settled where streams
// are selected.
func settleShape(s Shape, m *trace.Meta) (layout, error) {
	l := layout{factor: 1, heads: 1, mtp: max(1, s.StepTokens)}
	if s.StepTokens < 0 {
		return l, fmt.Errorf("%d positions a step, expected at least 1", s.StepTokens)
	}
	switch {
	case s.BlockTokens == 0:
	case s.BlockTokens < 0 || s.BlockTokens%m.BlockTokens != 0:
		return l, fmt.Errorf("blocks of %d tokens, expected a multiple of the trace's %d", s.BlockTokens, m.BlockTokens)
	default:
		l.factor = s.BlockTokens / m.BlockTokens
	}
	return l, nil
}

func (p *plan) settleShape() (err error) {
	p.layout, err = settleShape(p.opt.Shape, p.meta)
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
	p.streams, p.siblings, p.layout.heads = firsts, siblings, heads[0]
	return nil
}

func sameLayer(a, b trace.Key) bool { return a.Request == b.Request && a.Layer == b.Layer }
