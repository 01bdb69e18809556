package card

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/trace"
)

// recall is a selector held against the exact one on the same requests.
type recall struct {
	part, selector, name string // selector with its parameters, name without
	block                int
	hits, of             int64 // tokens of the exact Top-K, over counted steps
	mass, resident       []float64
	facts                facts
}

func (r *recall) share() share { return ratio(r.hits, r.of) }

// compareSelectors holds each selector's demand, as tokens, against the exact Top-K of
// the same request, step, layer and head, in every part that has both.
func (c *corpus) compareSelectors(ctx context.Context) error {
	for _, s := range c.sources {
		if s.meta.Selector == "" || s.meta.Selector == exact {
			continue
		}
		for _, e := range c.sources {
			if e.part != s.part || e.meta.Selector != exact || e.meta.BlockTokens != 1 {
				continue
			}
			if err := c.compareWith(ctx, s, e); err != nil {
				return fmt.Errorf("card: compare %s with %s: %w", s.name, e.name, err)
			}
		}
	}
	slices.SortStableFunc(c.recalls, func(a, b recall) int { return cmp.Compare(b.share().v, a.share().v) })
	return nil
}

// compareWith compares the streams that both traces have.
func (c *corpus) compareWith(ctx context.Context, s, e *source) error {
	at := map[trace.Key]int{}
	for i := range e.streams {
		at[e.streams[i].info.Key] = i
	}
	var shared [][2]int
	for i := range s.streams {
		if j, ok := at[s.streams[i].info.Key]; ok {
			shared = append(shared, [2]int{i, j})
		}
	}
	if len(shared) == 0 {
		return nil
	}
	r := c.recallOf(s)
	a, err := trace.Open(s.path)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := trace.Open(e.path)
	if err != nil {
		return err
	}
	defer b.Close()
	chosen, wanted := a.NewReader(0), b.NewReader(0)
	defer chosen.Close()
	defer wanted.Close()
	var x, y trace.Stream
	var marks marker
	for _, pair := range shared {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := chosen.Read(pair[0], &x); err != nil {
			return err
		}
		if err := wanted.Read(pair[1], &y); err != nil {
			return err
		}
		r.compare(&x, s.meta, &y, e.meta, &marks)
		r.facts.add(&s.streams[pair[0]].facts)
	}
	r.mass, r.resident = appendNote(r.mass, s, "exact.mass"), appendNote(r.resident, s, "exact.resident")
	return nil
}

// appendNote appends a number that the capture noted.
func appendNote(list []float64, s *source, note string) []float64 {
	for _, text := range strings.Split(s.meta.Notes[note], noteSeparator) {
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			list = append(list, v)
		}
	}
	return list
}

func (c *corpus) recallOf(s *source) *recall {
	for i := range c.recalls {
		if c.recalls[i].part == s.part && c.recalls[i].selector == s.selector {
			return &c.recalls[i]
		}
	}
	c.recalls = append(c.recalls, recall{part: s.part, selector: s.selector, name: s.meta.Selector, block: s.meta.BlockTokens})
	return &c.recalls[len(c.recalls)-1]
}

// compare counts the tokens of y's demand that lie in the blocks of x's, step by step;
// steps that one of them lacks are passed over.
func (r *recall) compare(x *trace.Stream, xm *trace.Meta, y *trace.Stream, ym *trace.Meta, marks *marker) {
	i, j := x.Windows, y.Windows
	for i < x.Rows && j < y.Rows {
		switch {
		case x.Steps[i] < y.Steps[j]:
			i++
			continue
		case x.Steps[i] > y.Steps[j]:
			j++
			continue
		}
		blocks := max(xm.Blocks(x.MaxSeqLen()), xm.Blocks(y.MaxSeqLen()))
		marks.set(demandOf(x, i, xm.TopK), blocks)
		demand := demandOf(y, j, ym.TopK)
		r.of += int64(len(demand))
		for _, token := range demand {
			if marks.has(token / int32(xm.BlockTokens)) {
				r.hits++
			}
		}
		i, j = i+1, j+1
	}
}
