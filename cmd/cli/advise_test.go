package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/corpus"
	"github.com/kvreplay/kvreplay/internal/fatal"
)

// adviceJSON is the part of the JSON form that tests read.
type adviceJSON struct {
	Version int    `json:"advice_version"`
	Machine string `json:"machine"`
	Why     string `json:"why"`
	Trace   string `json:"trace"`
	Steps   int    `json:"steps"`
	Advice  []struct {
		Machine string   `json:"machine"`
		TopK    int      `json:"top_k"`
		Labels  []string `json:"labels"`
		Dollars *float64 `json:"dollars_per_million_tokens"`
		Advised struct {
			Policy string  `json:"policy"`
			Batch  int     `json:"batch"`
			GPUs   int     `json:"expert_gpus"`
			Tokens float64 `json:"tokens_per_s_gpu"`
			TPOT   float64 `json:"tpot_s"`
		} `json:"advised"`
		OnGPU   map[string]any `json:"all_on_gpu"`
		Reasons []string       `json:"reasons"`
	} `json:"advice"`
	Refused []struct {
		Machine string `json:"machine"`
		Reason  string `json:"reason"`
	} `json:"refused"`
}

// quickly prices few cells.
var quickly = []string{"--capacity", "1x,4x", "--policy", "lru,lookahead", "--schedule", "sequential,gpu", "--steps", "2"}

func adviseJSON(t *testing.T, args ...string) (a adviceJSON) {
	t.Helper()
	args = append(append([]string{"advise", "--format", "json"}, quickly...), args...)
	stdout, _ := kvreplay(t, 0, args...)
	fatal.If(t, json.Unmarshal([]byte(stdout), &a))
	return a
}

// The answer is one paragraph with the configuration to paste and the confidence.
func TestAdvise(t *testing.T) {
	args := append(strings.Fields("advise --hardware H100 --model DeepSeek-V3.2 --context 64K --slo 50ms"), quickly...)
	out := must(t, args...)
	paragraph, rest, _ := strings.Cut(out, "\n\n")
	paragraph = strings.ReplaceAll(paragraph, "\n", " ")
	for _, want := range []string{"[K scaled ×8, layers stretched", "deepseek-v3.2 on h100 (32 GPUs share the experts) with a context of 65,536 tokens and a TPOT of at most 50 ms", " × K = ", " evict by lru", "tokens/s per GPU at a TPOT of ",
		"The errors of the model allow up to ", "beyond that limit.", "A larger batch is limited by ", "No other policy is known to be better than LRU: lookahead has ", "SGLang, TensorRT-LLM and vLLM evict by LRU", "With all KV on the GPU it is "} {
		if !strings.Contains(paragraph, want) {
			t.Errorf("the paragraph lacks %q:\n%s", want, paragraph)
		}
	}
	for _, want := range []string{`SGLang: --enable-hisparse --hisparse-config '{"top_k": 2048, "device_buffer_size": `, "TensorRT-LLM: SparseKvCacheOffloadConfig(gpu_cache_factor=", "could not be confirmed",
		`vLLM: --max-num-seqs `, `"HiSparseConnector"`, "Confidence: low, because\n- the bundled trace, because --trace names none, has 6 requests of SmolLM2"} {
		if !strings.Contains(rest, want) {
			t.Errorf("the answer lacks %q:\n%s", want, rest)
		}
	}
}

// Several machines have a line each. The one with most tokens/s is advised, or the cheapest.
func TestAdviseMachines(t *testing.T) {
	args := []string{"--hardware", "h100,H200,rtx4090", "--model", filepath.Join(modelConfigs, "deepseek-v3.2", "config.json"), "--context", "64K", "--slo", "40ms", "--gpu-memory", "80GB"}
	a := adviseJSON(t, args...)
	if len(a.Advice)+len(a.Refused) != 3 || a.Why == "" || a.Advice[0].Dollars != nil || a.Steps != 2 {
		t.Fatalf("%+v", a)
	}
	for _, m := range a.Advice {
		if m.Advised.TPOT > 0.04 || m.TopK != 2048 || !strings.Contains(strings.Join(m.Labels, ","), "derived from config.json") {
			t.Errorf("%+v", m)
		}
		for _, other := range a.Advice {
			if m.Advised.GPUs != other.Advised.GPUs {
				t.Errorf("%d GPUs of %s share experts, and %d of %s", m.Advised.GPUs, m.Machine, other.Advised.GPUs, other.Machine)
			}
			if m.Machine == a.Machine && other.Advised.Tokens > m.Advised.Tokens {
				t.Errorf("advised %s, but %s is faster", m.Machine, other.Machine)
			}
		}
	}
	a = adviseJSON(t, append(args, "--dollars-per-hour", "h100=2,H200=40,4090=9")...)
	for _, m := range a.Advice {
		price := map[string]float64{"h100": 2, "h200": 40, "rtx4090": 9}[m.Machine]
		if want := price / 3600 / m.Advised.Tokens * 1e6; m.Dollars == nil || *m.Dollars < want*0.999 || *m.Dollars > want*1.001 {
			t.Errorf("%s: %v dollars, expected %g", m.Machine, m.Dollars, want)
		}
	}
	if a.Machine != "h100" || !strings.HasPrefix(a.Why, "its tokens cost least") {
		t.Errorf("advised %s, because %s", a.Machine, a.Why)
	}
	out := must(t, append(append([]string{"advise"}, quickly...), append(args, "--dollars-per-hour", "2.5")...)...)
	if !strings.Contains(out, "$/million tokens") || !strings.Contains(out, "Advised: h") || strings.Count(out, " a TPOT of at most 40 ms") != 1 {
		t.Error(out)
	}
}

// Steps beyond the trace have no misses to price.
func TestAdviseStepsOfTheTrace(t *testing.T) {
	code, _, stderr := run("advise", "--model", "deepseek-v3.2", "--policy", "lru", "--capacity", "1x", "--schedule", "sequential", "--steps", "1000000")
	if code != 2 || !strings.Contains(stderr, "--steps 1000000: the requests of the trace have at most ") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

// A trace of the user gives other reasons.
func TestAdviseTrace(t *testing.T) {
	a := adviseJSON(t, "--trace", sglangTrace, "--model", "deepseek-v3.2", "--context", "32K", "--gpu", "h200", "--gpus", "8", "--host-memory", "2TB")
	reasons := strings.Join(a.Advice[0].Reasons, "\n")
	for _, want := range []string{"the trace has one request", "K scaled ×32", "parts of the machine are assumed"} {
		if !strings.Contains(reasons, want) {
			t.Errorf("%q lacks %q", reasons, want)
		}
	}
	for _, name := range []string{"cache_tokens", "cache_share", "cache_bytes_request"} {
		if v, ok := a.Advice[0].OnGPU[name]; ok || len(a.Advice[0].OnGPU) == 0 {
			t.Errorf("with all KV on the GPU %s is %v, expected none", name, v)
		}
	}
	if a.Trace != sglangTrace || a.Advice[0].Advised.Policy != "lru" || a.Advice[0].Machine != "8 × h200 with pcie5-x16 and 2 TB" {
		t.Errorf("%+v", a)
	}
}

// Without --topk, advise and systems select equally many tokens, whatever the trace's share of its context.
func TestAdviseSelectsAsSystems(t *testing.T) {
	for _, c := range []struct {
		model, context string
		want           int
	}{{"llama-3.1-8b", "16384", 256}, {"llama-3.1-8b", "100", 1}, {"llama-3.1-8b", "63", 1}, {"deepseek-v3.2", "16384", 2048}, {"deepseek-v3.2", "1024", 1024}} {
		args := []string{"--model", c.model, "--context", c.context, "--gpu", "b200", "--gpus", "8", "--host-memory", "4TB"}
		advised := adviseJSON(t, slices.Concat([]string{"--trace", sglangTrace}, args)...)
		code, stdout, stderr := run(slices.Concat([]string{"systems", sglangTrace, "--systems", "hisparse", "--format", "json"}, args)...)
		var compared []struct{ TopK int }
		if err := json.Unmarshal([]byte(stdout), &compared); code != 0 || err != nil || len(compared) == 0 {
			t.Fatal(code, err, stdout, stderr)
		}
		if a, s := advised.Advice[0].TopK, compared[0].TopK; a != c.want || s != c.want {
			t.Errorf("%s at a context of %s: K %d in advise, %d in systems, expected %d", c.model, c.context, a, s, c.want)
		}
	}
}

// The bundled trace is that of the corpus.
func TestAdviseEmbedded(t *testing.T) {
	file, err := os.ReadFile(filepath.Join("..", "..", "datasets", "corpus", corpus.EmbeddedFile))
	if err != nil || string(file) != string(corpus.Embedded) {
		t.Errorf("%s differs from the embedded one: %v", corpus.EmbeddedFile, err)
	}
}

// Bad input is an error that states the remedy.
func TestAdviseRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"empty.json": "", "list.json": "[]"} {
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	fatal.If(t, os.WriteFile(filepath.Join(dir, "huge.json"), make([]byte, 2<<20), 0o644))
	const model = "--model deepseek-v3.2 "
	for args, want := range map[string]string{
		"":                                   "--model missing: name a shape",
		"--model deepseek-v9":                `unknown model "deepseek-v9", did you mean`,
		"--model " + dir + "/empty.json":     "is empty: expected the config.json",
		"--model " + dir + "/list.json":      "cannot unmarshal",
		"--model " + dir + "/huge.json":      "expected at most 1048576",
		model + "--slo 0s":                   "--slo 0s: expected more than 0",
		model + "--slo 50":                   "expected a time with its unit",
		model + "--slo 100us --context 64K":  "the SLO is 100 us; raise the SLO, ",
		model + "--gpu-memory 20MB":          "of 20 MB; shorten the context, give more memory, ",
		model + "--context 1M":               "expected at most 163840, the context of deepseek-v3.2",
		model + "--context 0":                "--context 0: expected at least 1",
		model + "--hardware h9000":           "unknown machine",
		model + "--capacity 0.2ctx":          "expected a multiple of K",
		model + "--policy opt":               "expected exact policies",
		model + "--policy window:2":          "expected exact policies",
		model + "--policy h2o":               "expected exact policies",
		model + "--policy lur":               `unknown policy "lur"`,
		model + "--schedule fast":            "unknown schedule",
		model + "--trace missing.parquet":    "no such file",
		model + "--dollars-per-hour h200=3":  "expected one of the machines h100",
		model + "--dollars-per-hour zero":    "expected a price of a GPU",
		model + "--dollars-per-hour h100=-1": "expected a price of a GPU",
		model + "--dollars-per-hour 2,3":     "expected one price, or one for each machine",
		model + "--gpu h100 --hardware h200": "remove one of them",
		model + "--max-batch 0":              "--max-batch 0: expected at least 1",
		model + "extra":                      "unexpected argument",
		model + "--hardware h100,H100-SXM":   "--hardware names H100-SXM twice",
	} {
		full := append([]string{"advise"}, strings.Fields(args)...)
		if !strings.Contains(args, "--capacity") && !strings.Contains(args, "--policy") && !strings.Contains(args, "--schedule") {
			full = append(full, quickly...)
		}
		if code, stdout, stderr := run(full...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s%sexpected %q", args, code, stdout, stderr, want)
		}
	}
}
