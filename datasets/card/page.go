package card

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/kvreplay/kvreplay/datasets/catalogue"
	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/derive"
	"github.com/kvreplay/kvreplay/trace/locality"
)

// page returns pageText with its parts. It omits lines with an empty part, and sections without
// any part. text/template would have the linker keep every exported method of the program.
func (c *corpus) page(o Options, plots map[string][]byte) string {
	parts := map[string]string{
		"Command": o.Command, "Extent": printable.Markdown(c.Extent()), "Parts": c.Parts(), "Metadata": c.Metadata(), "Files": c.Files(),
		"Making": c.Making(), "Sources": cmp.Or(c.Sources(), "No task of the catalogue."), "Limits": c.Limits(),
		"Tasks": c.Tasks(), "Hits": c.Hits(), "Deepest": printable.Markdown(c.deepest().name), "Layers": c.Layers(), "Ranks": c.Ranks(),
		"Selectors": c.Selectors(), "Predictions": c.Predictions(),
		"Different": c.Different(), "Papers": c.comparisons(), "HitsBesidePaper": c.HitsBesidePaper(),
	}
	for _, name := range PlotNames {
		parts[name] = ""
		if plots[name] != nil {
			parts[name] = url.PathEscape(o.Plots) + "/" + name
		}
	}
	var sections []string
	for section := range strings.SplitSeq(pageText, "\n## ") {
		var kept []string
		some := false
		for line := range strings.SplitSeq(section, "\n") {
			omit := false
			line = os.Expand(line, func(name string) string {
				part, ok := parts[name]
				if !ok {
					panic("a bug: no part " + name + " of the card")
				}
				omit = omit || part == ""
				some = some || part != ""
				return part
			})
			if !omit {
				kept = append(kept, line)
			}
		}
		if some {
			sections = append(sections, strings.Join(kept, "\n"))
		}
	}
	return strings.Join(sections, "\n## ")
}

// selection is traces with their streams.
type selection struct {
	sources []*source
	streams []*stream
}

// where returns the traces for which is returns true, in order.
func (c *corpus) where(is func(*source) bool) (s selection) {
	for _, x := range c.sources {
		if is(x) {
			s.sources = append(s.sources, x)
			for i := range x.streams {
				s.streams = append(s.streams, &x.streams[i])
			}
		}
	}
	return s
}

// all returns all traces, and part those of a part.
func (c *corpus) all() selection { return c.where(func(*source) bool { return true }) }

func (s selection) bytes() string {
	n := slice.Sum(s.sources, func(x *source) int64 { return x.bytes })
	return humanize.Comma(n)
}

// distinct returns the different values, in order.
func distinct[X any, V cmp.Ordered](list []X, value func(X) V) []V {
	values := slice.Map(list, value)
	slices.Sort(values)
	return slices.Compact(values)
}

func (s selection) requests() int {
	return len(distinct(s.streams, func(x *stream) string { return x.source.part + "\x00" + x.info.Request }))
}

func (s selection) tasks() []string {
	return distinct(s.streams, func(x *stream) string { return x.task })
}

// texts joins the different texts of traces.
func (s selection) texts(text func(*source) string) string {
	return strings.Join(distinct(s.sources, text), "; ")
}

// span returns the range of a number of the streams, "5" or "5 to 9".
func (s selection) span(number func(*stream) int) string { return span(distinct(s.streams, number)) }

func promptOf(x *stream) int { return int(x.info.PromptLen) }

// Extent returns the size of the corpus in a sentence.
func (c *corpus) Extent() string {
	all := c.all()
	rows := slice.Sum(all.streams, func(x *stream) int { return x.info.Rows })
	demand := slice.Sum(all.streams, func(x *stream) int64 { return x.facts.locality.Demand })
	return fmt.Sprintf("%s of %s with %s on %s: %s, %s rows, %s demanded blocks, %s bytes.", text.Count(len(all.sources), "trace"),
		english.WordSeries(c.models(), "and"), text.Count(all.requests(), "request"), text.Count(len(all.tasks()), "task"), text.Count(len(all.streams), "stream"),
		humanize.Comma(int64(rows)), humanize.Comma(demand), all.bytes())
}

func (c *corpus) models() []string {
	return distinct(c.sources, func(s *source) string { return orNone(s.meta.Model) })
}

func (c *corpus) parts() []string {
	return distinct(c.sources, func(s *source) string { return s.part })
}

func orNone(s string) string { return cmp.Or(s, "not stated") }

// Metadata returns the metadata of the traces, by part if they differ.
func (c *corpus) Metadata() string {
	type field struct {
		name string
		of   func(*trace.Meta) string
	}
	fields := []field{
		{"model", func(m *trace.Meta) string { return m.Model }},
		{"weights", func(m *trace.Meta) string { return noteOf(m, "weights") }},
		{"decoding", func(m *trace.Meta) string { return m.Decoding }},
		{"attention", func(m *trace.Meta) string { return noteOf(m, "attention") }},
		{"pins: sink + local tokens", pinsOf},
		{"entry bytes", func(m *trace.Meta) string { return number(m.EntryBytes) }},
		{"reducer over heads", func(m *trace.Meta) string { return m.Reducer }},
		{"order of lists", func(m *trace.Meta) string { return m.Order }},
		{"generator", func(m *trace.Meta) string { return m.Generator }},
		{"device, dtype, threads", func(m *trace.Meta) string {
			return strings.Trim(strings.Join([]string{noteOf(m, "device"), noteOf(m, "dtype"), noteOf(m, "threads")}, ", "), ", ")
		}},
		{"libraries", librariesOf},
		{"licence of the traces", func(m *trace.Meta) string { return m.Licence }},
	}
	rows := slice.Map(fields, func(f field) []string { return []string{f.name, c.differing(f.of)} })
	return markdown(2, []string{"", ""}, rows)
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func pinsOf(m *trace.Meta) string {
	sink, local, ok := m.Pins()
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d + %d", sink, local)
}

func librariesOf(m *trace.Meta) string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(m.Notes)) {
		if name, ok := strings.CutPrefix(key, "library."); ok {
			list = append(list, name+" "+noteOf(m, key))
		}
	}
	return strings.Join(list, ", ")
}

// differing returns a field's value, or each value with its parts.
func (c *corpus) differing(field func(*trace.Meta) string) string {
	value := func(s *source) string { return orNone(field(s.meta)) }
	values := distinct(c.sources, value)
	if len(values) == 1 {
		return values[0]
	}
	for i, v := range values {
		with := c.where(func(s *source) bool { return value(s) == v })
		parts := distinct(with.sources, func(s *source) string { return s.part })
		values[i] = fmt.Sprintf("%s (%s)", v, strings.Join(parts, ", "))
	}
	return strings.Join(values, "; ")
}

// Parts returns a table with one row per part.
func (c *corpus) Parts() string {
	var rows [][]string
	for _, name := range c.parts() {
		p := c.where(func(s *source) bool { return s.part == name })
		heads := "shared"
		if own := distinct(p.streams, func(x *stream) int32 { return x.info.Head }); own[len(own)-1] != trace.NoHead {
			heads = ranges(slices.DeleteFunc(own, func(h int32) bool { return h == trace.NoHead }))
		}
		budgets := slice.Map(p.streams, func(x *stream) float64 { return x.budget() })
		rows = append(rows, []string{name, strconv.Itoa(len(p.sources)), strconv.Itoa(len(p.tasks())), strconv.Itoa(p.requests()),
			ranges(distinct(p.streams, func(x *stream) int32 { return x.info.Layer })), heads, p.span(promptOf),
			p.span(func(x *stream) int { return x.info.Rows - x.info.Windows }), p.span(func(x *stream) int { return x.info.Windows }),
			p.texts(listsOf), spanOf(budgets...), p.texts(func(s *source) string { return orNone(s.meta.Selector) }),
			p.texts(func(s *source) string { return strings.Join(s.columns, ", ") }), p.bytes()})
	}
	return markdown(14, []string{"part", "traces", "tasks", "requests", "layers", "KV heads", "prompt, tokens", "steps", "windows", "K / M, blocks", "K ÷ prompt", "selectors", "columns", "bytes"}, rows)
}

// listsOf returns K and M, and the block if it is more than a token.
func listsOf(s *source) string {
	text := fmt.Sprintf("%d / %d", s.meta.TopK, s.meta.Candidates)
	if s.meta.BlockTokens > 1 {
		text += fmt.Sprintf(" of %d tokens", s.meta.BlockTokens)
	}
	return text
}

// budget returns a stream's K in tokens divided by its prompt.
func (s *stream) budget() float64 {
	m := s.source.meta
	return float64(m.TopK*m.BlockTokens) / float64(s.info.PromptLen)
}

// Files returns the table of the traces with their digests.
func (c *corpus) Files() string {
	rows := slice.Map(c.sources, func(s *source) []string {
		return []string{code(s.name), orNone(s.selector), humanize.Comma(s.bytes), code(s.digest)}
	})
	return markdown(4, []string{"file", "selector", "bytes", "digest of the content"}, rows)
}

// Sources returns the licences of the prompts' sources by task, from the catalogue.
func (c *corpus) Sources() string {
	type source struct{ licence, origin string }
	tasks := map[source][]string{}
	for _, t := range c.all().tasks() {
		for _, e := range catalogue.All() {
			if e.Kind == catalogue.Workload && strings.HasSuffix(e.Name, "/"+t) {
				s := source{e.Licence, e.Origin}
				tasks[s] = append(tasks[s], t)
			}
		}
	}
	var rows [][]string
	for s, t := range tasks {
		rows = append(rows, []string{cell(strings.Join(t, ", ")), s.licence, s.origin}) // those of the catalogue may be links
	}
	slices.SortFunc(rows, slices.Compare)
	return raw(3, []string{"tasks", "licence of the prompts", "origin"}, rows)
}

// Making returns how the traces were made, if the capture of this repository made all of them.
func (c *corpus) Making() string {
	if slices.ContainsFunc(c.sources, func(s *source) bool { return !strings.HasPrefix(s.meta.Generator, "kvreplay capture") }) {
		return "Other programs than this repository's capture made some of them: see the generators above."
	}
	making := "`python -m kvreplay.captures` (scripts/capture) ran the model over prompts of `kvreplay datasets make`. " +
		"It recorded the choice of each selector at every step, layer and head. `kvreplay import` made the traces."
	repeats := "`make corpus` repeats"
	if slices.ContainsFunc(c.sources, cut) {
		making += " `kvreplay derive` cut those whose metadata have a note `derived`."
		repeats = "`make corpus` and `make systems-corpus` repeat"
	}
	if slices.ContainsFunc(c.sources, func(s *source) bool { return s.meta.Notes["part"] == "" }) {
		return making
	}
	return making + " " + repeats + " all of it, and scripts/corpus/plan.toml has every setting."
}

// cut reports whether a trace was derived from another.
func cut(s *source) bool { return s.meta.Notes[derive.NoteDerived] != "" }

var (
	parameters = regexp.MustCompile(`(\d+(?:\.\d+)?)([MB])\b`)
	quantised  = regexp.MustCompile(`\b(?:Q\d\w*|(?i:int[48]|fp[48]|awq|gptq))\b`)
)

// smallModel is a bound on parameters. KVDrive's smallest model, Phi-4-mini, has 3.8 thousand
// million.
const smallModel = 3.8e9

// shortContext is the shortest context that ESS and KVDrive measure, in tokens.
const shortContext = 32 << 10

// Limits returns the limits of the conclusions that the traces allow, as a list.
func (c *corpus) Limits() string {
	var list strings.Builder
	add := func(format string, a ...any) {
		fmt.Fprintf(&list, "\n- %s", printable.Markdown(fmt.Sprintf(format, a...)))
	}
	for _, m := range c.models() {
		if p := parameters.FindStringSubmatch(m); p != nil {
			n, _ := strconv.ParseFloat(p[1], 64)
			if n *= map[string]float64{"M": 1e6, "B": 1e9}[p[2]]; n < smallModel {
				add("%s has %s%s parameters. The papers measure models of 3.8B parameters and more. These traces do not show the gains of a cache for such models.", m, p[1], p[2])
			}
		}
		if q := quantised.FindString(m); q != "" {
			add("The weights of %s are quantised (%s), so its attention is that of rounded weights.", m, q)
		}
	}
	// limit adds a limit of the parts with a trace for which is returns true.
	limit := func(format string, is func(*source) bool) {
		if traces := c.where(is).sources; len(traces) > 0 {
			add(format, english.WordSeries(distinct(traces, func(s *source) string { return s.part }), "and"))
		}
	}
	limit("Open loop (%s): every output was computed with full attention. A system that attends only to its selection drifts from these traces. No figure here shows how its answers change.",
		func(s *source) bool { return strings.HasPrefix(s.meta.Notes["attention"], "full attention") })
	limit("Sampled text (%s): the model decodes its own answer with one seed, right or wrong. It continues after the answer if it may not choose end-of-sequence.",
		func(s *source) bool { return strings.HasPrefix(s.meta.Decoding, "sampled") })
	all := c.all()
	if longest := distinct(all.streams, promptOf); longest[len(longest)-1] < shortContext {
		demands := distinct(c.sources, func(s *source) int { return s.meta.TopK * s.meta.BlockTokens })
		add("Short contexts: prompts of %s tokens and K of %s. The papers measure 32K to 128K tokens and more with K of %d.", all.span(promptOf), span(demands), essTopK)
	}
	if least, task := c.fewestRequests(); least < 5 {
		add("Few requests: %s of %s. The figures of a task hold for its requests only.", text.Count(least, "request"), task)
	}
	limit("Cut traces (%s): they are parts of larger ones. Columns resident and mass of selectors are those of the larger ones.", cut)
	limit("No prompt windows (%s): replay starts cold.", func(s *source) bool { return s.streams[0].info.Windows == 0 })
	limit("No ranks (%s): figures that need ranks are left out.", func(s *source) bool { return s.meta.Order == trace.OrderIndex })
	limit(fmt.Sprintf("Rounded scores (%%s): ranks are exact, scores have fewer than %d bits of mantissa.", trace.DefaultMantissaBits), func(s *source) bool {
		return s.meta.ScoreMantissaBits != nil && *s.meta.ScoreMantissaBits < trace.DefaultMantissaBits
	})
	return list.String()
}

// fewestRequests returns the task of a part with the fewest requests.
func (c *corpus) fewestRequests() (least int, task string) {
	least = 1 << 30
	for _, x := range c.sets {
		for _, t := range x.tasks() {
			s := selection{streams: x.only(func(s *stream) bool { return s.task == t.key }).streams}
			if n := s.requests(); n < least {
				least, task = n, fmt.Sprintf("%s (%s)", t.key, x.name)
			}
		}
	}
	return least, task
}

// Tasks returns tables of the demand's repetition, one per set.
func (c *corpus) Tasks() string {
	header := []string{"task", "overlap", "first seen", "set 4 ÷ K", "set 16 ÷ K", "set 64 ÷ K", "gap p50 / p90, steps", "reuse p50 / p90 / p99, blocks", "covered mass"}
	return c.bySet(header, func(f *facts) []string {
		s := f.locality.Summary()
		row := []string{percent(f.overlap()), percent(text.Ratio(f.locality.FirstSeen, f.locality.After))}
		for w := 1; w < len(locality.Windows); w++ {
			row = append(row, decimals(f.workingSet(w), 2))
		}
		return append(row, text.Number(s.Gap.P50, 0)+" / "+text.Number(s.Gap.P90, 0),
			strings.Join([]string{text.Number(s.Reuse.P50, 0), text.Number(s.Reuse.P90, 0), text.Number(s.Reuse.P99, 0)}, " / "), percent(f.mass()))
	})
}

// Hits returns tables of the hit rates of every cell, in the order of cells.
func (c *corpus) Hits() string {
	header := []string{"task"}
	for _, m := range multiples {
		header = append(header, "LRU "+strings.TrimSuffix(cells[m.cell].capacity, "x")+" × K")
	}
	header = append(header, "LRU 0.2 of the prompt", "lookahead 2 × K", "optimum 2 × K")
	return c.bySet(header, func(f *facts) []string {
		return slice.Map(slice.Indices(len(cells)), func(cell int) string { return percent(f.hits(cell)) })
	})
}

// bySet returns a table of every set, titled by name, K and M. It has one row per task, and one for
// all tasks together if there are several.
func (c *corpus) bySet(header []string, row func(*facts) []string) string {
	var parts []string
	for _, x := range c.sets {
		tasks := x.tasks()
		if len(tasks) > 1 {
			tasks = append(tasks, group[string]{"all", *x.all()})
		}
		rows := slice.Map(tasks, func(x group[string]) []string { return append([]string{x.key}, row(&x.facts)...) })
		parts = append(parts, fmt.Sprintf("**%s**, %s\n\n%s", printable.Markdown(x.name), x.lists(), markdown(1, header, rows)))
	}
	return strings.Join(parts, "\n")
}

// lists returns a text like "K 24, M 30, a list a KV head".
func (x *set) lists() string {
	text := fmt.Sprintf("K %d, M %d", x.k, x.m)
	if x.block > 1 {
		text += fmt.Sprintf(" blocks of %d tokens", x.block)
	}
	if slices.ContainsFunc(x.streams, func(s *stream) bool { return s.info.Head != trace.NoHead }) {
		return text + ", a list a KV head"
	}
	return text + ", a list a layer"
}

// Layers returns a table of overlap and LRU's hit rate at 2 × K by layer and head of the deepest
// set.
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
		for _, figure := range []func(*facts) float64{(*facts).overlap, hitsOf(0), hitsOf(lru2), hitsOf(4)} {
			for _, h := range heads {
				cell := math.NaN()
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

func hitsOf(cell int) func(*facts) float64 { return func(f *facts) float64 { return f.hits(cell) } }

func headName(h int32) string {
	if h == trace.NoHead {
		return ""
	}
	return fmt.Sprintf(", head %d", h)
}

// leastRanked is the smallest K with distinct quarters.
const leastRanked = 4

// Ranks returns the fate of ranks one step later, one row per set.
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
	if len(rows) == 0 {
		return ""
	}
	return "Left: share of a step's Top-K that is among the first M of the list one step before. " +
		"Right: chance that a block of these ranks is in the next Top-K.\n\n" +
		markdown(1, []string{"part", "M = K ÷ 4", "K ÷ 2", "K", "the list's", "ranks to K ÷ 4 stay", "3 K ÷ 4 to K stay", "K to the end enter or stay"}, rows)
}

// quarters returns the best ranks of the demand, its last, and those behind it.
func (x *set) quarters() [3][2]int { return [3][2]int{{0, x.k / 4}, {3 * x.k / 4, x.k}, {x.k, x.m}} }

// Selectors returns the comparison of selectors with the exact Top-K, best first.
func (c *corpus) Selectors() string {
	var rows [][]string
	for i := range c.recalls {
		r := &c.recalls[i]
		rows = append(rows, []string{r.part, code(r.selector), strconv.Itoa(r.block), percent(r.share()), percent(mean(r.resident)), percent(mean(r.mass)),
			percent(r.facts.overlap()), percent(r.facts.hits(lru2)), percent(r.facts.hits(look2))})
	}
	return markdown(2, []string{"part", "selector", "block", "recall", "resident", "mass", "overlap", "LRU 2 × K", "lookahead 2 × K"}, rows)
}

// mean returns the mean of noted values, NaN without any.
func mean(values []float64) float64 {
	return slice.Sum(values, func(v float64) float64 { return v }) / float64(len(values))
}

// Predictions returns the share of the demand that was predicted one layer ahead, by task and
// layer.
func (c *corpus) Predictions() string {
	type taskLayer struct {
		task  string
		layer int32
	}
	compare := func(a, b taskLayer) int { return cmp.Or(cmp.Compare(a.task, b.task), cmp.Compare(a.layer, b.layer)) }
	var rows [][]string
	for _, x := range c.sets {
		for _, g := range groups(x.streams, func(s *stream) taskLayer { return taskLayer{s.task, s.info.Layer} }, compare) {
			if g.facts.predictedOf > 0 {
				rows = append(rows, []string{x.name, g.key.task, strconv.Itoa(int(g.key.layer)), percent(g.facts.predicted()), percent(g.facts.overlap())})
			}
		}
	}
	return markdown(2, []string{"part", "task", "layer", "demand that was predicted", "demand of the step before"}, rows)
}

// HitsBesidePaper returns KVDrive's Table 3 next to the same selectors of this corpus.
func (c *corpus) HitsBesidePaper() string {
	var rows [][]string
	pair := func(lru, la float64) string { return fmt.Sprintf("%.1f → %.1f", lru, la) }
	parts := distinct(c.recalls, func(r recall) string { return r.part })
	for _, p := range driveHits {
		here := []string{}
		for i := range c.recalls {
			if r := &c.recalls[i]; r.name == p.selector {
				text := ""
				if len(parts) > 1 {
					text = r.part + " "
				}
				text += pair(100*r.facts.hits(lru2), 100*r.facts.hits(look2))
				if r.selector != r.name && slices.ContainsFunc(c.recalls, func(o recall) bool { return o.name == r.name && o.selector != r.selector }) {
					text += " (" + code(r.selector) + ")"
				}
				here = append(here, text)
			}
		}
		if len(here) == 0 {
			here = []string{text.None}
		}
		slices.Sort(here)
		rows = append(rows, []string{p.selector, pair(p.lru[0], p.la[0]), pair(p.lru[1], p.la[1]), pair(p.lru[2], p.la[2]), strings.Join(here, ", ")})
	}
	for _, x := range c.sets {
		if f := x.all(); known(f.hits(look2)) {
			// A set usually has one selector.
			selectors := distinct(x.streams, func(s *stream) string { return "selector " + orNone(s.source.selector) })
			rows = append(rows, []string{x.name + ", " + strings.Join(selectors, ", "), text.None, text.None, text.None, pair(100*f.hits(lru2), 100*f.hits(look2))})
		}
	}
	return markdown(1, []string{"LRU → lookahead, %", "Llama-3-8B", "Qwen-3-8B", "Phi-4-mini", "here"}, rows)
}

// known reports whether the traces determine a figure.
func known(v float64) bool { return !math.IsNaN(v) }

// percent returns a share to a tenth of a percent.
func percent(v float64) string {
	if !known(v) {
		return text.None
	}
	return text.Percent(&v)
}

func decimals(v float64, n int) string {
	if !known(v) {
		return text.None
	}
	return text.Number(&v, n)
}

// spanOf returns "5.0 %" or "5.0 % to 9.0 %".
func spanOf(values ...float64) string {
	least, most := extremes(values)
	if percent(least) == percent(most) {
		return percent(least)
	}
	return percent(least) + " to " + percent(most)
}

// extremes returns the least and the largest of the known values.
func extremes(values []float64) (least, most float64) {
	if values = slice.Filter(values, known); len(values) == 0 {
		return math.NaN(), math.NaN()
	}
	return slices.Min(values), slices.Max(values)
}

// span returns "5" or "5 to 9".
func span(values []int) string {
	least, most := slices.Min(values), slices.Max(values)
	if least == most {
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// ranges writes numbers, in any order, as "0, 5, 10-20".
func ranges(values []int32) string {
	return strings.Join(text.Ranges(slices.Compact(slices.Sorted(slices.Values(values)))), ", ")
}

// codeBegins and codeEnds enclose the text of a code span in a cell. Texts of traces may contain
// them, but all text between them is escaped too.
const codeBegins, codeEnds = "\x0e", "\x0f"

func code(s string) string { return codeBegins + s + codeEnds }

// cell returns the Markdown of a cell. Only code is markup.
func cell(s string) string {
	before, rest, _ := strings.Cut(s, codeBegins)
	text := printable.Cell(before)
	if rest != "" {
		inside, after, _ := strings.Cut(rest, codeEnds)
		text += printable.Code(inside) + cell(after)
	}
	return text
}

// markdown returns a table of texts, empty if there are no rows. Columns from the given one on are
// numbers and right aligned.
func markdown(numbers int, header []string, rows [][]string) string {
	return raw(numbers, header, slice.Map(rows, func(cells []string) []string { return slice.Map(cells, cell) }))
}

// raw is markdown for cells that are already Markdown.
func raw(numbers int, header []string, rows [][]string) string {
	if len(rows) == 0 {
		return ""
	}
	t := table.New(header...).RightFrom(numbers)
	for _, r := range rows {
		t.AddTexts(r)
	}
	return t.RawMarkdown()
}
