package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

const points = "../../replay/transfer/fit/testdata/gb300.csv"

// decoded runs a command that prints JSON.
func decoded[T any](t *testing.T, args ...string) (v T) {
	t.Helper()
	code, stdout, stderr := run(args...)
	if code != 0 {
		t.Fatalf("%v: exit %d: %s", args, code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &v); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// Every listed item can be shown, with status and source for each number.
func TestHardwareListAndShow(t *testing.T) {
	type item struct{ Kind, Name string }
	type shown struct {
		Kind, Name string
		Lines      []hardware.Line
	}
	items := decoded[[]item](t, "hardware", "list", "--format", "json")
	kinds := map[string]int{}
	for _, it := range items {
		kinds[it.Kind]++
		all := decoded[[]shown](t, "hardware", "show", it.Name, "--kind", it.Kind, "--format", "json")
		if all[0].Kind != it.Kind || all[0].Name != it.Name || len(all[0].Lines) == 0 {
			t.Errorf("%s %s is shown as %s %s with %d numbers", it.Kind, it.Name, all[0].Kind, all[0].Name, len(all[0].Lines))
		}
		for _, s := range all {
			for _, l := range s.Lines {
				if l.Status == "" || l.Source == "" || l.Text == "" {
					t.Errorf("%s: %+v", s.Name, l)
				}
			}
		}
	}
	for kind, least := range map[string]int{"machine": 15, "gpu": 15, "link": 7, "drive": 12, "host": 8, "model": 14} {
		if kinds[kind] < least {
			t.Errorf("%d of kind %s, expected %d or more", kinds[kind], kind, least)
		}
	}
	if all := decoded[[]shown](t, "hardware", "show", "h100", "--format", "json"); len(all) != 5 {
		t.Errorf("the machine is shown with %d parts, expected 4", len(all)-1)
	}
	code, text, _ := run("hardware", "show", "b200", "--kind", "gpu")
	for _, want := range []string{"7672 GB/s", "derived", "7680 bits", "[1] ", "pytorch/ao"} {
		if code != 0 || !strings.Contains(text, want) {
			t.Errorf("exit %d, no %q in\n%s", code, want, text)
		}
	}
}

const mine = `kind: gpu
name: mine
title: a test
sources: {here: "https://example.org"}
memory: {value: 24 GB, status: datasheet, source: here}
memory_bandwidth: {value: 1000 GB/s, status: datasheet, source: here}
bf16: {value: 100 TFLOP/s, status: datasheet, source: here}
sms: {value: 80, status: datasheet, source: here}
`

// A folder's files are found by flag and by environment variable, and checked. Errors name the
// lines.
func TestHardwareFolder(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mine.yaml")
	write := func(text string) {
		t.Helper()
		fatal.If(t, os.WriteFile(file, []byte(text), 0o644))
	}
	write(mine)
	if code, out, stderr := run("hardware", "check", file); code != 0 || out != file+": gpu mine, 4 numbers, sound\n" {
		t.Errorf("exit %d, %q, %s", code, out, stderr)
	}
	if code, out, _ := run("hardware", "show", "mine", "--hardware-dir", dir); code != 0 || !strings.Contains(out, "1000 GB/s") {
		t.Errorf("exit %d, %q", code, out)
	}
	says(t, 2, `unknown name "mine"`, "hardware", "show", "mine")
	t.Setenv(hardware.DirVariable, dir)
	if code, _, stderr := run("hardware", "show", "mine"); code != 0 {
		t.Errorf("exit %d, %s", code, stderr)
	}
	t.Setenv(hardware.DirVariable, filepath.Join(dir, "nowhere"))
	says(t, 1, "$"+hardware.DirVariable+": hardware folder: ", "hardware", "list")
	t.Setenv(hardware.DirVariable, dir)
	write(strings.Replace(strings.Replace(mine, "24 GB,", "24,", 1), "1000 GB/s", "-1 GB/s", 1))
	code, out, stderr := run("hardware", "list")
	if code != 1 || out != "" || !strings.Contains(stderr, "mine.yaml:5: memory") || !strings.Contains(stderr, "mine.yaml:6: memory_bandwidth") {
		t.Errorf("exit %d, %q, %s", code, out, stderr)
	}
}

// A fit prints constants, residuals and the leave-one-out error of each point. The YAML is a link's
// path.
func TestHardwareFit(t *testing.T) {
	type series struct {
		Series  string
		Launch  float64 `json:"launch_seconds"`
		Regimes []struct {
			Rate float64 `json:"bytes_per_second"`
		}
		WorstLeft *float64 `json:"worst_leave_one_out_error"`
	}
	all := decoded[[]series](t, "hardware", "fit", points, "--format", "json")
	if len(all) != 2 || all[0].Series != "tma" || *all[0].WorstLeft > .05 || all[0].Regimes[0].Rate < 200e9 || all[0].Regimes[0].Rate > 210e9 || all[0].Launch < 8e-6 || all[0].Launch > 10e-6 {
		t.Errorf("fitted %+v", all)
	}
	code, out, _ := run("hardware", "fit", points)
	for _, want := range []string{"tma", "register", "launch", "left out", "not determined by these points"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, no %q in\n%s", code, want, out)
		}
	}
	one := filepath.Join(t.TempDir(), "one.csv")
	fatal.If(t, os.WriteFile(one, []byte("block_bytes,blocks,seconds\n512,1,1e-6\n"), 0o600))
	if lone := decoded[[]series](t, "hardware", "fit", one, "--format", "json"); lone[0].WorstLeft != nil || !strings.Contains(must(t, "hardware", "fit", one), "left out n/a\n") {
		t.Errorf("a single point that cannot be left out: %+v", lone)
	}
	if code, out, _ := run("hardware", "fit", points, "--format", "yaml", "--source", "sglang"); code != 0 || !strings.Contains(out, "source: sglang") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// All paths of a machine and its drives are priced. A fetch from DRAM and SSD is priced at all
// levels, each no slower than the previous one.
func TestHardwarePrice(t *testing.T) {
	type path struct {
		Direction, Path string
		Seconds         float64
	}
	type price struct {
		Note   string
		Paths  []path
		Levels []struct {
			Level   string
			Seconds float64 `json:"exposed_seconds"`
		}
	}
	p := decoded[price](t, "hardware", "price", "--hardware", "h100", "--entry-bytes", "656", "--blocks", "2048", "--format", "json")
	if len(p.Paths) != 11 || p.Levels != nil { // 3 paths × 3 directions with both, SSD, DRAM
		t.Errorf("priced %+v", p)
	}
	// Parts of a bundled machine give its prices. A link that translates addresses takes longer.
	parts := []string{"hardware", "price", "--gpu", "h100", "--entry-bytes", "656", "--blocks", "2048", "--format", "json"}
	if same := decoded[price](t, append(parts, "--link", "pcie5")...); !slices.Equal(same.Paths, p.Paths) || !strings.Contains(same.Note, "assumed as in machine h100") {
		t.Errorf("with parts %+v, expected %+v", same, p)
	}
	virtual := decoded[price](t, append(parts, "--link", "pcie5-x16-vm")...)
	kernel := func(p price) float64 {
		i := slices.IndexFunc(p.Paths, func(r path) bool { return r.Direction == "h2d" && r.Path == "kernel" })
		return p.Paths[i].Seconds
	}
	if kernel(virtual) <= kernel(p) {
		t.Errorf("a fetch by kernel takes %g s in a virtual machine, %g s without", kernel(virtual), kernel(p))
	}
	p = decoded[price](t, "hardware", "price", "--hardware", "l20", "--entry-bytes", "512", "--block-tokens", "16", "--blocks", "300", "--from-ssd", "40", "--pinned", "10", "--layer-blocks", "8192", "--ahead-us", "200", "--format", "json")
	if len(p.Levels) != 4 {
		t.Fatalf("priced %+v", p)
	}
	for i := 1; i < 4; i++ {
		if p.Levels[i].Seconds > p.Levels[i-1].Seconds {
			t.Errorf("%+v is slower than the level before", p.Levels[i])
		}
	}
}

// Bad input is refused with a clear error, the right exit code and nothing on stdout.
func TestHardwareBadInput(t *testing.T) {
	price := func(args ...string) []string {
		return append([]string{"price", "--entry-bytes", "656", "--blocks", "10"}, args...)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"unknown command": {[]string{"lst"}, 2, "did you mean list?"},
		"unknown kind":    {[]string{"list", "--kind", "gpus"}, 2, "did you mean gpu?"},
		"unknown format":  {[]string{"list", "--format", "xml"}, 2, `--format "xml"`},
		"no name":         {[]string{"show"}, 2, "expected one name, got 0"},
		"two names":       {[]string{"show", "h100", "h200"}, 2, "expected one name, got 2"},
		"unknown name":    {[]string{"show", "h10"}, 2, "did you mean a10 or h100 or h20 or h100-nvl or h100-pcie?"},
		"unknown of one":  {[]string{"show", "zzz", "--kind", "link"}, 2, `unknown link "zzz"; known: gb300-c2c, gh200-c2c, pcie3-x16`},
		"name of a kind":  {[]string{"show", "h100", "--kind", "drive"}, 2, `unknown drive "h100"`},
		"no folder":       {[]string{"list", "--hardware-dir", "nowhere"}, 1, "nowhere"},
		"check no file":   {[]string{"check", "nowhere.yaml"}, 1, "nowhere.yaml"},
		"check a folder":  {[]string{"check", t.TempDir()}, 1, "is a folder"},
		"fit no file":     {[]string{"fit", "nowhere.csv"}, 1, "nowhere.csv"},
		"fit a trace":     {[]string{"fit", "../../datasets/bundled/smollm2_multi_news_8k.parquet"}, 1, "smollm2_multi_news_8k.parquet"},
		"fit sizes":       {[]string{"fit", points, "--from", "28KB/s"}, 2, `--from "28KB/s"`},
		"fit descending":  {[]string{"fit", points, "--from", "4KiB,1KiB"}, 2, "ascending"},
		"fit inline":      {[]string{"fit", points, "--inline"}, 2, "--batch"},
		"fit no points":   {[]string{"fit", points, "--from", "1MiB"}, 1, "no point has blocks of 1048576 bytes or more"},
		"fit link":        {[]string{"fit", points, "--link", "pcie9"}, 2, `unknown link "pcie9"`},
		"points":          {[]string{"points", "--only", "pcie5"}, 2, `--only "pcie5", did you mean pcie5-x16`},
		"points all":      {[]string{"points", "--only", "zzz"}, 2, "with measured points: gb300-c2c, gh200-c2c, pcie3-x16, "},
		"points machine":  {[]string{"points", "--only", "pcie5-x16,h100"}, 2, `--only "h100": expected a link or drive`},
		"points none":     {[]string{"points", "--only", "micron-9550"}, 2, "--only micron-9550 has no measured points: choose from gb300-c2c"},
		"price entry":     {[]string{"price", "--blocks", "1"}, 2, "--entry-bytes 0"},
		"price machine":   {price("--hardware", "h1000"), 2, "did you mean h100"},
		"price runs":      {price("--runs", "11"), 2, "--runs 11: expected 1 to 10"},
		"price ssd":       {price("--from-ssd", "11"), 2, "--from-ssd 11"},
		"price pinned":    {price("--from-ssd", "1", "--pinned", "2"), 2, "--pinned 2: expected 0 to 1"},
		"price ahead":     {price("--from-ssd", "1", "--ahead-us", "-1"), 2, "--ahead-us -1"},
		"price direct":    {price("--hardware", "h100", "--from-ssd", "1", "--gpudirect"), 1, "machine h100 has no gpudirect rate"},
		"price no ssd":    {price("--ahead-us", "200"), 2, "--ahead-us needs --from-ssd"},
		"price layer":     {price("--from-ssd", "1", "--layer-blocks", "3"), 2, "--layer-blocks 3"},
		"price all":       {[]string{"price", "--entry-bytes", "1000000000", "--blocks", "1000000000", "--block-tokens", "1000"}, 2, "1 EiB"},
		"extents nothing": {[]string{"extents"}, 2, "trace missing"},
		"extents product": {[]string{"extents", "../../datasets/bundled/smollm2_multi_news_8k.parquet", "--extent", "1000000000000", "--entry-bytes", "1GiB"}, 2, "extent of 1000000000000 blocks, expected at least 1 and at most 1048576"},
		"extents size":    {[]string{"extents", "../../datasets/bundled/smollm2_multi_news_8k.parquet", "--extent", "0"}, 2, "extent of 0 blocks"},
		"extents machine": {[]string{"extents", "x.parquet", "--hardware", "h1000"}, 2, "did you mean h100"},
	} {
		t.Run(name, func(t *testing.T) {
			fails(t, c.code, c.want, append([]string{"hardware"}, c.args...)...)
		})
	}
}

// The GPU and the machine in the README are checked together, in any order of files. They form a
// machine of their folder.
func TestHardwareREADMEMachine(t *testing.T) {
	text, err := os.ReadFile("../../replay/hardware/README.md")
	fatal.If(t, err)
	blocks := strings.Split(string(text), "```yaml\n")[1:]
	if len(blocks) != 2 {
		t.Fatalf("the README describes %d things, expected a GPU and a machine", len(blocks))
	}
	dir := t.TempDir()
	var files []string
	for i, block := range blocks {
		text, _, _ := strings.Cut(block, "```")
		files = append(files, filepath.Join(dir, fmt.Sprintf("%d.yaml", i)))
		fatal.If(t, os.WriteFile(files[i], []byte(text), 0o644))
	}
	for _, args := range [][]string{files, {files[1], files[0]}} {
		if code, out, stderr := run(append([]string{"hardware", "check"}, args...)...); code != 0 || strings.Count(out, "sound") != 2 {
			t.Errorf("%v: exit %d, %q, %s", args, code, out, stderr)
		}
	}
	if code, out, stderr := run("hardware", "show", "my-machine", "--hardware-dir", dir); code != 0 || !strings.Contains(out, "my-gpu") {
		t.Errorf("exit %d, %q, %s", code, out, stderr)
	}
}

// If the block size for timing drives is not the trace's, the output states it.
func TestHardwareExtentsBlocks(t *testing.T) {
	trace := "../../datasets/corpus/selectors_qa_text.quest-page8.parquet"
	_, stderr := kvreplay(t, 0, "hardware", "extents", trace, "--extent", "1", "--entry-bytes", "256")
	if !strings.Contains(stderr, "times assume blocks of 256 bytes (--entry-bytes), but the trace's have 2048 bytes: 8 tokens of 256") {
		t.Error(stderr)
	}
	for _, args := range [][]string{{"--entry-bytes", "2048"}, {"--format", "json"}} {
		if _, stderr := kvreplay(t, 0, append([]string{"hardware", "extents", trace, "--extent", "1"}, args...)...); stderr != "" {
			t.Error(stderr)
		}
	}
}

const measuredKernels = "../../replay/kernel/data/llmservingsim.csv"

// hardware check without files judges the kernel model, in three formats with the same lines.
func TestHardwareCheckKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("fits many times")
	}
	type line struct {
		Split, Operator string
		Left            string  `json:"left_out"`
		Median          float64 `json:"median_abs_error"`
	}
	lines := decoded[[]line](t, "hardware", "check", "--format", "json")
	_, csv, _ := run("hardware", "check", "--format", "csv")
	if n := strings.Count(csv, "\n"); n != len(lines)+1 || len(lines) < 40 {
		t.Errorf("%d lines of CSV for %d errors", n, len(lines))
	}
	for _, l := range lines {
		most := 0.3
		if l.Operator == "sampling" { // whose two measured GPUs differ
			most = 0.5
		}
		if !(l.Median > 0 && l.Median < most) {
			t.Errorf("%+v: expected a median above 0 and below %g", l, most)
		}
		if want := fmt.Sprintf("%s,%s,%s,", l.Split, l.Left, l.Operator); !strings.Contains(csv, want) {
			t.Errorf("CSV has no %s", want)
		}
	}
}

// hardware check --collectives judges all-reduces and exchanges, in three formats with the same lines.
func TestHardwareCheckCollectives(t *testing.T) {
	type line struct {
		Split  string
		Sizes  string
		Left   string  `json:"left_out"`
		Median float64 `json:"median_abs_error"`
	}
	lines := decoded[[]line](t, "hardware", "check", "--collectives", "--format", "json")
	_, csv, _ := run("hardware", "check", "--collectives", "--format", "csv")
	_, table, _ := run("hardware", "check", "--collectives")
	if n := strings.Count(csv, "\n"); n != len(lines)+1 || len(lines) != 71 {
		t.Errorf("%d lines of CSV for %d errors, expected 71", n, len(lines))
	}
	for _, l := range lines {
		if !(l.Median > 0 && l.Median < 1) || !strings.Contains(table, l.Left) {
			t.Errorf("%+v: expected a median above 0 and below 1, and the part in the table", l)
		}
	}
	for _, args := range [][]string{{"--collectives", "--each-operator"}, {"--collectives", points}} {
		if code, _, stderr := run(append([]string{"hardware", "check"}, args...)...); code != 2 || !strings.Contains(stderr, args[0]) {
			t.Errorf("%v: exit %d, %s", args, code, stderr)
		}
	}
}

// hardware collective prices buffers, and refuses GPUs without links and hosts that were not measured.
func TestHardwareCollective(t *testing.T) {
	type priced struct {
		GPU       string
		GPUs      int
		Bytes     int64
		AllReduce float64 `json:"all_reduce_seconds"`
		Kernels   float64 `json:"all_reduce_kernels_seconds"`
		AllToAll  float64 `json:"all_to_all_seconds"`
		Send      float64 `json:"send_seconds"`
	}
	all := decoded[[]priced](t, "hardware", "collective", "--hardware", "a100-80", "--gpus", "4",
		"--bytes", "1MiB,64MiB", "--format", "json")
	if len(all) != 2 || all[0].GPU != "a100-80" || all[0].GPUs != 4 || all[0].Bytes != 1<<20 || all[1].Bytes != 1<<26 {
		t.Fatalf("%+v", all)
	}
	for _, p := range all {
		if !(p.AllReduce > p.Send && p.Kernels <= p.AllReduce && p.AllToAll > 35e-6 && p.Send > 9e-6 && p.AllReduce < 1e-3) {
			t.Errorf("%+v: expected more time for NCCL's all-reduce than for kernels and a send", p)
		}
	}
	// the measured all-reduce of 1 MiB by kernels takes 18.1 us, and that of 64 MiB by NCCL 549 us
	if us := all[0].Kernels * 1e6; us < 16 || us > 21 {
		t.Errorf("all-reduce of 1 MiB by kernels takes %g us", us)
	}
	if us := all[1].AllReduce * 1e6; us < 520 || us > 640 {
		t.Errorf("all-reduce of 64 MiB takes %g us", us)
	}
	code, text, _ := run("hardware", "collective", "--hardware", "h200")
	if code != 0 || !strings.Contains(text, "constants of h100") || !strings.Contains(text, "(derived)") {
		t.Errorf("exit %d:\n%s", code, text)
	}
	if _, text, _ := run("hardware", "collective", "--hardware", "l40s"); !strings.Contains(text, "over PCIe") || strings.Contains(text, "kernels, constants") {
		t.Errorf("GPUs over PCIe have no kernels of an engine:\n%s", text)
	}
	for want, args := range map[string][]string{
		"--gpus 9":                       {"--gpus", "9"},
		"--gpus 1":                       {"--gpus", "1"},
		"--bytes \"0\"":                  {"--bytes", "0"},
		"--bytes \"2GiB\"":               {"--bytes", "2GiB"},
		"--bytes is empty":               {"--bytes", ""},
		"gh200 states no peer_bandwidth": {"--hardware", "gh200"},
		"unknown machine":                {"--hardware", "h1000"},
	} {
		if code, _, stderr := run(append([]string{"hardware", "collective"}, args...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit %d, %s", args, code, stderr)
		}
	}
}

// hardware fit tells kernels from links by the header, and refuses the flags of links.
func TestHardwareFitKernels(t *testing.T) {
	type device struct {
		Device     string
		Kernels    int
		Parameters []struct {
			Name          string
			Value, Shared float64
		}
		Errors []struct{ Split string }
	}
	splits := func(d device) (all []string) {
		for _, e := range d.Errors {
			all = slice.Add(all, e.Split)
		}
		return all
	}
	all := decoded[[]device](t, "hardware", "fit", measuredKernels, "--format", "json")
	if len(all) != 1 || all[0].Device != "rtx4090" || all[0].Kernels != 595 || len(all[0].Parameters) < 20 {
		t.Fatalf("%+v", all)
	}
	for _, p := range all[0].Parameters {
		if !(p.Value > 0 && p.Shared > 0) {
			t.Errorf("%+v: expected positive values", p)
		}
	}
	if got := splits(all[0]); slices.Contains(got, "file") || !slices.Contains(got, "nothing") {
		t.Errorf("published kernels: errors of %v, expected none without the file", got)
	}
	const product = "qkv_proj,llama-3.1-8b,rtx4090,vllm-0.19,1,"
	own := filepath.Join(t.TempDir(), "own.csv")
	write(t, own, "operator,model,device,software,tensor_parallel,tokens,sequences,context,time_us\n"+product+"1,0,0,70\n"+product+"700,0,0,300\n"+product+"900,0,0,400\n")
	if got := splits(decoded[[]device](t, "hardware", "fit", own, "--format", "json")[0]); !slices.Contains(got, "file") {
		t.Errorf("own kernels: errors of %v, expected those without the file", got)
	}
	for _, args := range [][]string{{"--format", "yaml"}, {"--batch"}, {"--from", "1KiB"}} {
		code, _, stderr := run(append([]string{"hardware", "fit", measuredKernels}, args...)...)
		if code != 2 || !strings.Contains(stderr, args[0]) {
			t.Errorf("%v: exit %d, %s", args, code, stderr)
		}
	}
	for _, args := range [][]string{{"--format", "csv"}, {"--each-operator"}} {
		if code, _, stderr := run(append([]string{"hardware", "check", points}, args...)...); code != 2 || !strings.Contains(stderr, args[0]) {
			t.Errorf("%v: exit %d, %s", args, code, stderr)
		}
	}
}

// Packet headers of writes to the host differ from those of a kernel's reads.
func TestFitDirection(t *testing.T) {
	var printed [2]string
	for i, direction := range []string{"h2d", "d2h"} {
		out := must(t, "hardware", "fit", "../../replay/transfer/fit/testdata/gb300.csv", "--link", "pcie5-x16", "--path", "kernel", "--direction", direction, "--format", "json")
		printed[i] = out
	}
	if printed[0] == printed[1] {
		t.Error("both directions give one curve")
	}
}
