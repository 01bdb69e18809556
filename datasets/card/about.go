package card

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/kvreplay/kvreplay/datasets/catalogue"
	"github.com/kvreplay/kvreplay/trace"
)

// view is what the page's template asks.
type view struct {
	*corpus
	Options
	plots map[string][]byte
}

// Plot is a picture, or nothing where none was drawn.
func (v *view) Plot(name, about string) string {
	if v.plots[name] == nil {
		return ""
	}
	return fmt.Sprintf("![%s](%s/%s)", about, url.PathEscape(v.Plots), name)
}

// Extent is the corpus in a sentence.
func (c *corpus) Extent() string {
	requests, tasks := map[string]bool{}, map[string]bool{}
	var streams, rows int
	var bytes, demand int64
	for _, s := range c.sources {
		bytes += s.bytes
		for i := range s.streams {
			x := &s.streams[i]
			requests[s.part+"\x00"+x.info.Request], tasks[x.task] = true, true
			rows += x.info.Rows
			demand += x.facts.locality.Demand
		}
		streams += len(s.streams)
	}
	return fmt.Sprintf("%s of %s with %s on %s: %s, %s rows, %s demanded blocks, %s bytes.", plural(len(c.sources), "trace"),
		and(c.models()), plural(len(requests), "request"), plural(len(tasks), "task"), plural(streams, "stream"),
		humanize.Comma(int64(rows)), humanize.Comma(demand), humanize.Comma(bytes))
}

func (c *corpus) models() []string {
	var models []string
	for _, s := range c.sources {
		if m := stated(s.meta.Model); !slices.Contains(models, m) {
			models = append(models, m)
		}
	}
	slices.Sort(models)
	return models
}

func stated(s string) string {
	if s == "" {
		return "not stated"
	}
	return s
}

// Metadata are the facts that traces state, with the parts where they differ.
func (c *corpus) Metadata() string {
	fields := []struct {
		name string
		of   func(*trace.Meta) string
	}{
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
	var rows [][]string
	for _, f := range fields {
		rows = append(rows, []string{f.name, c.differing(f.of)})
	}
	return markdown(2, []string{"", ""}, rows)
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func pinsOf(m *trace.Meta) string {
	sink, local, stated := m.Pins()
	if !stated {
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

// differing is a field's value, or each value with the parts that have it.
func (c *corpus) differing(of func(*trace.Meta) string) string {
	parts := map[string][]string{}
	for _, s := range c.sources {
		v := stated(of(s.meta))
		if !slices.Contains(parts[v], s.part) {
			parts[v] = append(parts[v], s.part)
		}
	}
	values := slices.Sorted(maps.Keys(parts))
	if len(values) == 1 {
		return values[0]
	}
	for i, v := range values {
		slices.Sort(parts[v])
		values[i] = fmt.Sprintf("%s (%s)", v, strings.Join(parts[v], ", "))
	}
	return strings.Join(values, "; ")
}

// Parts are the parts, one a row.
func (c *corpus) Parts() string {
	var rows [][]string
	for _, part := range c.parts() {
		requests, tasks := map[string]bool{}, map[string]bool{}
		var layers, heads []int32
		var prompts, steps, windows []int
		var budgets []share
		var bytes int64
		var lists, selectors, columns []string
		traces := 0
		for _, s := range c.sources {
			if s.part != part {
				continue
			}
			traces++
			bytes += s.bytes
			lists, selectors, columns = append(lists, listsOf(s)), append(selectors, stated(s.meta.Selector)), append(columns, strings.Join(s.columns, ", "))
			for i := range s.streams {
				x := &s.streams[i]
				requests[x.info.Request], tasks[x.task] = true, true
				layers, prompts = append(layers, x.info.Layer), append(prompts, int(x.info.PromptLen))
				budgets = append(budgets, share{x.budget(), true})
				steps, windows = append(steps, x.info.Rows-x.info.Windows), append(windows, x.info.Windows)
				if x.info.Head != trace.NoHead {
					heads = append(heads, x.info.Head)
				}
			}
		}
		shared := "shared"
		if len(heads) > 0 {
			shared = ranges(heads)
		}
		rows = append(rows, []string{part, strconv.Itoa(traces), strconv.Itoa(len(tasks)), strconv.Itoa(len(requests)), ranges(layers), shared,
			span(prompts), span(steps), span(windows), once(lists), spanOf(budgets), once(selectors), once(columns), humanize.Comma(bytes)})
	}
	return markdown(14, []string{"part", "traces", "tasks", "requests", "layers", "KV heads", "prompt, tokens", "steps", "windows", "K / M, blocks", "K ÷ prompt", "selectors", "columns", "bytes"}, rows)
}

func (c *corpus) parts() []string {
	var parts []string
	for _, s := range c.sources {
		parts = append(parts, s.part)
	}
	slices.Sort(parts)
	return slices.Compact(parts)
}

// once joins the distinct texts.
func once(texts []string) string {
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), "; ")
}

// listsOf is K and M, with the block where that is more than a token.
func listsOf(s *source) string {
	text := fmt.Sprintf("%d / %d", s.meta.TopK, s.meta.Candidates)
	if s.meta.BlockTokens > 1 {
		text += fmt.Sprintf(" of %d tokens", s.meta.BlockTokens)
	}
	return text
}

// budget is a stream's K in tokens over its prompt.
func (s *stream) budget() float64 {
	m := s.source.meta
	return float64(m.TopK*m.BlockTokens) / float64(s.info.PromptLen)
}

// Files are the traces with their digests.
func (c *corpus) Files() string {
	var rows [][]string
	for _, s := range c.sources {
		rows = append(rows, []string{code(s.name), stated(s.selector), humanize.Comma(s.bytes), code(s.digest)})
	}
	return markdown(4, []string{"file", "selector", "bytes", "digest of the content"}, rows)
}

// Sources are the licences of what prompts are made of, by task, as the catalogue has them.
func (c *corpus) Sources() string {
	type source struct{ licence, origin string }
	tasks := map[source][]string{}
	for _, t := range c.taskNames() {
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
	return table(3, []string{"tasks", "licence of the prompts", "origin"}, rows)
}

func (c *corpus) taskNames() []string {
	var tasks []string
	for _, s := range c.sources {
		for i := range s.streams {
			tasks = append(tasks, s.streams[i].task)
		}
	}
	slices.Sort(tasks)
	return slices.Compact(tasks)
}

// Captured reports whether the capture of this repository made all traces.
func (c *corpus) Captured() bool {
	for _, s := range c.sources {
		if !strings.HasPrefix(s.meta.Generator, "kvreplay capture") {
			return false
		}
	}
	return true
}

// Planned reports whether all traces name the part of a plan that they belong to.
func (c *corpus) Planned() bool {
	for _, s := range c.sources {
		if s.meta.Notes["part"] == "" {
			return false
		}
	}
	return true
}

var (
	parameters = regexp.MustCompile(`(\d+(?:\.\d+)?)([MB])\b`)
	quantised  = regexp.MustCompile(`\b(?:Q\d\w*|(?i:int[48]|fp[48]|awq|gptq))\b`)
)

// smallModel is fewer parameters than the smallest of KVDrive's models, Phi-4-mini with
// 3.8 thousand million.
const smallModel = 3.8e9

// shortContext is the shortest that ESS and KVDrive measure, in tokens.
const shortContext = 32 << 10

// Limits are what a reader must know before drawing conclusions, as far as traces tell.
func (c *corpus) Limits() []string {
	var list []string
	add := func(format string, a ...any) { list = append(list, fmt.Sprintf(format, a...)) }
	for _, m := range c.models() {
		if p := parameters.FindStringSubmatch(m); p != nil {
			n, _ := strconv.ParseFloat(p[1], 64)
			if n *= map[string]float64{"M": 1e6, "B": 1e9}[p[2]]; n < smallModel {
				add("%s has %s%s parameters. The papers measure models of 3.8B parameters and more: what a cache gains on them is not known from here.", m, p[1], p[2])
			}
		}
		if q := quantised.FindString(m); q != "" {
			add("The weights of %s are quantised (%s): its attention is that of the rounded weights.", m, q)
		}
	}
	if in := c.where(func(s *source) bool { return strings.HasPrefix(s.meta.Notes["attention"], "full attention") }); in != "" {
		add("Open loop (%s): every output was computed with full attention. A system that attends to its selection alone drifts from these traces; no figure here says how its answers change.", in)
	}
	if in := c.where(func(s *source) bool { return strings.HasPrefix(s.meta.Decoding, "sampled") }); in != "" {
		add("Sampled text (%s): what is decoded is what the model says with one seed, right or wrong, and past its end of sequence where that is never chosen.", in)
	}
	var prompts, demands []int
	for _, s := range c.sources {
		demands = append(demands, s.meta.TopK*s.meta.BlockTokens)
		for i := range s.streams {
			prompts = append(prompts, int(s.streams[i].info.PromptLen))
		}
	}
	if slices.Max(prompts) < shortContext {
		add("Short contexts: prompts of %s tokens and K of %s, where the papers measure 32K to 128K and more with K of %d.", span(prompts), span(demands), essTopK)
	}
	if least, task := c.fewestRequests(); least < 5 {
		add("Few requests: %s of %s. Figures of a task are of its requests, not of the task.", plural(least, "request"), task)
	}
	if in := c.where(func(s *source) bool { return s.streams[0].info.Windows == 0 }); in != "" {
		add("No prompt windows (%s): replay starts cold.", in)
	}
	if in := c.where(func(s *source) bool { return s.meta.Order == trace.OrderIndex }); in != "" {
		add("No ranks (%s): what follows from ranks is left out there.", in)
	}
	if in := c.where(func(s *source) bool {
		return s.meta.ScoreMantissaBits != nil && *s.meta.ScoreMantissaBits < trace.DefaultMantissaBits
	}); in != "" {
		add("Rounded scores (%s): ranks are exact, scores have fewer than %d bits of mantissa.", in, trace.DefaultMantissaBits)
	}
	return list
}

// where lists the parts with a source of which is true.
func (c *corpus) where(is func(*source) bool) string {
	var parts []string
	for _, s := range c.sources {
		if is(s) {
			parts = append(parts, s.part)
		}
	}
	slices.Sort(parts)
	return and(slices.Compact(parts))
}

// fewestRequests is the task of a part with the fewest requests.
func (c *corpus) fewestRequests() (least int, task string) {
	least = 1 << 30
	for _, x := range c.sets {
		requests := map[string]map[string]bool{}
		for _, s := range x.streams {
			if requests[s.task] == nil {
				requests[s.task] = map[string]bool{}
			}
			requests[s.task][s.info.Request] = true
		}
		for _, t := range slices.Sorted(maps.Keys(requests)) {
			if n := len(requests[t]); n < least {
				least, task = n, fmt.Sprintf("%s (%s)", t, x.name)
			}
		}
	}
	return least, task
}
