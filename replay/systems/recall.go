package systems

import (
	"fmt"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/trace"
)

// ranks counts, over the steps of all common streams, at which place of a selector's list the members
// of the exact Top-K stand.
type ranks struct {
	at    []int64 // by place, counted from 0
	total int64   // members of the exact Top-K
}

// recall returns the share of the exact Top-K that the first n entries of the selector's lists hold.
func (r *ranks) recall(n int) float64 {
	found := slice.Sum(r.at[:min(n, len(r.at))], func(count int64) int64 { return count })
	return float64(found) / float64(max(1, r.total))
}

// least returns the smallest number of entries with at least some recall, and false if the whole
// lists have less.
func (r *ranks) least(recall float64) (int, bool) {
	found := int64(0)
	for i, count := range r.at {
		found += count
		if float64(found) >= recall*float64(r.total) && r.total > 0 {
			return i + 1, true
		}
	}
	return len(r.at), false
}

// compareLists adds a selector's trace and the trace of the exact Top-K of the same requests. Streams
// and steps that one of them lacks do not count.
func (r *ranks) compareLists(selected, exact *trace.File) error {
	a, b := selected.Meta(), exact.Meta()
	if a.Order != trace.OrderRank || b.Order != trace.OrderRank {
		return fmt.Errorf("%s and %s: expected lists by rank", selected.Path(), exact.Path())
	}
	place := map[trace.Key]int{}
	for i, s := range exact.Streams() {
		place[s.Key] = i
	}
	left, right := selected.NewReader(0), exact.NewReader(0)
	defer left.Close()
	defer right.Close()
	var s, e trace.Stream
	for i, info := range selected.Streams() {
		j, ok := place[info.Key]
		if !ok {
			continue
		}
		if err := left.Read(i, &s); err != nil {
			return err
		}
		if err := right.Read(j, &e); err != nil {
			return err
		}
		r.addStream(&s, &e, a.BlockTokens, b.TopK)
	}
	return nil
}

// addStream adds the counted steps of a stream. A block of the selector holds some tokens.
func (r *ranks) addStream(s, e *trace.Stream, block, topk int) {
	rows := map[int32]int{}
	for i, step := range e.Steps {
		rows[step] = i
	}
	at := map[int32]int{}
	for i, step := range s.Steps {
		row, ok := rows[step]
		if !ok || step < 0 {
			continue
		}
		list, exact := s.List(i), e.List(row)
		for len(r.at) < len(list) {
			r.at = append(r.at, 0)
		}
		clear(at)
		for rank, b := range list {
			at[b] = rank
		}
		for _, token := range exact[:min(topk, len(exact))] {
			r.total++
			if rank, ok := at[token/int32(max(1, block))]; ok {
				r.at[rank]++
			}
		}
	}
}

// atRecall chooses the K of the comparison's traces at which the selector has the recall of the
// question. It needs traces of the exact Top-K of the same requests.
func (c *comparison) atRecall(traces []*trace.File) error {
	m := c.traces[0].Meta()
	if c.exact(c.traces[0]) {
		return nil
	}
	var all ranks
	topk := 0
	for _, f := range c.traces {
		for _, e := range traces {
			if c.exact(e) && e.Meta().BlockTokens == 1 && c.recorded.requests[e] == c.recorded.requests[f] {
				topk = e.Meta().TopK
				if err := all.compareLists(f, e); err != nil {
					return err
				}
			}
		}
	}
	if all.total == 0 {
		return unable("recall is not known: add the trace of the exact Top-K of the same requests")
	}
	n, ok := all.least(c.Recall)
	if !ok {
		unit := "tokens"
		if m.BlockTokens > 1 {
			unit = fmt.Sprintf("blocks of %d tokens", m.BlockTokens)
		}
		return unable("its lists of %d %s find %.1f %% of the exact Top-K: record longer lists", len(all.at), unit, 100*all.recall(len(all.at)))
	}
	recall := all.recall(n)
	c.listed, c.row.SelectorRecall, c.row.Recall, c.row.Mass = n, &recall, &recall, nil
	c.tokens = min(c.TopK*n*max(1, m.BlockTokens)/topk, int(c.Context))
	return nil
}
