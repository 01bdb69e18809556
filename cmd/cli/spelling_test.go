package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

const sglangTrace = "../../datasets/bundled/smollm2_niah_1k_sglang.parquet"

// Names are found in any case and by their aliases. The output has the canonical name.
func TestSpellings(t *testing.T) {
	out := t.TempDir()
	must(t, "replay", sglangTrace, "--policy", "LRU,Belady,S3FIFO,Second-Chance,Window:1-2", "--capacity", "1.5x,2x", "--per", "stream", "--profile", "--out", out)
	if all := must(t, "replay", sglangTrace, "--policy", "ALL", "--capacity", "2x"); all != must(t, "replay", sglangTrace, "--policy", "all", "--capacity", "2x") {
		t.Errorf("--policy ALL:\n%s", all)
	}
	for _, c := range []struct{ args, want string }{
		{"compare LRU belady " + out, "A = lru against B = opt"},
		{"leaderboard " + out + " --hardware 4090 --schedule Sequential --model SmolLM2-135M-Instruct --where policy=S3-FIFO --where policy=OPT", "rtx4090"},
		{"time " + out + " --policy Belady --capacity 2x --layer-map nearest --hardware H100 --schedule infinigen", "smollm2-135m on h100, batch 1, prefetch:accuracy=1"},
		{"plan " + out + " --policy S3fifo --layer-map nearest --max-batch 2 --steps 2 --hardware A100_80GB --schedule KVDrive", "s3-fifo:small=0.1"},
		{"allocate " + out + " --policy LRU --memory 2x --method 2D_Greedy", "2d-greedy"},
		{"time --prompt 256 --generate 8 --model deepseek-ai/DeepSeek-V3.2-Exp --hardware RTX-4090 --schedule KVPR", "deepseek-v3.2 on rtx4090, batch 1, kvpr:"},
		{"hardware show DeepSeek-V3.2", "model deepseek-v3.2:"},
		{"hardware show GeForce-RTX-4090", "machine rtx4090:"},
		{"policies describe Belady", "opt: the exact optimum"},
		{"datasets describe SmolLM2_niah_1k_SGLang", "smollm2_niah_1k_sglang"},
		{"reproduce KVPR --section Kvpr/none --format csv", ""},
	} {
		code, stdout, stderr := run(strings.Fields(c.args)...)
		if c.want == "" {
			if !strings.Contains(stderr, `unknown section "Kvpr/none"`) {
				t.Errorf("%s: %s", c.args, stderr)
			}
		} else if code != 0 || !strings.Contains(unbroken(stdout), c.want) {
			t.Errorf("%s: exit %d, %s%s\nexpected %q", c.args, code, stdout, stderr, c.want)
		}
	}
}

// An alias of several schedules is an error that lists them. Help lists all aliases.
func TestAmbiguousSpelling(t *testing.T) {
	says(t, 2, `schedule "ESS" is ambiguous, did you mean da or dba or layerwise?`, "time", "--prompt", "256", "--generate", "8", "--model", "opt-13b", "--schedule", "ESS")
	if help := must(t, "time", "--help-all"); !strings.Contains(help, "prefetch (infinigen)") {
		t.Errorf("help does not say that infinigen is prefetch:\n%s", help)
	}
}

// If --where removes the rows of a policy that a command needs, the error says so and states
// conditions that work.
func TestWhereRemovesPolicy(t *testing.T) {
	rows := filepath.Join(t.TempDir(), "my rows")
	must(t, "replay", sglangTrace, "--policy", "lru,fifo,opt", "--capacity", "2x", "--per", "request", "--out", rows)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"leaderboard", rows, "--where", "policy=lru"}, "--where excludes the 1 row of policy opt, which this command needs: use --where policy=lru --where policy=opt\n"},
		{[]string{"leaderboard", rows, "--where", "policy!=opt"}, "of policy opt, which this command needs: remove --where\n"},
		{[]string{"compare", "lru", "fifo", rows, "--where", "policy=lru", "--where", "seed!=7"}, "of policy fifo, which this command needs: use --where policy=lru --where 'seed!=7' --where policy=fifo\n"},
		{[]string{"compare", "lru", "fifo", rows, "--where", "policy!=fifo", "--where", "capacity=2x"}, "of policy fifo, which this command needs: use --where capacity=2x\n"},
		{[]string{"leaderboard", rows, "--where", "policy=ltu"}, "fifo, lru, opt, did you mean lru?"},
		{[]string{"compare", "lru", "sieve", rows, "--where", "policy=lru"}, `no rows of policy "sieve"`},
	} {
		says(t, 1, c.want, c.args...)
	}
	for _, args := range [][]string{{"--where", "policy=lru", "--where", "policy=opt"}, {"--where", "capacity=2x"}} { // the conditions that the errors suggest
		must(t, append([]string{"leaderboard", rows}, args...)...)
	}
}

// The error for an unknown field offers the nearest one, everywhere.
func TestUnknownFieldsAreOffered(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	rows := filepath.Join(dir, "rows.jsonl")
	must(t, "replay", sglangTrace, "--policy", "lru,opt", "--capacity", "2x,3x", "--per", "stream", "--out", dir)
	plan := filepath.Join(dir, "plan.yaml")
	must(t, "allocate", dir, "--policy", "lru", "--memory", "2x", "--method", "uniform", "-o", plan)
	text, err := os.ReadFile(plan)
	fatal.If(t, err)
	write("rows.jsonl", `{"schema":1,"trase":"t"}`+"\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"leaderboard", dir, "--where", "polici=lru"}, `unknown field "polici", did you mean policy?`},
		{[]string{"leaderboard", rows}, `unknown field "trase", did you mean trace?`},
		{[]string{"leaderboard", write("rows.csv", "schema,trace,mises\n")}, `unknown field "mises", did you mean misses?`},
		{[]string{"replay", sglangTrace, "--allocation", write("bad.yaml", strings.Replace(string(text), "method:", "metod:", 1))}, `unknown field "metod", did you mean method?`},
		{[]string{"replay", sglangTrace, "--clusters", write("clusters.jsonl", `{"request_id":"r","layer_idd":0}`+"\n")}, `unknown field "layer_idd", did you mean layer_id?`},
		{[]string{"hardware", "check", write("gpu.yaml", "kind: gpu\nname: g\ntitl: G\n")}, `unknown key "titl", did you mean title?`},
	} {
		if code, _, stderr := run(c.args...); code == 0 || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit %d, %s\nexpected %q", c.args, code, stderr, c.want)
		}
	}
}

// A policy that was replayed by its name is found by its name in rows and profiles.
func TestPoliciesByName(t *testing.T) {
	out := t.TempDir()
	must(t, "replay", "../../datasets/bundled/smollm2_niah_1k_sglang.parquet", "--policy", "opt,lru,s3-fifo,lfu-decay:half_life=4,lfu-decay:half_life=8",
		"--capacity", "1.5x,2x", "--per", "stream", "--profile", "--out", out)
	for _, args := range [][]string{
		{"compare", "s3-fifo", "lru", out},
		{"time", out, "--policy", "s3-fifo", "--capacity", "2x", "--layer-map", "nearest"},
		{"plan", out, "--policy", "s3-fifo,lru", "--layer-map", "nearest", "--max-batch", "2", "--steps", "2", "--every-cell"},
		{"allocate", out, "--policy", "s3-fifo", "--memory", "2x"},
		{"leaderboard", out, "--where", "policy=s3-fifo", "--where", "policy=opt"},
	} {
		if got := must(t, args...); !strings.Contains(got, "s3-fifo:small=0.1") {
			t.Errorf("%v does not say whose figures these are:\n%s", args, got)
		}
	}
	if _, _, stderr := run("compare", "lfu-decay", "lru", out); !strings.Contains(stderr, "did you mean lfu-decay:half_life=4 or lfu-decay:half_life=8?") {
		t.Errorf("a name of two policies: %s", stderr)
	}
}
