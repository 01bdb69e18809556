package echo_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/datasets/synthetic"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// change changes the options of a replay of the trace at path.
type change struct {
	name, capacity string
	make           func(c *counter, path string, o *replay.Options)
}

// changes are settings of replays of the wide traces. Larger blocks need larger caches: the demands of 256
// entries touch most of the context.
var changes = []change{
	{"one cache per stream", "2x", func(*counter, string, *replay.Options) {}},
	{"a pool of each request", "2x", func(_ *counter, _ string, o *replay.Options) { o.Pool = replay.PoolRequest }},
	{"2D allocation", "2x", func(c *counter, path string, o *replay.Options) { o.Allocation, o.Capacities = c.plan(path), nil }},
	{"warm-up by importance", "2x", func(_ *counter, _ string, o *replay.Options) {
		o.Warmup = setting.Warmup{Kind: setting.WarmupImportance, Windows: 32}
	}},
	{"no warm-up", "2x", func(_ *counter, _ string, o *replay.Options) { o.Warmup = setting.Warmup{Kind: setting.WarmupCold} }},
	{"blocks of 16 tokens", "0.6ctx", func(_ *counter, _ string, o *replay.Options) { o.Shape.BlockTokens = 16 }},
	{"blocks of 64 tokens", "0.8ctx", func(_ *counter, _ string, o *replay.Options) { o.Shape.BlockTokens = 64 }},
}

// plan divides 2 × K entries per stream among the layers of a trace, by the curves of LRU on the tuned
// requests.
func (c *counter) plan(path string) *allocate.Plan {
	c.t.Helper()
	if c.plans[path] != nil {
		return c.plans[path]
	}
	curves, err := replay.ParseCapacities([]string{"sweep:16"})
	if err != nil {
		c.t.Fatal(err)
	}
	rows := c.run(path, replay.Options{Policies: []policies.Spec{named(c.t, "lru")}, Capacities: curves, Per: replay.PerStream})
	var requests []string
	for _, row := range rows {
		if isTuned(*row.RequestID) && !slices.Contains(requests, *row.RequestID) {
			requests = append(requests, *row.RequestID)
		}
	}
	method, err := allocate.ParseMethod("2d-greedy")
	if err != nil {
		c.t.Fatal(err)
	}
	reports, err := allocate.Run(rows, allocate.Options{Methods: []allocate.Spec{method}, Memory: "2x", Requests: requests})
	if err != nil {
		c.t.Fatal(err)
	}
	c.plans[path] = reports[0].Plan
	return c.plans[path]
}

// settings returns the table of the gap closed on the wide traces in other settings.
func (c *counter) settings() string {
	list := append(slices.Clone(contenders(c.t)), contender{"lru", named(c.t, "lru")}, contender{"opt", named(c.t, "opt")})
	var b strings.Builder
	b.WriteString("| setting | capacity | tasks | lru | opt | echo | lrfu | near-lrfu:gamma=0.9 | echo:calibrate=sample | echo |\n|---|---|---|---:|---:|---:|---:|---:|---:|---:|\n")
	first := map[string]float64{}
	for _, change := range changes {
		capacities, err := replay.ParseCapacities([]string{change.capacity})
		if err != nil {
			c.t.Fatal(err)
		}
		all := map[string]missed{}
		for _, name := range []string{"lru", "opt", "lrfu", "near-lrfu:gamma=0.9", "echo:calibrate=sample", "echo"} {
			i := slices.IndexFunc(list, func(x contender) bool { return x.name == name })
			all[name] = c.count("corpus/wide_*", change.name+" "+name, func(path string) missed {
				o := replay.Options{Policies: []policies.Spec{list[i].spec}, Capacities: capacities}
				change.make(c, path, &o)
				return c.misses(path, o)
			})
		}
		title, capacity := change.name, change.capacity
		for _, p := range parts[:2] {
			requests := requestsOf(&p, all["lru"])
			_, split, _ := strings.Cut(p.name, ", ")
			fmt.Fprintf(&b, "| %s | %s | %s |", title, capacity, split)
			title, capacity = "", ""
			for _, name := range []string{"lru", "opt", "echo"} {
				sum := 0.0
				for _, r := range requests {
					sum += all[name][r][0]
				}
				if key := split + name + change.capacity; first[key] == 0 {
					first[key] = sum
				}
				fmt.Fprintf(&b, " %.3f |", sum/first[split+name+change.capacity])
			}
			for _, name := range []string{"lrfu", "near-lrfu:gamma=0.9", "echo:calibrate=sample"} {
				fmt.Fprintf(&b, " %.1f |", closed(requests, all["lru"], all["opt"], all[name])[0])
			}
			fmt.Fprintf(&b, " %.1f%s |\n", closed(requests, all["lru"], all["opt"], all["echo"])[0], interval(0, requests, all["lru"], all["opt"], all["echo"]))
		}
	}
	return b.String()
}

// contexts returns the table of the gap closed on synthetic traces with K = 2048.
func (c *counter) contexts(layers, steps int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| preset | policy | %s | pooled |\n|---|---|%s---:|\n", strings.Join(sizes, " | "), strings.Repeat("---:|", len(sizes)))
	for _, preset := range []string{"deepseek-v3.2-32k", "deepseek-v3.2-128k"} {
		d, err := synthetic.Preset(preset)
		if err != nil {
			c.t.Fatal(err)
		}
		d.SetLayers(layers)
		d.Steps = steps
		path := filepath.Join(c.t.TempDir(), preset+".parquet")
		if err := synthetic.Write(context.Background(), path, d, synthetic.Options{}); err != nil {
			c.t.Fatal(err)
		}
		least, most := c.replay(path, named(c.t, "opt")), c.replay(path, named(c.t, "lru"))
		var requests []string
		for r := range most {
			requests = append(requests, r)
		}
		title := preset
		for _, policy := range append([]contender{{"sieve", named(c.t, "sieve")}}, contenders(c.t)...) {
			gaps := closed(requests, most, least, c.replay(path, policy.spec))
			fmt.Fprintf(&b, "| %s | %s |", title, policy.name)
			for _, gap := range gaps {
				fmt.Fprintf(&b, " %.1f |", gap)
			}
			b.WriteByte('\n')
			title = ""
		}
	}
	return b.String()
}
