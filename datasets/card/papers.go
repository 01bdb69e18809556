package card

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
)

// Printed figures of the papers. ESS: "ESS: An Offload-Centric Latent-Cache Management Architecture
// for DeepSeek-V3.2-Exp", arXiv 2512.10576. KVDrive: "KVDRIVE: A Holistic Multi-Tier KV Cache
// Management System for Long-Context LLM Inference".
const (
	essFewest, essMost = 16.66, 605 // misses per batch, by layer, at Sparse Memory Ratio 0.2 (section 3.3 on Fig. 5)
	essTopK            = 2048       // DeepSeek-V3.2-Exp's Top-K (section 2.2)

	driveWindow0, driveWindow3 = 500, 12.5 // MB per step, windows ×0 (over) and ×3 (below) at 6.25 % (section 3 on Fig. 3)
)

// driveHits are KVDrive's Table 3, for Llama-3-8B, Qwen-3-8B and Phi-4-mini. They are hit rates of
// LRU and lookahead eviction in percent at window 2, K = 2048, M = 2560 and 120K context.
var driveHits = []struct {
	selector string
	lru, la  [3]float64
}{
	{"quest", [3]float64{89.2, 89.7, 90.7}, [3]float64{90.1, 91.0, 88.9}},
	{"shadowkv", [3]float64{84.2, 81.0, 86.1}, [3]float64{87.3, 83.2, 84.6}},
	{"retroinfer", [3]float64{80.7, 70.0, 78.3}, [3]float64{82.0, 73.9, 80.1}},
	{"kvdrive", [3]float64{80.0, 77.5, 78.0}, [3]float64{81.5, 79.0, 81.0}},
}

// driveGains returns the rates of LRU in driveHits, and the gains of lookahead in points.
func driveGains() (lru, gains []float64) {
	for _, row := range driveHits {
		for i := range row.lru {
			lru, gains = append(lru, row.lru[i]), append(gains, row.la[i]-row.lru[i])
		}
	}
	return lru, gains
}

// better returns how many gains exceed 0, of how many things, and their range.
func better(gains []float64, things string) string {
	least, most := extremes(gains)
	return fmt.Sprintf("better in %d of %d %s, by %+.1f to %+.1f points", up(gains), len(gains), things, least, most)
}

func up(gains []float64) int { return slice.Count(gains, func(d float64) bool { return d > 0 }) }

// driveAnswers are KVDrive's Table 2, RULER's average with Llama-3-8B, best first. The papers
// compare answers with each other, not recall of the exact Top-K.
var driveAnswers = []struct {
	selector string
	ruler    float64
}{{"shadowkv", 76.95}, {"kvdrive", 76.15}, {"retroinfer", 75.82}, {"quest", 73.99}, {"pqcache", 69.49}, {"magicpig", 67.54}}

// verdict states whether the corpus agrees with a paper.
type verdict string

const (
	agrees    verdict = "As in the paper"
	differs   verdict = "Different here"
	undecided verdict = "Not measured here"
)

// comparison is a paper's figure with the measured one.
type comparison struct {
	Source, Paper, Here string
	Verdict             verdict
	Why                 string // the measured reason, with the criterion
}

// Papers returns the comparisons. If the paper gives no criterion, the verdict states one.
func (c *corpus) Papers() []comparison {
	return []comparison{c.similarity(), c.missProfile(), c.windows(), c.nextStep(), c.hitLevel(), c.lookaheadGain(), c.selectorOrder()}
}

func (c *corpus) comparisons() string {
	var b strings.Builder
	for _, p := range c.Papers() {
		fmt.Fprintf(&b, "**%s**\n\n- Paper: %s.\n- Here: %s.\n- %s: %s.\n\n", p.Source, printable.Markdown(p.Paper), printable.Markdown(p.Here), p.Verdict, printable.Markdown(p.Why))
	}
	return b.String()
}

// Different returns the sources of the comparisons that differ.
func (c *corpus) Different() string {
	list := slice.Filter(c.Papers(), func(p comparison) bool { return p.Verdict == differs })
	return cmp.Or(strings.Join(slice.Map(list, func(p comparison) string { return p.Source }), "; "), "none")
}

func decide(same bool) verdict {
	if same {
		return agrees
	}
	return differs
}

// similarity compares with ESS's Fig. 2, whose text gives no number.
func (c *corpus) similarity() comparison {
	const least, apart = 0.5, 0.1
	p := comparison{Source: "ESS, Fig. 2 (intra-layer similarity)",
		Paper: "“consistent and high similarity in intra-layer access patterns” of consecutive steps, DeepSeek-V3.2-Exp on LongBench v2 (a plot without numbers in the text)"}
	var here []string
	layers, low, wide := 0, 0, 0
	for _, x := range c.sets {
		overlaps := across(x.layers(), (*facts).overlap)
		here = append(here, fmt.Sprintf("%s %s, by layer %s", x.name, percent(x.all().overlap()), spanOf(overlaps...)))
		layers += len(overlaps)
		low += slice.Count(overlaps, func(v float64) bool { return !(v >= least) })
		if lo, hi := extremes(overlaps); hi-lo > apart {
			wide++
		}
	}
	p.Here = "overlap with the step before: " + strings.Join(here, "; ")
	p.Verdict = decide(low == 0 && wide == 0)
	p.Why = fmt.Sprintf("%d of %d layers (counted in each part) overlap by less than half, and in %d of %d parts layers lie more than 10 points apart (agreement needs zero of each)", low, layers, wide, len(c.sets))
	return p
}

// across returns a figure of each group.
func across[K any](gs []group[K], figure func(*facts) float64) []float64 {
	return slice.Map(gs, func(g group[K]) float64 { return figure(&g.facts) })
}

// missProfile compares with ESS's Fig. 5: how far layers lie apart.
func (c *corpus) missProfile() comparison {
	paper := essMost / essFewest
	p := comparison{Source: "ESS, Fig. 5 (misses by layer)",
		Paper: fmt.Sprintf("LRU at Sparse Memory Ratio 0.2, Top-%d: %.2f to %d misses per batch over the layers, a factor of %.0f", essTopK, essFewest, essMost, paper)}
	x := c.deepest()
	layers := x.layers()
	least, most := extremes(across(layers, func(f *facts) float64 { return text.Ratio(f.cells[lruESS].misses, f.cells[lruESS].steps) }))
	if len(layers) < 2 || !known(least) {
		p.Verdict, p.Here, p.Why = undecided, "one layer", "layers cannot be compared"
		return p
	}
	p.Here = fmt.Sprintf("%s, LRU of 0.2 of the prompt: %s to %s misses per step of K = %d and stream, over %d layers with tasks and heads pooled", x.name, decimals(least, 2), decimals(most, 2), x.k, len(layers))
	if least == 0 {
		p.Verdict, p.Why = agrees, "a layer misses nothing, so the factor between layers is infinite"
		return p
	}
	factor := most / least
	p.Verdict = decide(factor > paper/2 && factor < paper*2)
	p.Why = fmt.Sprintf("a factor of %.1f between layers (agreement means within a factor of 2 of the paper's)", factor)
	return p
}

// windows compares with KVDrive's Fig. 3, by the parts of about its budget.
func (c *corpus) windows() comparison {
	const budget, near = 0.0625, 0.2 // the paper's budget, and the tolerance: a fifth more or less
	paper := float64(driveWindow3) / driveWindow0
	p := comparison{Source: "KVDrive, Fig. 3 (critical KV windows)",
		Paper: fmt.Sprintf("at 6.25 %% budget, window ×0 moves over %d MB per step and window ×3 below %.1f MB, so less than %.1f %% of the demand is missed", driveWindow0, driveWindow3, 100*paper)}
	var here, compared []string
	same := true
	for _, x := range c.sets {
		f := x.all()
		var missed []string
		for n := 1; n <= 3; n++ {
			missed = append(missed, percent(1-f.keptFor(n)))
		}
		lru := 1 - f.hits(lru3)
		here = append(here, fmt.Sprintf("%s %s (LRU of 3 × K %s)", x.name, strings.Join(missed, ", "), percent(lru)))
		mean := slice.Sum(x.streams, (*stream).budget) / float64(len(x.streams))
		if math.Abs(mean/budget-1) < near {
			compared = append(compared, x.name)
			same = same && min(lru, 1-f.keptFor(3)) <= paper
		}
	}
	p.Here = "missed if the demand of the last 1, 2, 3 steps is kept: " + strings.Join(here, "; ")
	if compared == nil {
		p.Verdict, p.Why = undecided, "no part has a similar budget"
		return p
	}
	p.Verdict = decide(same)
	p.Why = fmt.Sprintf("the budget of %s is similar, and at most %.1f %% would agree with the paper", english.WordSeries(compared, "and"), 100*paper)
	return p
}

// nextStep compares with KVDrive's Fig. 7.
func (c *corpus) nextStep() comparison {
	p := comparison{Source: "KVDrive, Fig. 7 (Top-M against the next Top-K)",
		Paper: "the overlap of a step's Top-M with the next step's Top-K “rises rapidly at first and then saturates” as M grows: high ranks stay, low ones add little (a plot without numbers in the text)"}
	var here []string
	falls := 0
	for _, x := range c.sets {
		f := x.all()
		if f.next == nil || x.k < leastRanked {
			continue
		}
		q := x.quarters()
		best, last := f.stays(q[0][0], q[0][1]), f.stays(q[1][0], q[1][1])
		text := fmt.Sprintf("%s %s, then %s", x.name, percent(best), percent(last))
		down := best > last
		if behind := f.stays(q[2][0], q[2][1]); known(behind) {
			text += ", then " + percent(behind)
			down = down && last > behind
		}
		here = append(here, text)
		if down {
			falls++
		}
	}
	if len(here) == 0 {
		p.Verdict, p.Here, p.Why = undecided, "no ranks", fmt.Sprintf("needs lists in rank order of K = %d or more", leastRanked)
		return p
	}
	p.Here = "share in the next Top-K of ranks up to K ÷ 4, of ranks from 3 K ÷ 4 to K, and of the candidates: " + strings.Join(here, "; ")
	p.Verdict = decide(falls == len(here))
	p.Why = fmt.Sprintf("the chance falls with rank in %d of %d parts", falls, len(here))
	return p
}

// hitLevel compares with the level of the hit rates in Table 3.
func (c *corpus) hitLevel() comparison {
	lru, _ := driveGains()
	least, most := extremes(lru)
	p := comparison{Source: "KVDrive, Table 3 (hit rates of LRU at window 2)",
		Paper: fmt.Sprintf("%.1f to %.1f %% over four selectors and three models, K = 2048, 120K context", least, most)}
	var here []string
	groups, low, high := 0, 0, 0
	for _, x := range c.sets {
		tasks := x.tasks()
		hits := across(tasks, hitsOf(lru2))
		here = append(here, fmt.Sprintf("%s %s over %s", x.name, spanOf(hits...), text.Count(len(tasks), "task")))
		groups += len(hits)
		low += slice.Count(hits, func(v float64) bool { return 100*v < least })
		high += slice.Count(hits, func(v float64) bool { return 100*v > most })
	}
	p.Here = "window 2 taken as LRU of 2 × K: " + strings.Join(here, "; ")
	p.Verdict = decide(low+high == 0)
	p.Why = fmt.Sprintf("%d of %d tasks (counted in each part) lie below the paper's range, %d above", low, groups, high)
	return p
}

// lookaheadGain compares with the gain of lookahead over LRU in Table 3.
func (c *corpus) lookaheadGain() comparison {
	_, paper := driveGains()
	p := comparison{Source: "KVDrive, Table 3 (lookahead over LRU)",
		Paper: fmt.Sprintf("%s, %+.1f in the mean", better(paper, "cells"), mean(paper))}
	var gains []float64
	note := func(f *facts) {
		if d := 100 * (f.hits(look2) - f.hits(lru2)); known(d) {
			gains = append(gains, d)
		}
	}
	for _, x := range c.sets {
		for _, t := range x.tasks() {
			note(&t.facts)
		}
	}
	for i := range c.recalls {
		note(&c.recalls[i].facts)
	}
	if gains == nil {
		p.Verdict, p.Here, p.Why = undecided, "no ranks", "lookahead needs lists in rank order"
		return p
	}
	p.Here = better(gains, "tasks and selectors")
	p.Verdict = decide(2*up(gains) > len(gains) && mean(gains) >= mean(paper)/2)
	p.Why = fmt.Sprintf("%+.1f points in the mean (agreement means better in most, by half of the paper's mean or more)", mean(gains))
	return p
}

// selectorOrder compares the order of selectors by attention mass with that by their answers in
// KVDrive's Table 2.
func (c *corpus) selectorOrder() comparison {
	var order []string
	for _, a := range driveAnswers {
		order = append(order, fmt.Sprintf("%s %.2f", a.selector, a.ruler))
	}
	p := comparison{Source: "KVDrive, Table 2 (order of selectors)", Paper: "RULER's average with Llama-3-8B: " + strings.Join(order, ", ")}
	same, pairs := 0, 0
	var here []string
	for _, part := range c.compared() {
		best := c.bestMass(part)
		var masses []string
		for i, a := range driveAnswers {
			x, ok := best[a.selector]
			if !ok {
				continue
			}
			masses = append(masses, fmt.Sprintf("%s %s", a.selector, percent(x)))
			for _, b := range driveAnswers[i+1:] {
				if y, ok := best[b.selector]; ok {
					pairs++
					if x > y {
						same++
					}
				}
			}
		}
		here = append(here, part+" "+strings.Join(masses, ", "))
	}
	if pairs == 0 {
		p.Verdict, p.Here, p.Why = undecided, "fewer than two of these selectors have a recorded mass and an exact trace", "nothing to order"
		return p
	}
	p.Here = "attention mass of the selection relative to the exact one's, as captured: " + strings.Join(here, "; ")
	p.Verdict = decide(same == pairs)
	p.Why = fmt.Sprintf("%d of %d pairs have the paper's order, but mass is not the quality of answers", same, pairs)
	return p
}

// compared returns the parts with selectors that have a noted mass, sorted.
func (c *corpus) compared() []string {
	massed := slice.Filter(c.recalls, func(r recall) bool { return len(r.mass) > 0 })
	return distinct(massed, func(r recall) string { return r.part })
}

// bestMass returns the noted mass of each selector of a part, of its best variant.
func (c *corpus) bestMass(part string) map[string]float64 {
	best := map[string]float64{}
	for i := range c.recalls {
		r := &c.recalls[i]
		if m := mean(r.mass); r.part == part && m > best[r.name] {
			best[r.name] = m
		}
	}
	return best
}
