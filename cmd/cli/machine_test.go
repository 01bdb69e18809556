package cli_test

import (
	"encoding/csv"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

const modelConfigs = "../../replay/hardware/testdata/config"

// A config.json of a bundled shape gives the same times, with a label. The parts of a
// bundled machine do as well.
func TestModelAndMachineWithoutFiles(t *testing.T) {
	out := t.TempDir()
	must(t, "replay", sglangTrace, "--policy", "lru", "--capacity", "2x", "--profile", "--out", out)
	figures := func(args ...string) []string {
		args = append([]string{"time", out, "--topk", "2048", "--context", "64K", "--layer-map", "stretch", "--steps", "4", "--format", "csv"}, args...)
		table, _ := kvreplay(t, 0, args...)
		lines, err := csv.NewReader(strings.NewReader(table)).ReadAll()
		fatal.If(t, err)
		return lines[1]
	}
	config := filepath.Join(modelConfigs, "deepseek-v3.2")
	named := figures("--model", "deepseek-v3.2", "--hardware", "h100")
	same := 0
	for i, got := range figures("--model", config, "--gpu", "h100", "--gpus", "8", "--host-memory", "2048GB", "--link", "pcie5", "--expert-gpus", "32") {
		if got == named[i] {
			same++
		} else if i > 0 && !strings.Contains(got, "config.json") && !strings.Contains(got, "8 × h100") {
			t.Errorf("column %d is %s, with names %s", i, got, named[i])
		}
	}
	if same < 20 {
		t.Errorf("only %d columns are equal", same)
	}
	for _, folder := range []string{config, filepath.Join(config, "config.json")} {
		text := must(t, "hardware", "price", "--model", folder, "--blocks", "64", "--format", "json")
		if want := must(t, "hardware", "price", "--entry-bytes", "656", "--blocks", "64", "--format", "json"); text != want {
			t.Errorf("%s:\n%s\nexpected\n%s", folder, text, want)
		}
	}
	plan := must(t, "plan", out, "--model", config, "--gpu", "h200", "--host-memory", "1TB", "--topk", "2048", "--context", "64K", "--layer-map", "stretch", "--steps", "2", "--max-batch", "4", "--schedule", "da")
	for _, want := range []string{"derived from config.json] deepseek-v3.2 on 4 × h200 with pcie5-x16 and 1 TB", "note: machine of parts", "assumed as in machine h200"} {
		if !strings.Contains(unbroken(plan), want) {
			t.Errorf("plan lacks %q:\n%s", want, plan)
		}
	}
}

// A bridge makes two GPUs faster, and does not join four. Two H800 beat two H100 over PCIe.
func TestBridge(t *testing.T) {
	reduced := func(args ...string) float64 {
		args = append([]string{"time", "--prompt", "1024", "--generate", "4", "--batch", "16", "--model", "llama-2-13b", "--schedule", "dense", "--format", "json"}, args...)
		results := decoded[[]struct {
			Exposed struct {
				AllReduce float64 `json:"all_reduce"`
			} `json:"exposed_s"`
		}](t, args...)
		return results[0].Exposed.AllReduce
	}
	pcie := []string{"--gpu", "h100-pcie", "--gpus", "4"}
	bridged := append([]string{"--bridge"}, pcie...)
	two := []string{"--tensor-parallel", "2"}
	slow, fast := reduced(append(two, pcie...)...), reduced(append(two, bridged...)...)
	if !(fast > 0 && 2*fast < slow) {
		t.Errorf("all-reduces of two GPUs take %g s, and %g s over a bridge", slow, fast)
	}
	const joins = "--bridge joins two GPUs, but 4 exchange data: remove it, or choose 2"
	for _, parallel := range []string{"--tensor-parallel 4", "--pipeline-parallel 4", "--model mixtral-8x7b --expert-gpus 4"} {
		args := append(strings.Fields("time --prompt 1024 --generate 4 --batch 16 --model llama-2-13b --schedule dense "+parallel), bridged...)
		says(t, 1, joins, args...)
	}
	says(t, 2, joins, "hardware", "collective", "--hardware", "h100-pcie", "--gpus", "4", "--bridge")
	if h800 := reduced("--hardware", "h800", "--tensor-parallel", "2"); !(h800 > fast && h800 < slow) {
		t.Errorf("all-reduces of two H800 take %g s, of two H100 over PCIe %g s and over a bridge %g s", h800, slow, fast)
	}
	text := must(t, "hardware", "collective", "--hardware", "h100-pcie", "--gpus", "2", "--bridge")
	if !strings.Contains(text, "300 GB/s") {
		t.Errorf("collectives over a bridge:\n%s", text)
	}
	if code, _, stderr := run("hardware", "collective", "--hardware", "l40s", "--gpus", "2", "--bridge"); code != 2 || !strings.Contains(stderr, "remove --bridge") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// Bad parts and models are errors of the command line that state the remedy.
func TestMachineFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--gpu h100 --hardware h100":              "remove one of them",
		"--gpus 8":                                "--gpus needs --gpu",
		"--host-memory 2TB":                       "--host-memory needs --gpu",
		"--bridge":                                "--bridge needs --gpu",
		"--gpu l40s --bridge":                     "GPU l40s states no bridge_bandwidth",
		"--gpu h100 --gpus 0":                     "--gpus 0: expected at least 1",
		"--gpu h100 --gpus 2 --tensor-parallel 4": "divided among 4 GPUs, but --gpus states 2",
		"--gpu h100 --gpus 2 --batch 8 --pipeline-parallel 8": "divided among 8 GPUs, but --gpus states 2",
		"--hardware h100,H100-SXM":                            "--hardware names H100-SXM twice",
		"--gpu h100 --gpus 100000":                            "expected 1 to 1024",
		"--gpu h100 --host-memory 99999999999GB":              "expected at most 1PiB",
		"--gpu h100 --host-memory 1e30":                       "expected whole bytes",
		"--gpu h100 --host-memory 2":                          "expected at least 1GB",
		"--gpu h1000000":                                      "unknown gpu",
		"--gpu h100 --link pcie9":                             "unknown link",
		"--gpu l4 --link pcie5-x16-vm":                        "kernel takes 132 SMs, but GPU l4 has 60: choose another",
		"--model nothing/config.json":                         "no such file",
		"--model " + modelConfigs:                             "has no config.json: name the file",
		"--context 64Q":                                       "expected a number of tokens, as in 32768 or 64K",
		"--context 9223372036854775807K":                      "expected a number of tokens",
	} {
		full := append(strings.Fields("time --prompt 64 --generate 4 --schedule dense --model llama-3-8b"), strings.Fields(args)...)
		if code, _, stderr := run(full...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %sexpected %q", args, code, stderr, want)
		}
	}
	if code, _, stderr := run("hardware", "price", "--model", "llama-3-8b", "--entry-bytes", "5", "--blocks", "1"); code != 2 || !strings.Contains(stderr, "remove one of them") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}
