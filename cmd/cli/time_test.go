package cli_test

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// profiled replays a bundled trace with LRU and lookahead and returns the folder.
func profiled(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "results")
	code, _, stderr := run("replay", "../../datasets/bundled/smollm2_multi_news_8k.parquet", "--policy", "lru", "--policy", "lookahead", "--capacity", "2x", "--out", out, "--profile")
	if code != 0 {
		t.Fatal(stderr)
	}
	return out
}

func TestTime(t *testing.T) {
	out := profiled(t)
	deepseek := []string{"time", out, "--policy", "lru", "--hardware", "h100", "--model", "deepseek-v3.2", "--batch", "64", "--schedule", "dba", "--layer-map", "stretch"}
	code, stdout, stderr := run(deepseek...)
	if code != 0 {
		t.Fatal(stderr)
	}
	for _, want := range []string{"deepseek-v3.2 on h100, batch 64, dba:phi=0.5,delta_us=0, lru @ 2x", "p50", "TPOT", "of it fetch", "GPU memory", "note: scaled: layer map stretch", "not scaled: the profile's K is 256"} {
		if !strings.Contains(unbroken(stdout), want) {
			t.Errorf("the output lacks %q:\n%s", want, stdout)
		}
	}
	code, stdout, stderr = run("time", out, "--policy", "lru", "--layer-map", "nearest", "--hardware", "all", "--schedule", "kvpr:order=column,batches=2,da", "--batch", "4", "--format", "csv")
	if code != 0 {
		t.Fatal(stderr)
	}
	rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	fatal.If(t, err)
	if len(rows) < 21 || len(rows)%2 != 1 || !strings.HasPrefix(rows[1][2], "kvpr:order=column,batches=2,weights=gpu,") || rows[2][2] != "da" {
		t.Errorf("%d rows, the first two with schedules %s and %s", len(rows), rows[1][2], rows[2][2])
	}
	step := filepath.Join(t.TempDir(), "step.json")
	if code, _, stderr = run("time", out, "--policy", "lookahead", "--layer-map", "nearest", "--timeline", step, "--format", "json"); code != 0 {
		t.Fatal(stderr)
	}
	events, err := os.ReadFile(step)
	if err != nil || !json.Valid(events) {
		t.Errorf("the timeline is no JSON: %v", err)
	}
}

// Without a profile: Table 2 of KVPR at batch 32, at the bundled machine's rates. The bytes by hand
// are the weights of a layer, 12·h² and 9·h of biases, and K and V of 257 to 319 positions.
func TestTimeDecoding(t *testing.T) {
	code, stdout, stderr := run("time", "--prompt", "256", "--generate", "64", "--model", "opt-6.7b", "--hardware", "a100-40", "--batch", "32",
		"--schedule", "flexgen:weights=host,kvpr:order=column,weights=host,load=fine,kvpr:order=column,weights=host,load=fine,kv=int4,x=int4", "--format", "json")
	if code != 0 {
		t.Fatal(stderr)
	}
	var results []struct {
		Steps  int     `json:"steps"`
		H2D    float64 `json:"h2d_bytes_per_step"`
		Tokens float64 `json:"tokens_per_s_gpu"`
	}
	if err := json.Unmarshal([]byte(stdout), &results); err != nil || len(results) != 3 {
		t.Fatalf("%d results: %v", len(results), err)
	}
	const h, layers = 4096, 32
	flexgen := results[0]
	if want := float64(layers * (2*(12*h*h+9*h) + 32*288*4*h)); flexgen.Steps != 63 || flexgen.H2D != want {
		t.Errorf("%d steps of %g B, expected 63 of %g", flexgen.Steps, flexgen.H2D, want)
	}
	if kvpr, packed := results[1], results[2]; kvpr.Tokens <= flexgen.Tokens || packed.Tokens <= kvpr.Tokens || packed.H2D >= kvpr.H2D {
		t.Errorf("tokens/s %g with FlexGen, %g with KVPR, %g with 4 bits", flexgen.Tokens, kvpr.Tokens, packed.Tokens)
	}
	base := []string{"time", "--prompt", "256", "--generate", "64", "--model", "opt-6.7b", "--schedule", "kvpr"}
	with := func(more ...string) []string { return append(base[:len(base):len(base)], more...) }
	for want, args := range map[string][]string{
		"replace a profile: remove them or results":            with("results"),
		"expected at least 1 and 2 tokens":                     with("--generate", "1"),
		"needs a profile":                                      with("--layer-map", "nearest"),
		"--seed needs a profile":                               with("--seed", "3"),
		"--static, --prefill-chunk and --prefill-overlap need": {"time", "results", "--static"},
		"choose among kvpr, flexgen":                           with("--schedule", "da"),
		"expected at most 1073741824":                          with("--generate", "2000000000"),
		"a prompt of 9000000000000000000":                      with("--prompt", "9000000000000000000"),
		"need a --model":                                       {"time", "--prompt", "256", "--generate", "64", "--schedule", "kvpr"},
		"known: bloom":                                         with("--model", "opt"),
		"load=fine needs weights=host":                         with("--schedule", "kvpr:load=fine"),
		"it quantises FP16 keys and values, but deepseek-v3.2 caches other entries": with("--model", "deepseek-v3.2", "--schedule", "flexgen:kv=int4"),
		"kv=int8 is none of fp16, int4":                                             with("--schedule", "flexgen:kv=int8"),
	} {
		code, _, stderr := run(args...)
		if code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %q, expected %q", args, code, stderr, want)
		}
	}
}

// Described requests are no policy. They have a column of their own, and a title.
func TestTimeNamesRequests(t *testing.T) {
	args := []string{"time", "--prompt", "256", "--generate", "64", "--model", "opt-6.7b", "--schedule", "dense"}
	code, stdout, stderr := run(append(args, "--format", "csv")...)
	lines, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	if code != 0 || err != nil || len(lines) != 2 {
		t.Fatalf("exit code %d, %d lines, %v: %s", code, len(lines), err, stderr)
	}
	for column, want := range map[string]string{"policy": "", "capacity": "", "requests": "prompt 256, generate 64"} {
		if got := lines[1][slices.Index(lines[0], column)]; got != want {
			t.Errorf("column %s is %q, expected %q", column, got, want)
		}
	}
	if _, stdout, _ = run(args...); !strings.Contains(stdout, "batch 1, dense, prompt 256, generate 64\n") {
		t.Errorf("the title does not state the requests:\n%s", stdout)
	}
}

// A terminal shows how many of the steps are priced.
func TestTimeShowsProgress(t *testing.T) {
	code, text := atTerminal(t, "time", "--prompt", "256", "--generate", "64", "--model", "opt-6.7b", "--schedule", "dense", "--steps", "2000")
	if code != 0 || !strings.Contains(text, "dense on h100") || !strings.Contains(text, "(0/2000") {
		t.Errorf("exit code %d, no bar of 2000 steps in %q", code, text)
	}
}

// With a tier, the SSD is read. Reads ahead and direct reads take less of the step.
func TestTimeOfAnSSD(t *testing.T) {
	out := filepath.Join(t.TempDir(), "results")
	code, _, stderr := run("replay", "../../datasets/bundled/smollm2_multi_news_8k.parquet", "--policy", "lru", "--capacity", "2x", "--tier", "dram=lru@4x", "--out", out, "--profile")
	if code != 0 {
		t.Fatal(stderr)
	}
	var means []float64
	for _, extra := range [][]string{nil, {"--gpudirect"}, {"--read-ahead", "1"}, {"--read-ahead", "1", "--gpudirect"}} {
		args := append([]string{"time", out, "--hardware", "l40s", "--layer-map", "nearest", "--schedule", "sequential", "--format", "json"}, extra...)
		code, stdout, stderr := run(args...)
		if code != 0 {
			t.Fatal(stderr)
		}
		var results []struct {
			Mean float64 `json:"step_mean_s"`
		}
		fatal.If(t, json.Unmarshal([]byte(stdout), &results))
		means = append(means, results[0].Mean)
	}
	if one := min(means[1], means[2]); max(means[1], means[2]) >= means[0] || means[3] >= one {
		t.Errorf("a step takes %g s, direct %g, ahead %g, both %g", means[0], means[1], means[2], means[3])
	}
	says(t, 1, "replay with --profile-indices", "time", out, "--hardware", "l40s", "--layer-map", "nearest", "--extent", "4")
	says(t, 1, "h100 has no gpudirect rate", "time", out, "--hardware", "h100", "--layer-map", "nearest", "--gpudirect")
}

// Extents reach the timeline: larger ones need fewer reads of more bytes, and the order on the SSD
// decides which blocks are adjacent. A step differs from the one before in its reads.
func TestTimeOfExtents(t *testing.T) {
	out, traced := filepath.Join(t.TempDir(), "results"), "../../datasets/bundled/smollm2_multi_news_8k.parquet"
	code, _, stderr := run("replay", traced, "--policy", "lru", "--capacity", "1x", "--tier", "dram=lru@2x", "--out", out, "--profile", "--profile-indices")
	if code != 0 {
		t.Fatal(stderr)
	}
	args := []string{"time", out, "--hardware", "l40s", "--layer-map", "nearest", "--schedule", "sequential"}
	type priced struct {
		Mean  float64 `json:"step_mean_s"`
		P50   float64 `json:"step_p50_s"`
		P99   float64 `json:"step_p99_s"`
		SSD   float64 `json:"ssd_bytes_per_step"`
		Reads float64 `json:"ssd_reads_per_step"`
	}
	with := func(more ...string) priced {
		return decoded[[]priced](t, slices.Concat(args, more, []string{"--format", "json"})...)[0]
	}
	blocks, one, four, token := with(), with("--extent", "1"), with("--extent", "4"), with("--ssd-order", "token")
	if !(blocks.Reads > one.Reads && one.Reads > four.Reads) || blocks.SSD != one.SSD || four.SSD <= one.SSD || four.Mean >= one.Mean || one.P50 == one.P99 {
		t.Errorf("blocks %+v, extents of 1 %+v and of 4 %+v", blocks, one, four)
	}
	if token.Reads != blocks.Reads { // blocks of one layer are never adjacent
		t.Errorf("by token: %+v, expected the reads of single blocks, %+v", token, blocks)
	}
	if packed := with("--extent", "4", "--pack", traced); packed.Reads == four.Reads || packed.Mean == four.Mean {
		t.Errorf("packed %+v as without, %+v", packed, four)
	}
	if mapped := with("--mapped"); mapped.Mean <= blocks.Mean || mapped.Reads != blocks.Reads {
		t.Errorf("mapped %+v, pinned %+v", mapped, blocks)
	}
	says(t, 1, "the profile is of another trace, smollm2_multi_news_8k.parquet", append(args, "--pack", "../../datasets/bundled/smollm2_niah_multikey_3_4k.parquet")...)
	says(t, 2, "blocks of a stream side by side", append(args, "--pack", traced, "--ssd-order", "layer")...)
	says(t, 1, "--mapped has no effect", "time", profiled(t), "--policy", "lru", "--layer-map", "nearest", "--mapped")
	says(t, 1, "the profile has none: replay with a tier", "time", profiled(t), "--policy", "lru", "--layer-map", "nearest", "--extent", "2")
	plan := func(extent string) string {
		code, stdout, stderr := run("plan", out, "--hardware", "l40s", "--layer-map", "nearest", "--schedule", "sequential", "--max-batch", "2", "--steps", "2", "--extent", extent)
		if code != 0 {
			t.Fatal(stderr)
		}
		return stdout
	}
	if plan("1") == plan("16") {
		t.Errorf("extents do not change the plan: %s", plan("16"))
	}
}

func TestTimeRefuses(t *testing.T) {
	out := profiled(t)
	base := []string{"time", out, "--policy", "lru", "--layer-map", "nearest"}
	for want, args := range map[string][]string{
		"choose one with --policy and --capacity": {"time", out},
		"--layer-map":                            {"time", out, "--policy", "lru"},
		"known: a10":                             append(base[:len(base):len(base)], "--hardware", "h101"),
		"did you mean dba":                       append(base[:len(base):len(base)], "--schedule", "dbb"),
		"known: bloom":                           append(base[:len(base):len(base)], "--model", "gpt"),
		"expected table, json":                   append(base[:len(base):len(base)], "--format", "xml"),
		"one machine":                            append(base[:len(base):len(base)], "--hardware", "all", "--timeline", "x.json"),
		"weights alone take 138":                 append(base[:len(base):len(base)], "--hardware", "rtx4090", "--model", "llama-2-70b"),
		"; lower the batch, shorten the context": {"time", "--prompt", "8192", "--generate", "2", "--hardware", "h100", "--model", "llama-3.1-8b", "--schedule", "gpu", "--batch", "400"},
		"--expert-gpus 32 divides the experts among GPUs of 8 hosts": {"time", "--prompt", "8192", "--generate", "2", "--hardware", "h100", "--model", "deepseek-v3", "--schedule", "dense", "--expert-gpus", "2"},
		"expected one profile":                    {"time"},
		"no such file":                            {"time", "missing.parquet"},
		"make one with kvreplay":                  {"time", t.TempDir()},
		"--accept NaN":                            append(base[:len(base):len(base)], "--accept", "nan"),
		"--topk -5":                               append(base[:len(base):len(base)], "--topk", "-5"),
		"--schedule is empty":                     append(base[:len(base):len(base)], "--schedule", ""),
		"--hardware is empty":                     append(base[:len(base):len(base)], "--hardware", ""),
		"batch 100000000000":                      append(base[:len(base):len(base)], "--batch", "100000000000"),
		"batch 0, expected 1":                     append(base[:len(base):len(base)], "--batch", "0"),
		"--fragments 0: expected at least 1":      append(base[:len(base):len(base)], "--fragments", "0"),
		"expected at most 256":                    append(base[:len(base):len(base)], "--model", "deepseek-v3.2", "--expert-gpus", "257"),
		"unknown selection":                       append(base[:len(base):len(base)], "--selection", "best"),
		"unknown entry":                           append(base[:len(base):len(base)], "--entry", "k"),
		"choose latent":                           append(base[:len(base):len(base)], "--model", "deepseek-v3.2", "--entry", "kv"),
		"unknown lookup":                          append(base[:len(base):len(base)], "--lookup", "tree"),
		"--timeline shows one":                    append(base[:len(base):len(base)], "--schedule", "all", "--timeline", "x.json"),
		"metadata lacks the key kvreplay.profile": {"time", "../../datasets/bundled/smollm2_multi_news_8k.parquet"},
	} {
		code, _, stderr := run(args...)
		if code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %q, expected %q", args, code, stderr, want)
		}
	}
	if _, err := os.Stat("x.json"); err == nil {
		t.Error("a refused command left a timeline")
	}
}

// The split of kvpr is the fastest for the schedule. Here the paper's split is slower than none.
func TestTimeSplit(t *testing.T) {
	const schedules = "kvpr:order=column,kv=int4,x=int4,recompute=on,kvpr:order=column,kv=int4,x=int4,recompute=off,kvpr:order=column,kv=int4,x=int4,recompute=paper"
	code, stdout, stderr := run("time", "--prompt", "512", "--generate", "32", "--model", "opt-13b", "--hardware", "a100-40", "--batch", "32", "--schedule", schedules, "--format", "csv")
	rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	if code != 0 || err != nil || len(rows) != 4 {
		t.Fatalf("exit %d, %d rows, %v: %s", code, len(rows), err, stderr)
	}
	column := slices.Index(rows[0], "step_mean_s")
	var mean []float64
	for _, row := range rows[1:] {
		v, err := strconv.ParseFloat(row[column], 64)
		fatal.If(t, err)
		mean = append(mean, v)
	}
	if !(mean[0] < mean[1] && mean[1] < mean[2]) {
		t.Errorf("fastest %g s, none %g s, paper %g s, expected them in this order", mean[0], mean[1], mean[2])
	}
}

// An 80 GB card has 85.9·10⁹ bytes. Four requests of 122K fit, as in ShadowKV's Table 3. --reserve
// states another share than the estimate.
func TestTimeFits(t *testing.T) {
	args := []string{"time", "--prompt", "124896", "--generate", "32", "--model", "llama-3-8b-1048k", "--hardware", "a100-80", "--batch", "4", "--steps", "1", "--schedule", "dense"}
	code, stdout, stderr := run(args...)
	if code != 0 || !strings.Contains(stdout, "of 85.9 GB") || strings.Contains(stdout, "does not fit") {
		t.Errorf("exit %d: %s\n%s", code, stderr, stdout)
	}
	says(t, 1, "GPU needs 90.15 GB of 85.9 GB", append(args, "--reserve", "0.1")...)
}

// "all" means the schedules that the batch and the profile allow. The others are named.
func TestEverySchedule(t *testing.T) {
	out := profiled(t)
	all := slices.DeleteFunc(schedule.Names(), func(name string) bool { return name == "kept" }) // of lossy policies
	alone := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == "tbo" })
	for _, c := range []struct {
		args, want []string
		said       string
	}{
		{[]string{out, "--policy", "lru", "--layer-map", "nearest", "--steps", "1", "--batch", "2"}, all, ""},
		{[]string{out, "--policy", "lru", "--layer-map", "nearest", "--steps", "1"}, alone, "a batch of 1 is too small to divide (--batch): tbo\n"},
		{[]string{"--prompt", "256", "--generate", "2", "--model", "opt-6.7b"}, []string{"kvpr", "flexgen", "ellm", "host", "gpu", "dense"}, "because they need a profile: sequential:lookup=gpu, "},
	} {
		code, stdout, stderr := run(append([]string{"time", "--schedule", "all", "--format", "csv"}, c.args...)...)
		rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
		if code != 0 || err != nil {
			t.Fatalf("%v: exit %d, %v: %s", c.args, code, err, stderr)
		}
		var got []string
		for _, row := range rows[1:] {
			name, _, _ := strings.Cut(row[2], ":")
			got = append(got, name)
		}
		if !slices.Equal(got, c.want) || !strings.Contains(stderr, c.said) || c.said == "" && stderr != "" {
			t.Errorf("%v: %v, expected %v; said %q", c.args, got, c.want, stderr)
		}
	}
}

func TestPlan(t *testing.T) {
	out := profiled(t)
	base := []string{"plan", out, "--layer-map", "nearest", "--max-batch", "8", "--steps", "3"}
	args := func(more ...string) []string { return append(base[:len(base):len(base)], more...) }
	code, stdout, stderr := run(args("--format", "json", "--schedule", "da,gpu", "--every-cell")...)
	if code != 0 {
		t.Fatal(stderr)
	}
	var found struct {
		Version    int `json:"plan_version"`
		Labels     []string
		Candidates []struct {
			Policy, Schedule, Binding, Rank string
			Batch                           int
			Tokens                          float64 `json:"tokens_per_s_gpu"`
		}
	}
	fatal.If(t, json.Unmarshal([]byte(stdout), &found))
	if got := strings.Join(found.Labels, ", "); found.Version != 2 || got != "1 request, layers stretched, fitted constant: 2 of 3 lines" {
		t.Errorf("version %d, labels %q", found.Version, got)
	}
	plan := found.Candidates
	if len(plan) != 3 || plan[0].Tokens < plan[1].Tokens || plan[0].Batch != 8 || plan[0].Binding != "largest batch (--max-batch)" {
		t.Errorf("plan %+v, expected lru and lookahead with da, and gpu", plan)
	}
	if code, stdout, stderr = run(args("--policy", "lru")...); code != 0 || !strings.Contains(stdout, "bound by") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	for want, more := range map[string][]string{
		"did you mean lru":       {"--policy", "lr"},
		"expected at least 1MB":  {"--gpu-memory", "48"},
		`did you mean 48GB?`:     {"--gpu-memory", "48Gb"},
		`did you mean 48GiB?`:    {"--gpu-memory", "48gib"},
		"of 1 MB":                {"--gpu-memory", "1MB"},
		`--gpu-memory "abc": ex`: {"--gpu-memory", "abc"},
		"table or json":          {"--format", "csv"},
		"the SLO is 1 us":        {"--slo", "1us"},
		"GPU needs":              {"--gpu-memory", "1 MB"},
		"unknown schedule":       {"--schedule", "dab"},
		`unknown machine "h10"`:  {"--hardware", "h10"},
	} {
		if code, _, stderr := run(args(more...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %q, expected %q", more, code, stderr, want)
		}
	}
}

// --kernels chooses the fitted model, which is the default, the roofline, or the user's own
// measurements of the machine's GPU.
func TestTimeKernels(t *testing.T) {
	args := []string{"time", "--prompt", "2048", "--generate", "16", "--model", "llama-3.1-8b", "--batch", "4", "--schedule", "dense"}
	with := func(more ...string) string {
		code, stdout, stderr := run(append(slices.Clone(args), more...)...)
		if code != 0 {
			t.Fatalf("%v: exit %d: %s", more, code, stderr)
		}
		return stdout
	}
	usual := with("--hardware", "rtx4090")
	if with("--hardware", "rtx4090", "--kernels", "fitted") != usual {
		t.Error("fitted is not the default")
	}
	for hardware, want := range map[string]string{"rtx4090": "kernels: fitted to measurements of rtx4090", "h200": "not measured on h200"} {
		if text := with("--hardware", hardware); !strings.Contains(text, want) {
			t.Errorf("%s: no %q in\n%s", hardware, want, text)
		}
	}
	if text := with("--hardware", "rtx4090", "--kernels", "roofline"); strings.Contains(text, "kernels:") || text == usual {
		t.Errorf("the roofline has kernels:\n%s", text)
	}
	if text := with("--hardware", "4090", "--kernels", measuredKernels); !strings.Contains(text, "kernels: fitted to measurements of rtx4090") {
		t.Error(text)
	}
	for _, c := range []struct {
		kernels, hardware string
		code              int
		want              string
	}{
		{"fited", "h100", 1, "expected fitted, roofline or a file"},
		{points, "h100", 1, "gb300.csv:3: columns "},
		{measuredKernels, "h100", 1, "no measurement of h100, only of rtx4090"},
	} {
		code, _, stderr := run(append(slices.Clone(args), "--hardware", c.hardware, "--kernels", c.kernels)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("--kernels %s: exit %d, %s", c.kernels, code, stderr)
		}
	}
}

// --tensor-parallel divides the memory of a dense batch and adds all-reduces. --pipeline-parallel adds
// sends. Every command line
// that cannot be priced is refused.
func TestTimeTensorParallel(t *testing.T) {
	args := []string{"time", "--prompt", "512", "--generate", "8", "--model", "qwen3-14b", "--batch", "4",
		"--schedule", "dense", "--hardware", "h200"}
	type priced struct {
		GPUs   int `json:"tensor_parallel"`
		Causes struct {
			Compute   float64
			AllReduce float64 `json:"all_reduce"`
		} `json:"exposed_s"`
		Memory struct {
			Weights float64 `json:"weights_bytes"`
		}
	}
	with := func(more ...string) priced {
		return decoded[[]priced](t, slices.Concat(args, more, []string{"--format", "json"})...)[0]
	}
	one, four := with(), with("--tensor-parallel", "4")
	if one.GPUs != 1 || one.Causes.AllReduce != 0 || four.GPUs != 4 || four.Causes.AllReduce == 0 {
		t.Errorf("%+v and %+v: expected all-reduces of 4 GPUs only", one, four)
	}
	if share := four.Memory.Weights / one.Memory.Weights; share < 0.25 || share > 0.251 || four.Causes.Compute > 0.45*one.Causes.Compute {
		t.Errorf("a GPU of 4 has %g of the weights and computes %g s, one alone %g s",
			share, four.Causes.Compute, one.Causes.Compute)
	}
	code, text, _ := run(slices.Concat(args, []string{"--tensor-parallel", "2"})...)
	if code != 0 || !strings.Contains(text, "of it all-reduce") ||
		!strings.Contains(text, "note: tensor parallelism: 2 GPUs") || !strings.Contains(unbroken(text), "constants of h100") {
		t.Errorf("exit %d:\n%s", code, text)
	}
	code, text, _ = run(slices.Concat(args, []string{"--pipeline-parallel", "2"})...)
	if code != 0 || !strings.Contains(text, "of it pipeline") || !strings.Contains(unbroken(text), "sends are derived from constants of h100") {
		t.Errorf("exit %d:\n%s", code, text)
	}
	for want, more := range map[string][]string{
		"expected 1 to 8":          {"--tensor-parallel", "9"},
		"expected at least 1":      {"--tensor-parallel", "0"},
		"runs on one GPU":          {"--tensor-parallel", "2", "--schedule", "flexgen"},
		"does not divide":          {"--tensor-parallel", "3"},
		"states no peer_bandwidth": {"--tensor-parallel", "2", "--hardware", "gh200"},
		"choose one":               {"--tensor-parallel", "2", "--model", "deepseek-v2-lite", "--expert-gpus", "2"},
		"too few requests":         {"--pipeline-parallel", "5"},
		"does not combine":         {"--pipeline-parallel", "2", "--tensor-parallel", "2"},
	} {
		if code, _, stderr := run(append(slices.Clone(args), more...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit %d, %s, expected %s", more, code, stderr, want)
		}
	}
}

// TTFT is that of the prompts. It is in all formats, and only without a profile.
func TestTimeFirstToken(t *testing.T) {
	args := []string{"time", "--prompt", "2048", "--generate", "4", "--model", "llama-3.1-8b", "--batch", "4", "--schedule", "dense"}
	type priced struct {
		TTFT     float64           `json:"ttft_s"`
		Interval pipeline.Interval `json:"ttft_interval"`
		Memory   struct {
			Reserve float64 `json:"reserve_bytes"`
		}
	}
	with := func(more ...string) priced {
		return decoded[[]priced](t, slices.Concat(args, more, []string{"--format", "json"})...)[0]
	}
	once, chunks := with(), with("--prefill-chunk", "256")
	if v := once.Interval; !(v.Low > 0 && v.Low < once.TTFT && v.High > once.TTFT) {
		t.Errorf("TTFT of %g s in %+v", once.TTFT, v)
	}
	if !(once.TTFT > 0 && chunks.TTFT > once.TTFT && chunks.Memory.Reserve > once.Memory.Reserve) {
		t.Errorf("%+v at once, %+v in chunks: expected chunks to take longer, and memory for them", once, chunks)
	}
	code, stdout, stderr := run(args...)
	if code != 0 || !regexp.MustCompile(` TTFT +\S+ \S+ ±\d+ %, of all 4 requests`).MatchString(stdout) {
		t.Errorf("exit %d, no TTFT with ± in %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = run(append(slices.Clone(args), "--format", "csv")...)
	text := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	r := records(t, stdout)[0]
	if code != 0 || r["ttft_s"] != text(once.TTFT) || r["ttft_low_s"] != text(once.Interval.Low) || r["ttft_high_s"] != text(once.Interval.High) {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
	out := profiled(t)
	says(t, 2, "--prefill-overlap need --prompt and --generate", "time", out, "--prefill-chunk", "256")
	parallel := []string{"time", "--prompt", "4096", "--generate", "2", "--model", "deepseek-v3", "--hardware", "h100", "--batch", "2", "--prefill-overlap", "--schedule", "dense", "--format", "csv"}
	code, overlapped, _ := run(append(parallel, "--expert-gpus", "32")...)
	if _, plain, _ := run(append(slices.Delete(slices.Clone(parallel), 11, 12), "--expert-gpus", "32")...); code != 0 || overlapped == plain {
		t.Errorf("--prefill-overlap: exit %d, and the output without it is:\n%s", code, plain)
	}
	says(t, 1, "--prefill-overlap hides exchanges of experts, and none is priced", append(parallel, "--tensor-parallel", "8")...)
	says(t, 2, "--prefill-chunk 0: expected at least 1", append(args, "--prefill-chunk", "0")...)
}

// Host memory is that of all GPUs on it, and the output says so.
func TestTimeStatesSharedHostMemory(t *testing.T) {
	args := []string{"time", "--prompt", "8192", "--generate", "2", "--model", "llama-3.1-8b", "--schedule", "host:attend=demand", "--batch", "8", "--hardware"}
	of := func(machine string) string { return must(t, append(args, machine)...) }
	if text := of("h100"); !strings.Contains(text, "34.36 GB of 1.024 TB, for the batches of 4 GPUs") {
		t.Errorf("%s", text)
	}
	if text := of("rtx4090"); !strings.Contains(text, "8.591 GB of 120 GB") || strings.Contains(text, "for the batches") {
		t.Errorf("%s", text)
	}
}
