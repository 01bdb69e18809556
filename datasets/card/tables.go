package card

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/locality"
)

// Tasks are how the demand repeats, a table a set.
func (c *corpus) Tasks() string {
	header := []string{"task", "overlap", "first seen", "set 4 ÷ K", "set 16 ÷ K", "set 64 ÷ K", "gap p50 / p90, steps", "reuse p50 / p90 / p99, blocks", "covered mass"}
	return c.bySet(func(x *set) string {
		var rows [][]string
		for _, g := range withAll(x) {
			f, s := &g.facts, g.facts.locality.Summary()
			row := []string{g.key, percent(f.overlap()), percent(ratio(f.locality.FirstSeen, f.locality.After))}
			for w := 1; w < len(locality.Windows); w++ {
				row = append(row, decimals(f.workingSet(w), 2))
			}
			rows = append(rows, append(row, whole(s.Gap.P50)+" / "+whole(s.Gap.P90),
				strings.Join([]string{whole(s.Reuse.P50), whole(s.Reuse.P90), whole(s.Reuse.P99)}, " / "), percent(f.mass())))
		}
		return markdown(1, header, rows)
	})
}

// Hits are the hit rates of every cell, in the order of cells.
func (c *corpus) Hits() string {
	header := []string{"task"}
	for _, m := range multiples {
		header = append(header, "LRU "+strings.TrimSuffix(cells[m.cell].capacity, "x")+" × K")
	}
	header = append(header, "LRU 0.2 of the prompt", "lookahead 2 × K", "optimum 2 × K")
	return c.bySet(func(x *set) string {
		var rows [][]string
		for _, g := range withAll(x) {
			row := []string{g.key}
			for cell := range cells {
				row = append(row, percent(g.facts.hits(cell)))
			}
			rows = append(rows, row)
		}
		return markdown(1, header, rows)
	})
}

// bySet is a table of every set, titled by name, K and M.
func (c *corpus) bySet(table func(*set) string) string {
	var parts []string
	for _, x := range c.sets {
		parts = append(parts, fmt.Sprintf("**%s**, %s\n\n%s", printable.Markdown(x.name), x.lists(), table(x)))
	}
	return strings.Join(parts, "\n")
}

// lists is "K 24, M 30, a list a KV head".
func (x *set) lists() string {
	text := fmt.Sprintf("K %d, M %d", x.k, x.m)
	if x.block > 1 {
		text += fmt.Sprintf(" blocks of %d tokens", x.block)
	}
	if x.perHead() {
		return text + ", a list a KV head"
	}
	return text + ", a list a layer"
}

// withAll are a set's tasks and, of several, all together.
func withAll(x *set) []group[string] {
	tasks := x.tasks()
	if len(tasks) > 1 {
		tasks = append(tasks, group[string]{"all", *x.all()})
	}
	return tasks
}

// Deepest names the set that layers are shown of.
func (c *corpus) Deepest() string { return c.deepest().name }

// Layers are overlap and LRU's hit rate at 2 × K by layer and head of the deepest set.
func (c *corpus) Layers() string {
	x := c.deepest()
	heads := x.heads()
	header := []string{"layer"}
	for _, what := range []string{"overlap", "LRU 1.25 × K", "LRU 2 × K", "LRU 4 × K"} {
		for _, h := range heads {
			header = append(header, what+headName(h.key))
		}
	}
	at := map[place]*facts{}
	places := x.places()
	for i := range places {
		at[places[i].key] = &places[i].facts
	}
	var rows [][]string
	for _, l := range x.layers() {
		row := []string{strconv.Itoa(int(l.key))}
		for _, figure := range []func(*facts) share{(*facts).overlap, hitsOf(0), hitsOf(lru2), hitsOf(4)} {
			for _, h := range heads {
				cell := share{}
				if f := at[place{l.key, h.key}]; f != nil {
					cell = figure(f)
				}
				row = append(row, percent(cell))
			}
		}
		rows = append(rows, row)
	}
	return markdown(0, header, rows)
}

func hitsOf(cell int) func(*facts) share { return func(f *facts) share { return f.hits(cell) } }

func headName(h int32) string {
	if h == trace.NoHead {
		return ""
	}
	return fmt.Sprintf(", head %d", h)
}

// leastRanked is the smallest K whose quarters can be told apart.
const leastRanked = 4

// Ranks are what becomes of ranks one step later, a set a row.
func (c *corpus) Ranks() string {
	var rows [][]string
	for _, x := range c.sets {
		f := x.all()
		if f.next == nil || x.k < leastRanked {
			continue
		}
		row := []string{x.name}
		for _, m := range []int{x.k / 4, x.k / 2, x.k, x.m} {
			row = append(row, percent(f.nextTopK(m)))
		}
		for _, r := range x.quarters() {
			row = append(row, percent(f.stays(r[0], r[1])))
		}
		rows = append(rows, row)
	}
	return markdown(1, []string{"part", "M = K ÷ 4", "K ÷ 2", "K", "the list's", "ranks to K ÷ 4 stay", "3 K ÷ 4 to K stay", "K to the end enter or stay"}, rows)
}

// quarters are the best ranks of the demand, its last, and those behind it.
func (x *set) quarters() [3][2]int { return [3][2]int{{0, x.k / 4}, {3 * x.k / 4, x.k}, {x.k, x.m}} }

// Selectors are selectors held against the exact Top-K, best first.
func (c *corpus) Selectors() string {
	var rows [][]string
	for i := range c.recalls {
		r := &c.recalls[i]
		rows = append(rows, []string{r.part, code(r.selector), strconv.Itoa(r.block), percent(r.share()), mean(r.resident), mean(r.mass),
			percent(r.facts.overlap()), percent(r.facts.hits(lru2)), percent(r.facts.hits(look2))})
	}
	return markdown(2, []string{"part", "selector", "block", "recall", "resident", "mass", "overlap", "LRU 2 × K", "lookahead 2 × K"}, rows)
}

// mean is of what captures noted, as a share.
func mean(values []float64) string { return percent(meanOf(values)) }

func meanOf(values []float64) share {
	if len(values) == 0 {
		return share{}
	}
	var s float64
	for _, v := range values {
		s += v
	}
	return share{s / float64(len(values)), true}
}

// Predictions are the share of the demand that was predicted one layer ahead, by task and layer.
func (c *corpus) Predictions() string {
	var rows [][]string
	for _, x := range c.sets {
		for _, g := range groups(x.streams, func(s *stream) taskLayer { return taskLayer{s.task, s.info.Layer} }, compareTaskLayers) {
			if g.facts.predictedOf > 0 {
				rows = append(rows, []string{x.name, g.key.task, strconv.Itoa(int(g.key.layer)), percent(g.facts.predicted()), percent(g.facts.overlap())})
			}
		}
	}
	return markdown(2, []string{"part", "task", "layer", "demand that was predicted", "demand of the step before"}, rows)
}

type taskLayer struct {
	task  string
	layer int32
}

func compareTaskLayers(a, b taskLayer) int {
	if c := strings.Compare(a.task, b.task); c != 0 {
		return c
	}
	return cmp.Compare(a.layer, b.layer)
}

// HitsBesidePaper are KVDrive's Table 3 with the same selectors of this corpus beside it.
func (c *corpus) HitsBesidePaper() string {
	var rows [][]string
	pair := func(lru, la float64) string { return fmt.Sprintf("%.1f → %.1f", lru, la) }
	for _, p := range driveHits {
		here := []string{}
		for i := range c.recalls {
			if r := &c.recalls[i]; r.name == p.selector {
				text := pair(100*r.facts.hits(lru2).v, 100*r.facts.hits(look2).v)
				if r.selector != r.name && slices.ContainsFunc(c.recalls, func(o recall) bool { return o.name == r.name && o.selector != r.selector }) {
					text += " (" + code(r.selector) + ")"
				}
				here = append(here, text)
			}
		}
		if len(here) == 0 {
			here = []string{none}
		}
		slices.Sort(here)
		rows = append(rows, []string{p.selector, pair(p.lru[0], p.la[0]), pair(p.lru[1], p.la[1]), pair(p.lru[2], p.la[2]), strings.Join(here, ", ")})
	}
	for _, x := range c.sets {
		if f := x.all(); f.hits(look2).ok {
			rows = append(rows, []string{x.name + ", " + strings.Join(x.selectors(), ", "), none, none, none, pair(100*f.hits(lru2).v, 100*f.hits(look2).v)})
		}
	}
	return markdown(1, []string{"LRU → lookahead, %", "Llama-3-8B", "Qwen-3-8B", "Phi-4-mini", "here"}, rows)
}

// selectors are the set's, mostly one.
func (x *set) selectors() []string {
	var list []string
	for _, s := range x.streams {
		list = append(list, "selector "+stated(s.source.selector))
	}
	slices.Sort(list)
	return slices.Compact(list)
}
