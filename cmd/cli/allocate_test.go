package cli_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// profileOf replays a whole curve for each stream and returns the folder.
func profileOf(t *testing.T, args ...string) string {
	t.Helper()
	out := t.TempDir()
	must(t, append(append([]string{"replay"}, args...), "--per", "stream", "--out", out)...)
	return out
}

// allocated returns the output of `allocate --format json`.
func allocated(t *testing.T, args ...string) []allocate.Report {
	t.Helper()
	var reports []allocate.Report
	fatal.If(t, json.Unmarshal([]byte(must(t, append(append([]string{"allocate"}, args...), "--format", "json")...)), &reports))
	return reports
}

// missesOf replays each layer of a trace at its own size. A layer has one selection.
func missesOf(t *testing.T, path string, sizes []allocate.SizeReport) (misses int64) {
	t.Helper()
	for _, s := range sizes {
		out := filepath.Join(t.TempDir(), "rows")
		must(t, "replay", path, "--policy", "lru", "--layers", fmt.Sprint(s.Layer), "--capacity", fmt.Sprint(s.Size), "--out", out)
		rows, err := result.ReadRows(out)
		if err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		misses += rows[0].Misses
	}
	return misses
}

// Predictions for a real trace equal the counts of a replay of the plan: exactly at profiled sizes,
// and nearly between them. 2D moves less than uniform there.
func TestAllocatePredictsReplays(t *testing.T) {
	profile := profileOf(t, newsTrace, "--policy", "lru", "--capacity", "sweep")
	for _, r := range allocated(t, profile, "--memory", "2x", "--method", "all") {
		counted := missesOf(t, newsTrace, r.Sizes)
		off := float64(r.Profile.Plan.Misses)/float64(counted) - 1
		switch r.Method {
		case "2d-greedy", "2d-exact", "layer", "uniform":
			if off != 0 {
				t.Errorf("%s: %d misses predicted, %d counted", r.Method, r.Profile.Plan.Misses, counted)
			}
		default:
			if off < -0.002 || off > 0.002 {
				t.Errorf("%s: %d misses predicted, %d counted", r.Method, r.Profile.Plan.Misses, counted)
			}
		}
		if strings.HasPrefix(r.Method, "2d") && *r.Profile.Ratio >= 1 {
			t.Errorf("%s moves %v of uniform", r.Method, *r.Profile.Ratio)
		}
	}
	odd := allocated(t, profile, "--memory", "1.87x", "--method", "uniform")[0]
	if counted := missesOf(t, newsTrace, odd.Sizes); odd.Sizes[0].Size != 478 || odd.Profile.Plan.Misses < counted*998/1000 || odd.Profile.Plan.Misses > counted*1002/1000 {
		t.Errorf("uniform 478 entries: %d misses predicted, %d counted", odd.Profile.Plan.Misses, counted)
	}
}

// A plan that is written, read and judged on other requests gives the result of judging it at once.
// Halves of a real trace stand for requests.
func TestAllocateJudges(t *testing.T) {
	dir := t.TempDir()
	early, late, plan := filepath.Join(dir, "early.parquet"), filepath.Join(dir, "late.parquet"), filepath.Join(dir, "plan.yaml")
	must(t, "derive", newsTrace, "-o", early, "--steps", ":48")
	must(t, "derive", newsTrace, "-o", late, "--steps", "48:")
	for _, c := range []struct {
		policy string
		memory string
		replay []string
	}{{"lru", "2x", []string{"--policy", "lru", "--capacity", "sweep:32"}}, {"window", "window:3", []string{"--policy", "window:0-8"}}} {
		rows := profileOf(t, append([]string{early, late, "--warmup", "cold"}, c.replay...)...)
		made := allocated(t, rows, "--policy", c.policy, "--memory", c.memory, "--judge", "late.parquet")[0]
		must(t, "allocate", rows, "--policy", c.policy, "--memory", c.memory, "--requests", "early*", "-o", plan)
		judged := allocated(t, rows, "--plan", plan, "--requests", "late.parquet")[0]
		if judged.Profile != nil || judged.Digest != made.Digest || judged.Judge.Plan.Misses != made.Judge.Plan.Misses || *judged.Judge.Ratio != *made.Judge.Ratio {
			t.Errorf("%s: %+v, judged at once %+v", c.policy, judged.Judge, made.Judge)
		}
		if len(made.Judge.Requests) != 1 || made.Judge.Requests[0].Trace != "late.parquet" || made.Judge.Steps != 48 || *made.Judge.Ratio >= 1 || *made.Profile.Ratio >= 1 {
			t.Errorf("%s: judged %+v", c.policy, made.Judge)
		}
	}
}

// headTrace has 3 layers of 4 heads, whose demand drifts at very different speeds.
func headTrace(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "heads.parquet")
	o := replaytest.Options{Prompt: 600, Steps: 60, M: 16}
	w, err := trace.Create(path, o.Meta(16))
	fatal.If(t, err)
	for request := range 3 {
		for layer := range int32(3) {
			for head := range int32(4) {
				o.Locality = []float64{0.5, 0.9, 0.97, 0.999}[(head+layer)%4]
				s := replaytest.Stream(rand.New(rand.NewPCG(uint64(request), uint64(10*layer+head))), o)
				s.Request, s.Layer, s.Head = fmt.Sprintf("r%d", request), layer, head
				fatal.If(t, w.Write(s))
			}
		}
	}
	fatal.If(t, w.Close())
	return path
}

// If heads differ and layers do not, dividing by head gains and dividing by layer does not. The
// gain holds on requests that were not profiled.
func TestAllocateHeads(t *testing.T) {
	rows := profileOf(t, headTrace(t), "--policy", "lru", "--capacity", "sweep")
	ratios := map[string][2]float64{}
	for _, r := range allocated(t, rows, "--memory", "3x", "--method", "all", "--judge", "r2") {
		name, _, _ := strings.Cut(r.Method, ":")
		ratios[name] = [2]float64{*r.Profile.Ratio, *r.Judge.Ratio}
		if len(r.Sizes) != 12 || r.Sizes[5].Head == nil || *r.Sizes[5].Head != 1 || len(r.Layers) != 3 || r.Layers[0].Heads != 4 {
			t.Errorf("%s: %+v", name, r.Sizes)
		}
	}
	for i, of := range []string{"profiled", "judged"} {
		if ratios["2d-greedy"][i] > 0.985 || ratios["head"][i] > 0.985 || ratios["layer"][i] < 0.995 || ratios["adakv"][i] < ratios["head"][i] || ratios["adakv"][i] > 0.99 {
			t.Errorf("%s: %v", of, ratios)
		}
	}
	if ratios["2d-exact"][0] > ratios["2d-greedy"][0] {
		t.Errorf("exact is worse than greedy: %v", ratios)
	}
}

// The plan's bytes do not depend on the runs that made the rows.
func TestPlansAreReproducible(t *testing.T) {
	tracePath, dir := headTrace(t), t.TempDir()
	var first []byte
	for i, args := range [][]string{{"--parallel", "1", "--capacity", "sweep:8"}, {"--parallel", "7", "--capacity", "sweep:8"}, {"--capacity", "12x,1x,2x,8x,1.5x,3x,6x,4x"}} {
		plan := filepath.Join(dir, fmt.Sprint(i))
		must(t, "allocate", profileOf(t, append([]string{tracePath, "--policy", "lru"}, args...)...), "--memory", "2x", "-o", plan)
		text, err := os.ReadFile(plan)
		fatal.If(t, err)
		if first == nil {
			first = text
		}
		if string(text) != string(first) {
			t.Errorf("%v:\n%s\nwant\n%s", args, text, first)
		}
	}
}

// Errors state the fault and a remedy, and no plan is written.
func TestAllocateErrors(t *testing.T) {
	path := smallTrace(t, small)
	sweep := profileOf(t, path, "--policy", "lru", "--policy", "window:0-4", "--capacity", "sweep:8")
	pooled := t.TempDir()
	must(t, "replay", path, "--policy", "lru", "--capacity", "sweep:8", "--per", "layer", "--out", pooled)
	single := profileOf(t, path, "--policy", "lru", "--capacity", "2x")
	cold := profileOf(t, path, "--policy", "lru", "--capacity", "sweep:8", "--warmup", "cold")
	layer := profileOf(t, path, "--policy", "lru", "--capacity", "sweep:8", "--layers", "1")
	dir := t.TempDir()
	plan, bad := filepath.Join(dir, "plan.yaml"), filepath.Join(dir, "bad.yaml")
	must(t, "allocate", layer, "--memory", "2x", "-o", plan)
	fatal.If(t, os.WriteFile(bad, []byte("schema: 1\nfamily: capacity\nmemory: [\n"), 0o644))
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no rows":           {[]string{}, 2, "ROWS missing"},
		"no memory":         {[]string{sweep}, 2, "--memory 2x"},
		"no folder":         {[]string{filepath.Join(dir, "none"), "--memory", "2x"}, 1, "no such file"},
		"two policies":      {[]string{sweep, "--memory", "2x"}, 1, "choose one with --policy: lru, window"},
		"unknown policy":    {[]string{sweep, "--memory", "2x", "--policy", "lr"}, 1, "did you mean lru?"},
		"unknown method":    {[]string{sweep, "--memory", "2x", "--method", "2d-gredy"}, 2, "did you mean 2d-greedy?"},
		"method's option":   {[]string{sweep, "--memory", "2x", "--method", "adakv:alpha=7"}, 2, "not between 0 and 1"},
		"pooled":            {[]string{pooled, "--memory", "2x"}, 1, "replay with --per stream"},
		"one capacity":      {[]string{single, "--memory", "2x"}, 1, "a curve needs 2: replay with --capacity sweep"},
		"cold and warmed":   {[]string{sweep, cold, "--policy", "lru", "--memory", "2x"}, 1, "choose with --where, as in --where warmup="},
		"below the floor":   {[]string{cold, "--memory", "0.5x"}, 1, "are too few"},
		"memory":            {[]string{cold, "--memory", "lots"}, 2, `size "lots"`},
		"bytes":             {[]string{cold, "--memory", "1KiB"}, 1, "--entry-bytes"},
		"context":           {[]string{cold, "--memory", "0.2ctx"}, 1, "--capacity sweep,0.2ctx"},
		"unknown request":   {[]string{cold, "--memory", "2x", "--judge", "q"}, 1, `no rows of request "q"`},
		"nothing to judge":  {[]string{cold, "--memory", "2x", "--judge", "*"}, 1, "no request is left"},
		"floor nonsense":    {[]string{cold, "--memory", "2x", "--floor", "x"}, 2, `floor "x": expected 1x or entries`},
		"floor in bytes":    {[]string{cold, "--memory", "2x", "--floor", "1KiB"}, 2, "expected 1x or entries"},
		"memory NaN":        {[]string{cold, "--memory", "NaN"}, 2, `memory: size "NaN"`},
		"floor":             {[]string{cold, "--memory", "2x", "--floor", "window:1"}, 1, "floor"},
		"cost":              {[]string{cold, "--memory", "2x", "--cost", "median"}, 2, "mean or peak"},
		"format":            {[]string{cold, "--memory", "2x", "--format", "yaml"}, 2, "table or json"},
		"-o and methods":    {[]string{cold, "--memory", "2x", "--method", "all", "-o", bad}, 2, "-o writes the plan of one method"},
		"no such folder":    {[]string{cold, "--memory", "2x", "-o", filepath.Join(dir, "no", "plan.yaml")}, 1, "cannot write "},
		"plan of a layer":   {[]string{cold, "--plan", plan}, 1, "the plan lacks layer 0: it has layers 1"},
		"no such plan":      {[]string{cold, "--plan", filepath.Join(dir, "none.yaml")}, 1, "none.yaml"},
		"a broken plan":     {[]string{cold, "--plan", bad}, 1, "bad.yaml"},
		"plan and memory":   {[]string{cold, "--plan", plan, "--memory", "2x"}, 2, "--memory has no effect with --plan"},
		"where":             {[]string{cold, "--memory", "2x", "--where", "head=3"}, 1, "--where"},
		"windows' capacity": {[]string{sweep, "--policy", "window", "--memory", "window:9"}, 1, "expected 0 to 4"},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := os.ReadDir(dir)
			fatal.If(t, err)
			fails(t, c.code, c.want, append([]string{"allocate"}, c.args...)...)
			if after, err := os.ReadDir(dir); err != nil || len(after) != len(before) {
				t.Errorf("files %v, %v, before %v", after, err, before)
			}
		})
	}
}
