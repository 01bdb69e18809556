package echo_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/echo"
	"github.com/kvreplay/kvreplay/policies/lookahead"
	"github.com/kvreplay/kvreplay/policies/lrfu"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/policies/nearlrfu"
	"github.com/kvreplay/kvreplay/policies/opt"
	"github.com/kvreplay/kvreplay/policies/s3fifo"
	"github.com/kvreplay/kvreplay/policies/sieve"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/derive"
)

var update = flag.Bool("update", false, "rewrite the tables of README.md, and constants.go")

var sizes = []string{"1.25x", "1.5x", "2x", "3x", "4x"}

// tuned names the requests on which constants were chosen, by the beginning of their ids.
var tuned = []string{"ruler-niah_multikey_1-", "ruler-niah_multiquery-", "ruler-niah_single_1-", "ruler-cwe-", "ruler-vt-", "hotpotqa_go-", "ruler-qa_1-", "repobench_go-"}

// part is a part of the committed traces. keep selects its requests.
type part struct {
	name, files string
	keep        func(request string) bool
}

func isTuned(request string) bool {
	return slices.ContainsFunc(tuned, func(task string) bool { return strings.HasPrefix(request, task) })
}

func every(string) bool { return true }

var parts = []part{
	{"wide, tuned", "corpus/wide_*", isTuned},
	{"wide, unseen", "corpus/wide_*", func(r string) bool { return !isTuned(r) }},
	{"deep, tuned", "corpus/deep_vt", every},
	{"deep, unseen", "corpus/deep_[ns]*", every},
	{"news", "bundled/smollm2_multi_news_8k", every},
	{"needle in 4K, cold", "bundled/smollm2_niah_multikey_3_4k", every},
	{"needle in 1K, no ranks", "bundled/smollm2_niah_1k_sglang", every},
	{"ahead", "corpus/ahead_*", every},
	{"selectors", "corpus/selectors_*", every},
}

// missed has the misses of a policy by request of a file, then by size.
type missed map[string][]float64

// counter replays files once per policy.
type counter struct {
	t     *testing.T
	root  string // folder of the traces
	known map[string]missed
	plans map[string]*allocate.Plan // by path
	rows  map[string][]result.Row   // by path, policy and prefetcher
}

func newCounter(t *testing.T, root string) *counter {
	return &counter{t, root, map[string]missed{}, map[string]*allocate.Plan{}, map[string][]result.Row{}}
}

// files returns the traces of a pattern.
func (c *counter) files(pattern string) []string {
	c.t.Helper()
	paths, err := filepath.Glob(filepath.Join(c.root, pattern+".parquet"))
	if err != nil || len(paths) == 0 {
		c.t.Fatalf("no traces match %s (%v)", pattern, err)
	}
	return paths
}

// count returns the misses of a policy on the files of a pattern. Without ranks, a policy that needs
// them has none. name states the policy and its setting.
func (c *counter) count(pattern, name string, replay func(path string) missed) missed {
	c.t.Helper()
	all := missed{}
	for _, path := range c.files(pattern) {
		key := path + " " + name
		if c.known[key] == nil {
			c.known[key] = replay(path)
		}
		for request, misses := range c.known[key] {
			all[path+" "+request] = misses
		}
	}
	return all
}

// of returns the misses of a policy at all sizes on the files of a pattern.
func (c *counter) of(pattern, name string, spec policies.Spec) missed {
	return c.count(pattern, name, func(path string) missed { return c.replay(path, spec) })
}

func (c *counter) replay(path string, spec policies.Spec) missed {
	c.t.Helper()
	capacities, err := replay.ParseCapacities(sizes)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.misses(path, replay.Options{Policies: []policies.Spec{spec}, Capacities: capacities, SkipUnable: true})
}

// misses returns the misses of a policy by request.
func (c *counter) misses(path string, o replay.Options) missed {
	c.t.Helper()
	o.Per = replay.PerRequest
	all := missed{}
	for _, row := range c.run(path, o) {
		all[*row.RequestID] = append(all[*row.RequestID], float64(row.Misses))
	}
	return all
}

// run replays a file. It returns no rows if the policy needs ranks that the trace lacks.
func (c *counter) run(path string, o replay.Options) []result.Row {
	c.t.Helper()
	f, err := trace.Open(path)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	o.Workers = cmp.Or(o.Workers, 2)
	r, err := replay.Run(context.Background(), f, o)
	if err != nil {
		if strings.Contains(err.Error(), "needs ranks") {
			return nil
		}
		c.t.Fatal(err)
	}
	return r.Rows
}

// closed returns the gap closed between LRU and OPT in percent: at each size, and pooled over them.
func closed(requests []string, lru, opt, of missed) (gaps []float64) {
	var least, most, own float64
	for i := range lru[requests[0]] {
		var a, b, n float64
		for _, r := range requests {
			a, b, n = a+lru[r][i], b+opt[r][i], n+of[r][i]
		}
		gaps = append(gaps, 100*(a-n)/(a-b))
		least, most, own = least+b, most+a, own+n
	}
	return append(gaps, 100*(most-own)/(most-least))
}

// pooled returns the last of the gaps.
func pooled(gaps []float64) float64 { return gaps[len(gaps)-1] }

// interval returns the 95 % interval of the pooled gap closed with some digits: percentiles of a bootstrap
// over requests, or nothing for fewer than five.
func interval(digits int, requests []string, lru, opt, of missed) string {
	if len(requests) < 5 {
		return ""
	}
	r := rand.New(rand.NewPCG(1, 1))
	var gaps []float64
	for range 2000 {
		var drawn []string
		for range requests {
			drawn = append(drawn, requests[r.IntN(len(requests))])
		}
		gaps = append(gaps, pooled(closed(drawn, lru, opt, of)))
	}
	slices.Sort(gaps)
	return fmt.Sprintf(" [%.*f, %.*f]", digits, gaps[50], digits, gaps[1949])
}

// requestsOf lists the requests of a part.
func requestsOf(p *part, all missed) (requests []string) {
	for key := range all {
		if _, request, _ := strings.Cut(key, " "); p.keep(request) {
			requests = append(requests, key)
		}
	}
	slices.Sort(requests)
	return requests
}

type contender struct {
	name string
	spec policies.Spec
}

func contenders(t *testing.T) (list []contender) {
	for _, name := range []string{"lookahead", "s3-fifo", "near-lrfu", "lrfu", "near-lrfu:gamma=0.9", "echo:calibrate=off", "echo:calibrate=sample", "echo", "echo:calibrate=trees"} {
		list = append(list, contender{name, named(t, name)})
	}
	return list
}

// table has all policies of the README. Replays of it share their fingerprints.
var table = policies.NewTable(lookahead.Entry, s3fifo.Entry, nearlrfu.Entry, lrfu.Entry, echo.Entry, lru.Entry, opt.Entry, sieve.Entry)

// named returns a policy of the table.
func named(t *testing.T, name string) policies.Spec {
	t.Helper()
	spec, err := table.Parse(name)
	fatal.If(t, err)
	return spec
}

// digest has that of the README's tables and of the same tables for excerpts.
const digest = "testdata/short.sha256"

// The tables and the counts of the README are those of the committed traces. They take three minutes of a
// processor, so only -update makes them. Otherwise tables of excerpts tell whether figures changed.
func TestREADME(t *testing.T) {
	if testing.Short() {
		t.Skip("replays excerpts of the corpus with each variant of the rule")
	}
	short := newCounter(t, excerpts(t)).tables(1, 16)
	text, err := os.ReadFile("README.md")
	fatal.If(t, err)
	got, sum := string(text), sha256.New()
	var all map[string]string
	if *update {
		all = newCounter(t, committed).tables(8, 128)
	}
	for _, name := range slices.Sorted(maps.Keys(short)) {
		begin, end := "<!-- "+name+": go test ./policies/echo -run README -update rewrites it -->\n", "<!-- end of "+name+" -->"
		before, rest, ok1 := strings.Cut(got, begin)
		table, after, ok2 := strings.Cut(rest, end)
		if !ok1 || !ok2 {
			t.Fatalf("README.md has lost the marks of its %s", name)
		}
		if *update {
			table = all[name]
		}
		got = before + begin + table + end + after
		fmt.Fprintf(sum, "%s\n%s\n%s\n", name, table, short[name])
	}
	now := fmt.Sprintf("%x\n", sum.Sum(nil))
	if *update {
		fatal.If(t, os.WriteFile(digest, []byte(now), 0o644))
	}
	if have, err := os.ReadFile(digest); err != nil || string(have) != now {
		t.Fatalf("README.md has tables of another rule than excerpts (%v): go test ./policies/echo -run README -update", err)
	}
	if got != string(text) {
		fatal.If(t, os.WriteFile("README.md", []byte(got), 0o644))
	}
}

// committed is the folder of the committed traces.
const committed = "../../datasets"

// excerpts writes 16 steps, the prompt windows too, of the first and the last layer of each trace, and returns their folder.
func excerpts(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for i := range parts {
		paths, err := filepath.Glob(filepath.Join(committed, parts[i].files+".parquet"))
		fatal.If(t, err)
		for _, path := range paths {
			f, err := trace.Open(path)
			fatal.If(t, err)
			streams := f.Streams()
			o := derive.Options{Layers: []int32{streams[0].Layer, streams[len(streams)-1].Layer}, Steps: &derive.Steps{From: -32, To: 16}}
			fatal.If(t, f.Close())
			to := filepath.Join(folder, strings.TrimPrefix(path, committed))
			fatal.If(t, os.MkdirAll(filepath.Dir(to), 0o755))
			if _, err := os.Stat(to); err == nil {
				continue // of another part too
			}
			_, err = derive.Derive(t.Context(), path, to, o)
			fatal.If(t, err)
		}
	}
	return folder
}

// tables returns the tables of the README by name. Synthetic traces have the given layers and steps.
func (c *counter) tables(layers, steps int) map[string]string {
	return map[string]string{"gaps": c.gaps(), "tasks": c.tasks(), "fine": c.beyond("echo:calibrate=fine"), "trees": c.beyond("echo:calibrate=trees"), "ablation": c.ablation(), "cells": c.cells(), "settings": c.settings(), "contexts": c.contexts(layers, steps), "prefetch": c.prefetches(), "times": c.prefetchTimes(), "server": c.server()}
}

// rewrite writes a file that is out of date. Without -update it ends the test.
func rewrite(t *testing.T, path, text, test string) {
	t.Helper()
	if !*update {
		t.Fatalf("%s is out of date: go test ./policies/echo -run %s -update", path, test)
	}
	fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
}

// gaps returns the table of the gap closed by part, policy and size.
func (c *counter) gaps() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| traces | policy | %s | pooled |\n|---|---|%s---:|\n", strings.Join(sizes, " | "), strings.Repeat("---:|", len(sizes)))
	for i := range parts {
		p := &parts[i]
		least, most := c.of(p.files, "opt", named(c.t, "opt")), c.of(p.files, "lru", named(c.t, "lru"))
		requests := requestsOf(p, most)
		title := fmt.Sprintf("%s (%d)", p.name, len(requests))
		for _, policy := range contenders(c.t) {
			of := c.of(p.files, policy.name, policy.spec)
			if len(of) == 0 {
				continue
			}
			gaps := closed(requests, most, least, of)
			fmt.Fprintf(&b, "| %s | %s |", title, policy.name)
			for _, gap := range gaps[:len(sizes)] {
				fmt.Fprintf(&b, " %.1f |", gap)
			}
			fmt.Fprintf(&b, " %.1f%s |\n", gaps[len(sizes)], interval(0, requests, most, least, of))
			title = ""
		}
	}
	return b.String()
}

// tasks returns the table of the gap closed by task, pooled over sizes.
func (c *counter) tasks() string {
	taskOf := func(key string) string { // the request's id without its number and length
		_, request, _ := strings.Cut(key, " ")
		return strings.TrimPrefix(request[:strings.LastIndex(request, "-")], "ruler-")
	}
	var b strings.Builder
	b.WriteString("| task | constants | lrfu | near-lrfu | echo:calibrate=off | echo | echo:calibrate=trees |\n|---|---|---:|---:|---:|---:|---:|\n")
	for _, p := range []part{parts[0], parts[1], parts[2], parts[3]} {
		least, most := c.of(p.files, "opt", named(c.t, "opt")), c.of(p.files, "lru", named(c.t, "lru"))
		byTask := map[string][]string{}
		for _, r := range requestsOf(&p, most) {
			byTask[taskOf(r)] = append(byTask[taskOf(r)], r)
		}
		var names []string
		for name := range byTask {
			names = append(names, name)
		}
		slices.Sort(names)
		_, split, _ := strings.Cut(p.name, ", ")
		for _, name := range names {
			fmt.Fprintf(&b, "| %s | %s |", name, split)
			for _, of := range []string{"lrfu", "near-lrfu", "echo:calibrate=off", "echo", "echo:calibrate=trees"} {
				fmt.Fprintf(&b, " %.1f |", closed(byTask[name], most, least, c.of(p.files, of, named(c.t, of)))[len(sizes)])
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// beyond returns the table of the points of the gap that a policy closes beyond the default.
func (c *counter) beyond(policy string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| traces | %s | pooled |\n|---|%s---:|\n", strings.Join(sizes, " | "), strings.Repeat("---:|", len(sizes)))
	for i := range parts {
		p := &parts[i]
		least, most := c.of(p.files, "opt", named(c.t, "opt")), c.of(p.files, "lru", named(c.t, "lru"))
		without, with := c.of(p.files, "echo", named(c.t, "echo")), c.of(p.files, policy, named(c.t, policy))
		more := missed{} // as much less than LRU as the policy misses less than the default
		for r, misses := range most {
			for j := range misses {
				more[r] = append(more[r], misses[j]-without[r][j]+with[r][j])
			}
		}
		requests := requestsOf(p, most)
		fmt.Fprintf(&b, "| %s (%d) |", p.name, len(requests))
		gaps := closed(requests, most, least, more)
		for _, gap := range gaps[:len(sizes)] {
			fmt.Fprintf(&b, " %+.1f |", gap)
		}
		fmt.Fprintf(&b, " %+.1f%s |\n", pooled(gaps), interval(1, requests, most, least, more))
	}
	return b.String()
}

// ablated are the parts of the ablation. They leave out the largest trace, to save time.
var ablated = []part{parts[0], parts[1], parts[2], {"deep, unseen", "corpus/deep_summary_go", every}, parts[4], parts[7]}

// ablation returns the table of the gap closed by variants of the rule, pooled over sizes.
func (c *counter) ablation() string {
	var b strings.Builder
	b.WriteString("| variant |")
	for _, p := range ablated {
		fmt.Fprintf(&b, " %s |", p.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(ablated)) + "\n")
	for n, variant := range echo.Ablations {
		spec := echo.Ablation(n)
		fmt.Fprintf(&b, "| %s |", variant.Name)
		for i := range ablated {
			p := &ablated[i]
			least, most := c.of(p.files, "opt", named(c.t, "opt")), c.of(p.files, "lru", named(c.t, "lru"))
			gaps := closed(requestsOf(p, most), most, least, c.of(p.files, "ablation "+variant.Name, spec))
			fmt.Fprintf(&b, " %.1f |", gaps[len(sizes)])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// cells returns a sentence on the cells of the corpus, each a request at a size, in which echo has the
// fewest misses.
func (c *counter) cells() string {
	all, best := 0, 0
	var worst float64
	for _, p := range []part{parts[0], parts[1], parts[2], parts[3]} {
		own := c.of(p.files, "echo", named(c.t, "echo"))
		for _, r := range requestsOf(&p, own) {
			for i := range sizes {
				least := c.of(p.files, "lru", named(c.t, "lru"))[r][i]
				for _, policy := range contenders(c.t)[:5] {
					least = min(least, c.of(p.files, policy.name, policy.spec)[r][i])
				}
				all++
				if own[r][i] < least {
					best++
				}
				worst = max(worst, own[r][i]/cmp.Or(least, 1))
			}
		}
	}
	return fmt.Sprintf("The wide and deep traces have %d cells, each a request at a size. In %d of them echo misses less than LRU and each of the five policies above. In the worst cell it misses %.3f times as much as the best of them.\n", all, best, worst)
}
