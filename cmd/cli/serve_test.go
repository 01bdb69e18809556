package cli_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/kvreplay/kvreplay/internal/browsertest"
	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/serving"
)

// served is a short command on real arrivals.
var served = []string{"serve", filepath.Join("..", "..", "datasets", "requests", "testdata", "azure_conv_300.csv.gz"),
	"--hardware", "a100-80", "--model", "llama-2-13b", "--slo", "tpot=60ms,ttft=5s"}

// Two GPUs that share experts and divide the requests serve more tokens than one of them.
func TestServeDataParallel(t *testing.T) {
	command := []string{"serve", served[1], "--hardware", "rtx-pro-6000-server", "--model", "qwen3-30b-a3b", "--systems", "vllm-recompute",
		"--scale", "0.01x", "--max-running", "16", "--expert-gpus", "2", "--data-parallel"}
	results := map[string]serving.Result{}
	for _, n := range []string{"1", "2"} {
		results[n] = decoded[[]serving.Result](t, append(command, n, "--format", "json")...)[0]
	}
	one, two := results["1"], results["2"]
	if one.MostRunning != 16 || two.MostRunning != 32 || two.Blocks != 2*one.Blocks || !(two.Throughput > 1.2*one.Throughput && two.Throughput < 2*one.Throughput) {
		t.Errorf("one GPU: %+v\ntwo GPUs: %+v", one.Summary, two.Summary)
	}
	if text := must(t, append(command, "2")...); !strings.Contains(text, "2 GPUs divide the requests") {
		t.Errorf("no note on data parallelism:\n%s", text)
	}
}

// With vLLM 0.6 the GPU waits for the CPU. So each iteration is formed after the one before it, with or
// without --synchronous, and a token takes at least 0.975 ms more.
func TestServeEngine(t *testing.T) {
	serve := func(args ...string) (string, serving.Summary) {
		t.Helper()
		text := must(t, append(append(served, "--systems", "vllm-recompute", "--format", "json"), args...)...)
		var results []serving.Result
		fatal.If(t, json.Unmarshal([]byte(text), &results))
		return text, *results[0].Summary
	}
	ahead, fast := serve()
	after, slow := serve("--engine", "vllm-0.6")
	if again, _ := serve("--engine", "vllm-0.6", "--synchronous"); again != after {
		t.Error("--synchronous changes the run of an engine whose GPU waits for the CPU")
	}
	if other, _ := serve("--synchronous"); other == ahead {
		t.Error("--synchronous does not change the run of the default engine")
	}
	if more := slow.TPOT.P50 - fast.TPOT.P50; more < 975_000 {
		t.Errorf("a token takes %d ns more", more)
	}
}

// The output and all rows are the same bytes whatever the parallelism.
func TestServe(t *testing.T) {
	run := func(processors int) (all string) {
		t.Helper()
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		dir := t.TempDir()
		all = must(t, append(served, "--format", "json", "--rows", dir, "--timelines", dir)...)
		for _, system := range []string{"ellm", "vllm-recompute", "vllm-swap", "hcache"} {
			for _, file := range []string{".requests.csv", ".steps.csv", ".json"} {
				all += content(t, filepath.Join(dir, system+file))
			}
			var events []struct{ Name string }
			if err := json.Unmarshal([]byte(content(t, filepath.Join(dir, system+".json"))), &events); err != nil || len(events) < 3000 {
				t.Errorf("timeline of %s: %d events, %v", system, len(events), err)
			}
			if lines := strings.Count(content(t, filepath.Join(dir, system+".requests.csv")), "\n"); lines != 301 {
				t.Errorf("%s has %d lines of requests, expected 301", system, lines)
			}
		}
		return all
	}
	one := run(1)
	if four := run(4); one != four {
		t.Error("the output depends on the number of processors")
	}
	var results []serving.Result
	if err := json.NewDecoder(strings.NewReader(one)).Decode(&results); err != nil || len(results) != 4 {
		t.Fatal(len(results), err)
	}
	for _, r := range results {
		if r.Requests != 300 || !(r.Throughput > 300) || !(r.Attainment > 0.1 && r.Attainment < 1) || r.Running < 10 {
			t.Errorf("%+v", r.Summary)
		}
	}
	text := must(t, append(served, "--systems", "vllm-recompute", "--goodput", "0.9")...)
	for _, want := range []string{"tokens/s", "TPOT p50", "300 requests", "goodput/s"} {
		if !strings.Contains(text, want) {
			t.Errorf("the output lacks %q:\n%s", want, text)
		}
	}
	if csv := must(t, append(served, "--systems", "vllm-swap,hcache", "--format", "csv", "--limit-batch")...); strings.Count(csv, "\n") != 3 {
		t.Errorf("CSV:\n%s", csv)
	}
	if drawn := must(t, append(served, "--systems", "vllm-swap", "--lengths", filepath.Join("..", "..", "datasets", "requests", "testdata", "azure_code_300.csv"))...); !strings.Contains(drawn, "300 requests") {
		t.Errorf("with --lengths:\n%s", drawn)
	}
}

// Without --slo, no share of requests meets the limits, not all.
func TestServeWithoutLimits(t *testing.T) {
	args := []string{"serve", "../../datasets/requests/testdata/azure_conv_300.csv.gz", "--model", "llama-2-13b", "--systems", "vllm-recompute", "--format", "json"}
	if plain := must(t, args...); strings.Contains(plain, "attainment") {
		t.Errorf("%s", plain)
	}
	if limited := must(t, append(args, "--slo", "ttft=5s")...); strings.Count(limited, "attainment\":") != 3 {
		t.Errorf("%s", limited)
	}
}

// With --repeats, all systems get the same draws. Each run is that of its seed alone.
func TestServeRepeats(t *testing.T) {
	args := append(served, "--lengths", served[1], "--systems", "vllm-recompute,hcache", "--seed", "3")
	read := func(more ...string) (r []serving.Result) {
		t.Helper()
		if err := json.Unmarshal([]byte(must(t, slices.Concat(args, []string{"--format", "json"}, more)...)), &r); err != nil || len(r) != 2 {
			t.Fatal(len(r), err)
		}
		return r
	}
	plain, r := read(), read("--repeats", "6")
	if len(r[0].Seeds) != 6 || r[0].Compared != nil || *r[0].Seeds[0].Figures[0] != plain[0].Throughput || len(r[1].Compared) != len(serving.SeedFigures) {
		t.Fatalf("%+v", r[0])
	}
	for i, s := range r[1].Seeds {
		if s.Seed != uint64(3+i) || i > 0 && *s.Figures[0] == *r[1].Seeds[0].Figures[0] {
			t.Errorf("seed %d: %+v", 3+i, s)
		}
	}
	second := args[len(args)-1:]
	second[0] = "5"
	if again := read(); again[1].Throughput != *r[1].Seeds[2].Figures[0] {
		t.Errorf("--seed 5 alone has %g tokens/s, expected %g", again[1].Throughput, *r[1].Seeds[2].Figures[0])
	}
	for _, c := range r[1].Compared {
		if !(*c.Low <= *c.Ratio && *c.Ratio <= *c.High && *c.P >= 2./64 && *c.P <= 1) {
			t.Errorf("%s: %g, %g to %g, p %g", c.Figure, *c.Ratio, *c.Low, *c.High, *c.P)
		}
	}
	if text, csv := must(t, append(args, "--repeats", "6")...), must(t, append(args, "--repeats", "6", "--format", "csv")...); !strings.Contains(text, "Ratio to vllm-recompute over 6 seeds") || !strings.HasPrefix(text, "Means over 6 seeds, and the least to the largest value") || !strings.Contains(text, ", seed 5\n") ||
		!strings.Contains(csv, "attainment_ratio_p\n") || !strings.Contains(csv, ",,,,\n") {
		t.Errorf("%s\n%s", text, csv)
	}
}

// With --burstiness, arrivals are drawn with the mean of the trace. A gamma distribution of shape b has
// a standard deviation of 1 ÷ √b of its mean. Tokens and classes stay, and all systems get the same draws.
func TestServeBurstiness(t *testing.T) {
	dir := t.TempDir()
	args := []string{"serve", classes, "--hardware", "a100-80", "--model", "llama-2-13b", "--systems", "vllm-recompute,hcache", "--format", "json"}
	requests := func(system string, more ...string) (gaps []float64, rest string) {
		t.Helper()
		must(t, slices.Concat(args, []string{"--rows", dir}, more)...)
		rows, err := csv.NewReader(strings.NewReader(content(t, filepath.Join(dir, system+".requests.csv")))).ReadAll()
		fatal.If(t, err)
		slices.SortFunc(rows[1:], func(a, b []string) int { return cmp.Or(cmp.Compare(len(a[0]), len(b[0])), cmp.Compare(a[0], b[0])) })
		last := 0.
		for i, r := range rows[1:] {
			at, err := strconv.ParseFloat(r[1], 64)
			if err != nil || i == 0 && at != 0 || at < last {
				t.Fatalf("request %d arrives at %s: %v", i, r[1], err)
			}
			if i > 0 {
				gaps = append(gaps, at-last)
			}
			last, rest = at, rest+strings.Join([]string{r[5], r[6], r[9]}, ",")+"\n"
		}
		return gaps, rest
	}
	own, tokens := requests("hcache")
	for _, b := range []float64{0.5, 1, 16} {
		more := []string{"--burstiness", strconv.FormatFloat(b, 'g', -1, 64), "--seed", "7"}
		gaps, kept := requests("hcache", more...)
		if other, _ := requests("vllm-recompute", more...); !slices.Equal(gaps, other) || kept != tokens {
			t.Errorf("shape %g: systems get different draws, or other tokens than the trace's", b)
		}
		mean, deviation := stat.MeanStdDev(gaps, nil)
		ratio, spread := mean/stat.Mean(own, nil), 1/math.Sqrt(b*float64(len(gaps)))
		if math.Abs(ratio-1) > 3*spread || math.Abs(deviation/mean*math.Sqrt(b)-1) > 0.2 {
			t.Errorf("shape %g: mean ÷ the trace's %g, standard deviation ÷ mean %g", b, ratio, deviation/mean)
		}
	}
	var r []serving.Result
	if err := json.Unmarshal([]byte(must(t, append(args, "--burstiness", "1", "--repeats", "5", "--seed", "6")...)), &r); err != nil || len(r[1].Seeds) != 5 || len(r[1].Compared) == 0 {
		t.Fatal(err, r)
	}
	var one []serving.Result
	if err := json.Unmarshal([]byte(must(t, append(args, "--burstiness", "1", "--seed", "7")...)), &one); err != nil || one[1].Throughput != *r[1].Seeds[1].Figures[0] || *r[1].Seeds[0].Figures[0] == *r[1].Seeds[1].Figures[0] {
		t.Errorf("seed 7 alone has %g tokens/s, of five seeds %+v (%v)", one[1].Throughput, r[1].Seeds, err)
	}
}

// classes is a file of requests with classes.
var classes = filepath.Join("..", "..", "datasets", "requests", "testdata", "azure_classes_300.csv.gz")

// Priority of a class shortens its queue, and each class has its own limits.
func TestServeClasses(t *testing.T) {
	args := []string{"serve", classes, "--hardware", "a100-80", "--model", "llama-2-13b", "--systems", "vllm-recompute,ellm", "--slo", "tpot=80ms", "--slo", "code:ttft=3s"}
	read := func(more ...string) (r []serving.Result) {
		t.Helper()
		if err := json.Unmarshal([]byte(must(t, slices.Concat(args, []string{"--format", "json"}, more)...)), &r); err != nil || len(r) != 2 {
			t.Fatal(len(r), err)
		}
		return r
	}
	plain, code, conv := read(), read("--priority", "code"), read("--priority", "conv,code")
	for i := range plain {
		for at, name := range []string{"code", "conv"} {
			p, c, v := plain[i].Classes[at], code[i].Classes[at], conv[i].Classes[at]
			if p.Class != name || p.Requests != []int64{63, 237}[at] || (c.Queue.Mean < p.Queue.Mean) != (name == "code") || (v.Queue.Mean < p.Queue.Mean) != (name == "conv") {
				t.Errorf("%s, %s: mean queues %d, %d with priority of code, %d of conv", plain[i].System, p.Class, p.Queue.Mean, c.Queue.Mean, v.Queue.Mean)
			}
		}
		if p, c := plain[i].Classes[0], code[i].Classes[0]; p.AttainmentTPOT != 1 || c.AttainmentTTFT <= p.AttainmentTTFT {
			t.Errorf("%s: code has attainments %+v, with priority %+v", plain[i].System, p.Latency, c.Latency)
		}
	}
	table := must(t, append(args, "--priority", "code")...)
	dir := t.TempDir()
	csv := must(t, append(args, "--format", "csv", "--rows", dir)...)
	if !strings.Contains(table, "Classes") || !strings.Contains(csv, "goodput_requests_per_s,class\n") || strings.Count(csv, ",conv\n") != 2 || strings.Count(csv, "\n") != 7 {
		t.Errorf("%s\n%s", table, csv)
	}
	if rows := content(t, filepath.Join(dir, "ellm.requests.csv")); strings.Count(rows, ",code\n") != 63 || !strings.Contains(rows, ",class\n") {
		t.Errorf("%.400s", rows)
	}
}

func TestServeRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const header = "arrival_s,input_tokens,output_tokens,first_token_s,last_token_s\n"
	good := file("good.csv", header+"0,10,3,1,2\n1,10,3,2,3\n")
	once := file("once.csv", header+"0,10,3,1,2\n0,10,3,2,3\n")
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no model":        {[]string{good}, 2, "--model missing"},
		"no file":         {[]string{"--model", "llama-3-8b"}, 2, "expected one file of requests"},
		"negative length": {[]string{file("a.csv", header+"0,-1,3,1,2\n"), "--model", "llama-3-8b"}, 1, "a.csv:2: input_tokens \"-1\""},
		"no prompt":       {[]string{file("b.csv", header+"0,0,3,1,2\n"), "--model", "llama-3-8b"}, 1, "request 1 of "},
		"unsorted":        {[]string{file("c.csv", header+"5,1,3,6,7\n4,1,3,6,7\n"), "--model", "llama-3-8b"}, 1, "c.csv:3: the timestamp is 1s before"},
		"times":           {[]string{file("d.csv", header+"5,1,3,4,7\n"), "--model", "llama-3-8b"}, 1, "d.csv:2: arrival 5"},
		"too large":       {[]string{file("e.csv", header+"0,2000000,3,1,2\n"), "--model", "llama-3-8b"}, 1, "blocks of KV, but memory holds"},
		"first failure":   {[]string{file("g.csv", header+"0,2000000,3,1,2\n"), "--model", "llama-3-8b", "--systems", "ellm,flexgen"}, 1, "with ellm: request 1"},
		"model too large": {[]string{good, "--model", "llama-2-70b"}, 1, "need 138 GB, and 76.12 GB are free"},
		"drawn no prompt": {[]string{good, "--model", "llama-3-8b", "--lengths", file("f.csv", header+"0,0,3,1,2\n")}, 1, "f.csv has no input tokens"},
		"many blocks":     {[]string{good, "--model", "llama-3-8b", "--kv-blocks", "40000"}, 1, "40000 blocks of KV and the weights take 99.95 GB, but a GPU has 84.94 GB"},
		"reserve below":   {[]string{good, "--model", "llama-3-8b", "--reserve", "-0.1"}, 2, "expected a share of GPU memory, 0 to below 1"},
		"block":           {[]string{good, "--model", "llama-3-8b", "--block-tokens", "7"}, 2, "--block-tokens 7: expected a divisor of 512"},
		"budget":          {[]string{good, "--model", "llama-3-8b", "--token-budget", "1048577"}, 2, "--token-budget 1048577: expected 1 to 1048576"},
		"unused seed":     {[]string{good, "--model", "llama-3-8b", "--seed", "5"}, 2, "--seed has no effect"},
		"no experts":      {[]string{good, "--model", "llama-3-8b", "--expert-gpus", "2"}, 1, "llama-3-8b has no routed experts"},
		"no shared ones":  {[]string{good, "--model", "qwen3-30b-a3b", "--data-parallel", "2"}, 2, "--data-parallel 2 needs --expert-gpus 2"},
		"no traces":       {[]string{good, "--model", "llama-3-8b", "--systems", "kvdrive"}, 1, "name traces with --traces"},
		"other schedule":  {[]string{good, "--model", "llama-3-8b", "--systems", "flexgen"}, 1, "is not served"},
		"slo":             {[]string{good, "--model", "llama-3-8b", "--slo", "tbt=5ms"}, 2, "expected tpot=DURATION"},
		"goodput":         {[]string{good, "--model", "llama-3-8b", "--goodput", "0.9"}, 2, "--goodput needs --slo"},
		"scale without x": {[]string{good, "--model", "llama-3-8b", "--scale", "0.5"}, 2, "as in 0.5x"},
		"limit of 0":      {[]string{good, "--model", "llama-3-8b", "--slo", "tpot=0ms"}, 2, "tpot=0ms: expected a time above 0"},
		"few blocks":      {[]string{file("k.csv", header+"0,2000,3,1,2\n"), "--model", "llama-3-8b", "--kv-blocks", "10"}, 1, "--kv-blocks allows 10: raise it"},
		"object":          {[]string{"s3://b/r.csv", "--model", "llama-3-8b"}, 1, "only Top-K traces are read from an object store"},
		"scale":           {[]string{good, "--model", "llama-3-8b", "--scale", "0"}, 2, "expected a factor"},
		"series":          {[]string{good, "--model", "llama-3-8b", "--series", good, "--scale", "2x"}, 2, "--series needs the requests as they were recorded"},
		"repeats":         {[]string{good, "--model", "llama-3-8b", "--lengths", good, "--repeats", "4"}, 2, "expected 5 to 1000"},
		"lengths":         {[]string{good, "--model", "llama-3-8b", "--repeats", "5"}, 2, "--repeats needs --lengths"},
		"burstiness":      {[]string{good, "--model", "llama-3-8b", "--burstiness", "0"}, 2, "expected a shape"},
		"class":           {[]string{classes, "--model", "llama-3-8b", "--slo", "chat:tpot=5ms"}, 2, "has code, conv"},
		"priority":        {[]string{good, "--model", "llama-3-8b", "--priority", "chat"}, 2, "has no classes"},
		"class limits":    {[]string{classes, "--model", "llama-3-8b", "--slo", "conv:"}, 2, "expected tpot=DURATION"},
		"limited twice":   {[]string{good, "--model", "llama-3-8b", "--slo", "tpot=5ms,tpot=6ms"}, 2, "tpot is limited twice"},
		"slo twice":       {[]string{good, "--model", "llama-3-8b", "--slo", "tpot=5ms", "--slo", "ttft=6s"}, 2, "join them with a comma"},
		"class twice":     {[]string{classes, "--model", "llama-3-8b", "--slo", "conv:tpot=5ms", "--slo", "conv:ttft=6s"}, 2, "join them with a comma"},
		"reserve":         {[]string{good, "--model", "llama-3-8b", "--reserve", "0.99"}, 1, "and 475.5 MB are free"},
		"goodput at once": {[]string{once, "--model", "llama-3-8b", "--slo", "tpot=5ms", "--goodput", "0.9"}, 2, "arrive at once"},
		"drawn at once":   {[]string{once, "--model", "llama-3-8b", "--burstiness", "1"}, 2, "arrive at once"},
		"unused topk":     {[]string{good, "--model", "llama-3-8b", "--topk", "64"}, 2, "--topk has no effect"},
		"unused traces":   {[]string{good, "--model", "llama-3-8b", "--systems", "hcache", "--traces", "a.parquet"}, 2, "--traces has no effect"},
		"unused literal":  {[]string{good, "--model", "llama-3-8b", "--systems", "hcache", "--literal"}, 2, "--literal has no effect"},
		"samples":         {[]string{good, "--model", "llama-3-8b", "--series", good}, 1, "expected time_s"},
	} {
		code, _, stderr := run(append([]string{"serve"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d, expected %d, with %q:\n%s", name, code, c.code, c.want, stderr)
		}
	}
}

// A failed system leaves no unfinished file.
func TestServeLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	fatal.If(t, os.Mkdir(filepath.Join(dir, "ellm.steps.csv"), 0o755))
	if code, _, _ := run(append(served, "--systems", "ellm", "--rows", dir)...); code == 0 {
		t.Error("exit 0, expected a failure")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// Requests that arrive at once have no rate, and requests of one token no TPOT.
func TestServeUndefined(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.csv")
	fatal.If(t, os.WriteFile(file, []byte("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.0,9000,0\n"), 0o600))
	text := must(t, "serve", file, "--model", "llama-3-8b", "--systems", "vllm-recompute")
	for _, want := range []string{"1 request, all at once", "  –    –    –  ", "without output tokens, which generate one: 1", "request has 9000 tokens, more than the context of llama-3-8b, 8192"} {
		if !strings.Contains(text, want) {
			t.Errorf("the output lacks %q:\n%s", want, text)
		}
	}
	args := []string{"serve", file, "--model", "llama-3-8b", "--systems", "vllm-recompute", "--format"}
	lines, err := csv.NewReader(strings.NewReader(must(t, append(args, "csv")...))).ReadAll()
	if err != nil || len(lines) != 2 {
		t.Fatal(len(lines), err)
	}
	var results []map[string]any
	fatal.If(t, json.Unmarshal([]byte(must(t, append(args, "json")...)), &results))
	for _, name := range []string{"requests_per_s", "tpot_mean_ns", "tpot_p99_ns", "goodput_requests_per_s"} {
		if got := lines[1][slices.Index(lines[0], name)]; got != "" {
			t.Errorf("CSV: %s is %q, expected none", name, got)
		}
	}
	for _, name := range []string{"requests_per_s", "tpot", "goodput_requests_per_s"} {
		if got, ok := results[0][name]; ok {
			t.Errorf("JSON: %s is %v, expected none", name, got)
		}
	}

	two := filepath.Join(t.TempDir(), "b.csv")
	fatal.If(t, os.WriteFile(two, []byte("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.0,900,1\n2023-11-16 18:15:47.0,900,1\n"), 0o600))
	args = []string{"serve", two, "--model", "llama-3-8b", "--systems", "vllm-recompute,hcache", "--burstiness", "1", "--repeats", "5", "--format"}
	page := must(t, append(args, "html")...)
	if !strings.Contains(page, "Time to the first token") || strings.Contains(page, "Time per output token") {
		t.Error("the page draws the time of a second token, which no request has")
	}
	var seeded []serving.Result
	fatal.If(t, json.Unmarshal([]byte(must(t, append(args, "json")...)), &seeded))
	if v := seeded[1].Seeds[0].Figures[2]; v != nil {
		t.Errorf("a seed has a TPOT of %g s", *v)
	}
	if c := seeded[1].Compared[2]; c != (serving.Compared{Figure: "tpot_s"}) {
		t.Errorf("compared TPOT: %+v", c)
	}
}

// If only some seeds have a TPOT, it is neither compared nor plotted, because both are over all seeds.
func TestServeUndefinedInSomeSeeds(t *testing.T) {
	dir := t.TempDir()
	arrivals, lengths := filepath.Join(dir, "arrivals.csv"), filepath.Join(dir, "lengths.csv")
	text := "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.0,900,1\n2023-11-16 18:15:47.0,900,1\n"
	fatal.If(t, os.WriteFile(arrivals, []byte(text), 0o600))
	fatal.If(t, os.WriteFile(lengths, []byte(text+"2023-11-16 18:15:48.0,900,1\n2023-11-16 18:15:49.0,900,9\n"), 0o600))
	args := []string{"serve", arrivals, "--lengths", lengths, "--model", "llama-3-8b", "--systems", "vllm-recompute,hcache", "--repeats", "6", "--format"}
	var results []serving.Result
	fatal.If(t, json.Unmarshal([]byte(must(t, append(args, "json")...)), &results))
	have := 0
	for _, s := range results[1].Seeds {
		if s.Figures[2] != nil {
			have++
		}
	}
	if have == 0 || have == 6 {
		t.Fatalf("%d seeds have a TPOT, expected 1 to 5", have)
	}
	if c := results[1].Compared[2]; c != (serving.Compared{Figure: "tpot_s"}) {
		t.Errorf("%d of 6 seeds have a TPOT, but it is compared: %+v", have, c)
	}
	if page := must(t, append(args, "html")...); !strings.Contains(page, "Time to the first token") || strings.Contains(page, "Time per output token") {
		t.Errorf("%d of 6 seeds have a TPOT, but it is plotted as a mean over 6", have)
	}
}

// A step of sparse attention takes longer at a longer context, also beyond that of the model's file.
func TestServeBeyondTheContext(t *testing.T) {
	data := filepath.Join("..", "..", "datasets")
	tpot := func(tokens int) int64 {
		t.Helper()
		file := filepath.Join(t.TempDir(), "a.csv")
		fatal.If(t, os.WriteFile(file, fmt.Appendf(nil, "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.0,%d,20\n", tokens), 0o600))
		var r []serving.Result
		out := must(t, "serve", file, "--hardware", "h200", "--model", "llama-3-8b", "--systems", "ess", "--traces", filepath.Join(data, "corpus", "selectors_qa_text.exact.parquet"), "--format", "json")
		fatal.If(t, json.Unmarshal([]byte(out), &r))
		return r[0].TPOT.P50
	}
	if short, long := tpot(20_000), tpot(60_000); long <= short {
		t.Errorf("TPOT %d ns at 60,000 tokens, %d at 20,000", long, short)
	}
}

// The first table of errors on the page is the output of its command. Tests of package serving hold the others.
func TestServePage(t *testing.T) {
	data := filepath.Join("..", "..", "replay", "serving", "data", "vllm-rtx4090")
	args := []string{"serve", data + ".csv", "--series", data + "-series.csv", "--hardware", "rtx4090", "--model", "llama-3.1-8b", "--systems", "vllm-recompute", "--format", "markdown"}
	_, table, found := strings.Cut(must(t, append(args, "--kv-blocks", "2587")...), "| figure ")
	page := content(t, filepath.Join("..", "..", "replay", "serving", "RUNS.md"))
	if table, _, _ = strings.Cut(table, "\n\n"); !found || !strings.Contains(page, table) {
		t.Errorf("the page lacks the table:\n%s", table)
	}
}

// A recorded rate of tokens needs no times of requests.
func TestServeRate(t *testing.T) {
	data := filepath.Join("..", "..", "replay", "serving", "data")
	out := must(t, "serve", filepath.Join(data, "sharegpt-300.csv"), "--series", filepath.Join(data, "vllm-h100-series.csv"), "--hardware", "h100",
		"--model", "llama-3.1-70b", "--tensor-parallel", "4", "--systems", "vllm-recompute", "--engine", "vllm-0.8", "--format", "json")
	var results []struct {
		Recorded []struct {
			Figure                    string
			Recorded, Modelled, Error float64
		}
	}
	fatal.If(t, json.Unmarshal([]byte(out), &results))
	of := results[0].Recorded
	if len(of) != 2 || of[0].Figure != "tokens/s over time" || of[1].Figure != "last token" || of[1].Recorded != 46 {
		t.Fatalf("figures %v, expected a rate and the last token at 46 s", of)
	}
	if rate := of[0]; math.Abs(rate.Recorded-1733.8) > 0.1 || !(rate.Error > 0 && rate.Error < 0.1) {
		t.Errorf("a rate of %g tokens/s and an error of %g, expected 1733.8 and less than 0.1", rate.Recorded, rate.Error)
	}
}

// The page of 10,000 requests is small. It has the same bytes at any parallelism, and the name of a
// file is no markup. Each figure has its data and its command. In a browser it has no fault.
func TestServeHTML(t *testing.T) {
	dir := t.TempDir()
	requests := strings.Builder{}
	requests.WriteString("TIMESTAMP,ContextTokens,GeneratedTokens,Class\n")
	for i := range 10_000 {
		fmt.Fprintf(&requests, "2023-11-16 18:%02d:%02d.%02d00000,%d,3,%s\n", i/6000, i/100%60, i%100, 20+i%50, []string{"code", "chat"}[i%2])
	}
	path := filepath.Join(dir, "<img src=x onerror=alert(1)>&\".csv")
	fatal.If(t, os.WriteFile(path, []byte(requests.String()), 0o600))
	args := []string{"serve", path, "--model", "llama-3.1-8b", "--systems", "vllm-recompute,vllm-swap,hcache", "--slo", "tpot=60ms,ttft=5s", "--slo", "chat:ttft=1s", "--format", "html", "-o"}
	write := func(processors int) (string, string) {
		t.Helper()
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		file := filepath.Join(dir, "serve.html")
		if out := must(t, append(args, file)...); out != "" {
			t.Errorf("stdout with -o: %.200s", out)
		}
		return content(t, file), file
	}
	one, _ := write(1)
	page, file := write(4)
	if one != page {
		t.Error("the page depends on the number of processors")
	}
	if len(page) > 300_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
	const figures, sumLength = 7, 64
	if strings.Contains(page, "<img") || strings.Count(page, "<summary>Values</summary>") != figures || strings.Count(page, "<code>kvreplay serve &#39;") != figures+1 {
		t.Error("the page lacks a figure, or the name of a file is markup")
	}
	_, sum, found := strings.Cut(page, ".csv: SHA-256 ")
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte(requests.String()))); !found || sum[:sumLength] != want {
		t.Errorf("SHA-256 %.64s, expected %s", sum, want)
	}
	for _, want := range []string{`<p class="finding">The share of requests within the limits of vllm-recompute and`, "Points over time stand for spans of 536.9 ms", "GPU memory of hcache", "<caption>Classes</caption>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if code, _, stderr := run(append(args, path)...); code != 2 || !strings.Contains(stderr, "also an input") {
		t.Errorf("-o the input: exit %d: %s", code, stderr)
	}
	if testing.Short() {
		return
	}
	b := browsertest.New(t)
	b.Open(file)
	for _, text := range append(b.Violations(375), b.Complaints()...) {
		t.Error(text)
	}
	var downloads []string
	b.Eval(`(async () => {
		const texts = [], make = URL.createObjectURL;
		URL.createObjectURL = (blob) => { texts.push(blob.text()); return "blob:none"; };
		HTMLAnchorElement.prototype.click = function () {};
		document.querySelectorAll(".csv").forEach((button) => button.click());
		return Promise.all(texts);
	})()`, &downloads)
	if len(downloads) != figures+2 || !strings.HasPrefix(downloads[1], "share of requests (%),vllm-recompute,vllm-swap,hcache\n1,") || strings.Count(downloads[1], "\n") != 100 {
		t.Errorf("%d files of figures: %.200q", len(downloads), downloads)
	}
}

// Systems that select entries decode long contexts in less time than dense attention, and hold less
// KV. A slower link makes those that fetch misses slower.
func TestServeSparse(t *testing.T) {
	data := filepath.Join("..", "..", "datasets")
	args := []string{"serve", filepath.Join(data, "requests", "testdata", "mooncake_conversation_300.jsonl.gz"), "--hardware", "h200", "--model", "llama-3.1-8b",
		"--systems", "vllm-recompute,ess,hisparse", "--traces", filepath.Join(data, "corpus", "selectors_qa_text.exact.parquet"), "--format", "json"}
	decode := func(more ...string) (r []serving.Result) {
		t.Helper()
		if err := json.Unmarshal([]byte(must(t, append(args, more...)...)), &r); err != nil || len(r) != 3 {
			t.Fatal(len(r), err)
		}
		return r
	}
	fast := decode()
	for _, r := range fast[1:] {
		if r.TPOT.P50 >= fast[0].TPOT.P50 || r.KV >= fast[0].KV {
			t.Errorf("%s: TPOT %d and %g blocks, dense %d and %g", r.System, r.TPOT.P50, r.KV, fast[0].TPOT.P50, fast[0].KV)
		}
	}
	args = append(args[:2:2], args[4:]...)
	slow := decode("--gpu", "h200", "--link", "pcie3")
	if slow[2].TPOT.Mean <= fast[2].TPOT.Mean {
		t.Errorf("hisparse on PCIe 3: TPOT %d, on PCIe 5 %d", slow[2].TPOT.Mean, fast[2].TPOT.Mean)
	}
}

// The cache of a system that selects entries is sized by the memory of the engine: as many requests as
// --cache-batch run at their longest, and none is preempted. A stated number of blocks limits it too.
func TestServeCacheFits(t *testing.T) {
	data := filepath.Join("..", "..", "datasets")
	file := filepath.Join(t.TempDir(), "a.csv")
	text := "TIMESTAMP,ContextTokens,GeneratedTokens\n" + strings.Repeat("2023-11-16 18:15:46.0,30000,2700\n", 16)
	fatal.If(t, os.WriteFile(file, []byte(text), 0o600))
	for _, more := range [][]string{nil, {"--reserve", "0"}, {"--kv-blocks", "3000"}} {
		var r []serving.Result
		args := append([]string{"serve", file, "--hardware", "h100", "--gpu-memory", "28GB", "--model", "llama-3.1-8b", "--systems", "ess", "--cache-batch", "16",
			"--context", "32768", "--traces", filepath.Join(data, "corpus", "selectors_qa_text.exact.parquet"), "--format", "json"}, more...)
		fatal.If(t, json.Unmarshal([]byte(must(t, args...)), &r))
		if s := r[0]; s.MostRunning != 16 || s.Preemptions > 0 || float64(s.MostKV) < 0.9*float64(s.Blocks) {
			t.Errorf("%v: %d of 16 requests run at once, %d are preempted, and they use %d of %d blocks", more, s.MostRunning, s.Preemptions, s.MostKV, s.Blocks)
		}
	}
}

// A system that attends on the host keeps no KV on the GPU, so a request takes one block.
func TestServeHostAttention(t *testing.T) {
	data := filepath.Join("..", "..", "datasets")
	var r []serving.Result
	out := must(t, "serve", served[1], "--hardware", "h200", "--model", "llama-3.1-8b", "--systems", "magicpig",
		"--traces", filepath.Join(data, "corpus", "selectors_qa_text.magicpig.parquet"), "--format", "json")
	fatal.If(t, json.Unmarshal([]byte(out), &r))
	if r[0].Requests != 300 || r[0].MostKV > 2*r[0].MostRunning || !strings.Contains(out, "keeps the KV of 0 tokens on the GPU") {
		t.Errorf("%d requests, %d blocks for %d running requests: %s", r[0].Requests, r[0].MostKV, r[0].MostRunning, r[0].Notes)
	}
}

// The plots of a page are means over the seeds, with the smallest and the largest value. The values
// under the plot of the first tokens are those of the seeds alone.
func TestServePageOfSeeds(t *testing.T) {
	args := []string{"serve", classes, "--hardware", "a100-80", "--model", "llama-2-13b", "--systems", "vllm-recompute", "--burstiness", "0.5", "--format"}
	page := must(t, append(args, "html", "--repeats", "5")...)
	want := "Lines of plots are means over 5 seeds, with the smallest and the largest value. The second table is of seed 0"
	if !strings.Contains(page, want) {
		t.Errorf("the page lacks %q", want)
	}
	_, values, found := strings.Cut(page, "\n<tr><td>50</td>")
	if !found {
		t.Fatal("the page lacks the values of the median")
	}
	var mean, low, high float64
	if _, err := fmt.Sscanf(values, "<td>%f</td><td>%f</td><td>%f</td>", &mean, &low, &high); err != nil {
		t.Fatal(err, values[:60])
	}
	sum, least, most := 0., math.Inf(1), 0.
	for seed := range 5 {
		var r []serving.Result
		fatal.If(t, json.Unmarshal([]byte(must(t, append(args, "json", "--seed", fmt.Sprint(seed))...)), &r))
		s := float64(r[0].TTFT.P50) / 1e9
		sum, least, most = sum+s/5, min(least, s), max(most, s)
	}
	if near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-3*b }; !near(mean, sum) || !near(low, least) || !near(high, most) || !(low < high) {
		t.Errorf("median %g, %g to %g, expected %g, %g to %g", mean, low, high, sum, least, most)
	}
}

// The SHA-256 on a page cover the user's systems and hardware, which change the results.
func TestPageSums(t *testing.T) {
	systems, machines, variable := t.TempDir(), t.TempDir(), t.TempDir()
	mine := filepath.Join(systems, "mine.yaml")
	write := func(path, text string) (footnote string) {
		t.Helper()
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		return fmt.Sprintf("%s: SHA-256 %x", path, sha256.Sum256([]byte(text)))
	}
	model, err := os.ReadFile(filepath.Join("..", "..", "replay", "hardware", "data", "models", "llama-2-13b.yaml"))
	fatal.If(t, err)
	own := write(filepath.Join(machines, "model.yaml"), string(model))
	other := write(filepath.Join(variable, "model.yml"), string(model)+"\n")
	trace := filepath.Join("..", "..", "datasets", "corpus", "selectors_qa_text.exact.parquet")
	for _, args := range [][]string{
		{"serve", classes, "--hardware", "a100-80", "--model", "llama-2-13b", "--systems", "mine"},
		{"systems", trace, "--model", "llama-2-13b", "--context", "4096", "--systems", "mine"},
	} {
		for _, text := range []string{"name: mine\nsource: a file\nschedule: dense\n", "name: mine\nsource: another file\nschedule: dense\n"} {
			footnote := write(mine, text)
			args := append(args, "--systems-dir", systems, "--format", "html")
			if page := must(t, append(args, "--hardware-dir", machines)...); !strings.Contains(page, footnote) || !strings.Contains(page, own) {
				t.Errorf("%s: the page lacks %q or %q", args[0], footnote, own)
			}
			t.Setenv("KVREPLAY_HARDWARE_DIR", variable)
			if page := must(t, args...); !strings.Contains(page, other) {
				t.Errorf("%s: the page lacks %q", args[0], other)
			}
			t.Setenv("KVREPLAY_HARDWARE_DIR", "")
		}
	}
	if code, _, stderr := run("serve", classes, "--model", "llama-2-13b", "--systems", "mine", "--systems-dir", systems, "-o", mine); code != 2 || !strings.Contains(stderr, "also an input") {
		t.Errorf("-o a file of systems: exit %d: %s", code, stderr)
	}
}
