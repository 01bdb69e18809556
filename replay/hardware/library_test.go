package hardware

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

func load(t testing.TB, dir string) *Library {
	t.Helper()
	lib, err := Load(dir)
	fatal.If(t, err)
	return lib
}

// Every bundled item has numbers with a public source each, and is in a file of its name.
func TestBundled(t *testing.T) {
	lib := load(t, "")
	public := regexp.MustCompile(`https?://|arXiv|KVPR|KVDrive|PCI Express|bundled link|common server|scripts/kernels`)
	numbers := 0
	for _, kind := range Kinds {
		items := lib.Items(kind)
		if len(items) == 0 {
			t.Errorf("no %s", kind)
		}
		for _, it := range items {
			h := Head(it)
			if want := "/" + h.Name + ".yaml"; !strings.HasSuffix(File(it), want) {
				t.Errorf("%s stands in %s, expected a file …%s", h.Name, File(it), want)
			}
			used := map[string]bool{}
			for _, l := range Lines(it) {
				numbers++
				used[l.Source] = true
				if !public.MatchString(l.Source) {
					t.Errorf("%s %s: source %q names nothing public", h.Name, l.Field, l.Source)
				}
			}
			if len(used) == 0 {
				t.Errorf("%s has no numbers", h.Name)
			}
		}
	}
	t.Logf("%d numbers", numbers)
}

// The numbers of a file are listed in its order, including optional parts and lists. A file's
// default applies only to numbers that do not state their own.
func TestLines(t *testing.T) {
	lib := load(t, "")
	link, err := lib.Link("pcie5-x16")
	fatal.If(t, err)
	var fields []string
	for _, l := range Lines(link) {
		fields = append(fields, l.Field)
	}
	want := []string{"bandwidth", "pcie.generation", "pcie.lanes", "pcie.max_payload", "pcie.max_read_request", "host_to_device.call.launch",
		"host_to_device.call.regimes[0].from", "host_to_device.call.regimes[0].descriptor", "host_to_device.call.regimes[0].rate", "host_to_device.batch.launch"}
	if len(fields) < len(want) || !slices.Equal(fields[:len(want)], want) {
		t.Errorf("lines of %v, expected %v first", fields, want)
	}
	m, err := lib.Model("deepseek-v3.2")
	fatal.If(t, err)
	if m.Layers.Status != Datasheet || m.Indexer.Entry.Status != Derived {
		t.Errorf("layers are %s by the file's default, the indexer's entry %s", m.Layers.Status, m.Indexer.Entry.Status)
	}
}

// Each item is listed once, with any number of aliases.
func TestItems(t *testing.T) {
	lib := load(t, "")
	var names []string
	for _, it := range lib.Items(KindMachine) {
		names = append(names, Head(it).Name)
	}
	all := lib.Names(KindMachine)
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) || slices.Contains(names, "h100-sxm") || !slices.Contains(all, "h100-sxm") {
		t.Errorf("machines %v, called %v", names, all)
	}
}

// The library has the machines that the command line documents, also by alias.
func TestMachines(t *testing.T) {
	lib := load(t, "")
	for _, name := range []string{"a100", "a100-40", "a100-80", "h100", "h100-sxm", "h200", "h20", "l20", "l40s", "a10", "rtx4090", "rtx5090", "rtx5000", "b200", "gh200", "gb300", "mi300x"} {
		m, err := lib.Machine(name)
		if err != nil {
			t.Error(err)
		} else if m.GPU == nil || m.Link == nil || m.Host == nil || m.Drive == nil || m.GPUs < 1 || m.Drives < 1 {
			t.Errorf("%s lacks a part: %+v", name, m)
		}
	}
	for _, gpu := range lib.Items(KindGPU) {
		if m, err := lib.Machine(Head(gpu).Name); err != nil || m.GPU.Name != Head(gpu).Name {
			t.Errorf("GPU %s has no machine of its name: %v", Head(gpu).Name, err)
		}
	}
	m, err := lib.Machine("h100")
	if err != nil || m.GPU.MemoryBandwidth.Value != 3350e9 || m.GPU.SMs.Value != 132 || m.Link.PCIe.Generation.Value != 5 {
		t.Errorf("h100 is %+v, %v", m, err)
	}
}

// A KV entry is K and V of all heads in 16 bits, or the latent vector. The FP8 entry of
// DeepSeek-V3.2 is 512 FP8, four FP32 scales and 64 BF16 for RoPE: 656 B. Its indexer key takes 132
// of 788 B, the 16.8 % of ESS.
func TestEntries(t *testing.T) {
	lib := load(t, "")
	perToken := map[string]Bytes{"llama-3-8b": 4096, "llama-2-13b": 20480, "llama-2-70b": 4096, "qwen3-8b": 4096, "phi-4-mini": 4096, "opt-6.7b": 16384, "opt-13b": 20480, "opt-30b": 28672, "smollm2-135m": 768, "deepseek-v2-lite": 1152, "deepseek-v3.2-exp": 656}
	for name, want := range perToken {
		m, err := lib.Model(name)
		fatal.If(t, err)
		if m.Entry.Value != want {
			t.Errorf("%s: entry %v, expected %v", name, m.Entry.Value, want)
		}
		shape := 2 * 2 * Bytes(m.KVHeads.Value*m.HeadDim.Value)
		if m.Latent != nil {
			shape = 2 * Bytes(m.Latent.KVRank.Value+m.Latent.Rope.Value)
		}
		if m.Indexer == nil && m.Entry.Value != shape {
			t.Errorf("%s: entry %v, its shape makes %v", name, m.Entry.Value, shape)
		}
	}
	m, _ := lib.Model("deepseek-v3.2")
	if m.Entry.Value != 512+4*4+64*2 || m.EntryPerHead() != 656 {
		t.Errorf("deepseek-v3.2: entry %v, per head %v", m.Entry.Value, m.EntryPerHead())
	}
	if share := m.Indexer.Entry.Value / (m.Indexer.Entry.Value + m.Entry.Value); math.Abs(float64(share)-.168) > 5e-4 {
		t.Errorf("indexer share %v", share)
	}
	if m, _ := lib.Model("llama-3-8b"); m.EntryPerHead() != 512 {
		t.Errorf("llama-3-8b: %v B a head, expected 512", m.EntryPerHead())
	}
}

// The number of weights that a shape implies equals the publisher's count exactly. Only
// DeepSeek-V3.2 is published in whole billions, which include the indexer's 0.8 B.
func TestParameters(t *testing.T) {
	for _, it := range load(t, "").Items(KindModel) {
		m := it.(*Model)
		tolerance := 0.0
		if m.Indexer != nil {
			tolerance = 2e-3
		}
		if count, want := m.CountParameters(), float64(m.Parameters.Value); math.Abs(count/want-1) > tolerance {
			t.Errorf("%s: the shape has %.0f parameters, published are %.0f", m.Name, count, want)
		}
	}
}

// DeepSeek-V3.2 by hand: attention with factors of 1536 and 512 + 64, and its indexer of 64 heads
// of 128. Layer 3 has 257 experts of three matrices, a router and a bias per expert.
func TestSparseParameters(t *testing.T) {
	m, err := load(t, "").Model("deepseek-v3.2")
	fatal.If(t, err)
	const h = 7168
	attention := h*1536 + 1536 + 1536*128*192 + h*(512+64) + 512 + 512*128*(128+128) + 128*128*h
	indexer := 1536*64*128 + h*(128+64) + 2*128
	if got := m.AttentionParameters().Sum(); got != float64(attention+indexer) {
		t.Errorf("attention of %.0f parameters, expected %d and the indexer's %d", got, attention, indexer)
	}
	expert, router := 3*h*2048, h*256+256
	for layer, want := range map[int][2]int{2: {3 * h * 18432, 3 * h * 18432}, 3: {257*expert + router, 9*expert + router}} {
		if stored, active := m.FFNParameters(layer); stored.Sum() != float64(want[0]) || active.Sum() != float64(want[1]) {
			t.Errorf("layer %d has %.0f feed-forward parameters and uses %.0f, expected %v", layer, stored, active, want)
		}
	}
}

// One token uses 37 B of DeepSeek-V3's parameters according to its report. The indexer adds to
// that.
func TestActive(t *testing.T) {
	m, err := load(t, "").Model("deepseek-v3.2")
	fatal.If(t, err)
	active := m.EmbeddingParameters().Sum() / 2 // the output matrix, because a token uses one row of the embedding
	for i := range int(m.Layers.Value) {
		_, ffn := m.FFNParameters(i)
		active += m.AttentionParameters().Plus(ffn).Sum()
	}
	if b := active / 1e9; b < 36.5 || b > 38 {
		t.Errorf("%.1f B active, expected about 37", b)
	}
}

// The checkpoint of DeepSeek-V3.2 has FP8 weights with a scale of 4 B for 128 × 128 of them. Embeddings, the
// output matrix, norms, routers and the indexer's weights of its heads have 2 B.
func TestWeightBytes(t *testing.T) {
	m, err := load(t, "").Model("deepseek-v3.2")
	fatal.If(t, err)
	const h, scaled = 7168, 1 + 4./(128*128)
	if got, want := m.Bytes(m.EmbeddingParameters()), 2.*2*129280*h; got != want {
		t.Errorf("embeddings take %.0f B, expected %.0f", got, want)
	}
	attention := scaled*(h*1536+1536*128*192+h*(512+64)+512*128*(128+128)+128*128*h+1536*64*128+h*128) + 2*(1536+512+h*64+2*128)
	if got := m.Bytes(m.AttentionParameters()); math.Abs(got-attention) > 1 {
		t.Errorf("attention takes %.0f B, expected %.0f", got, attention)
	}
	stored, _ := m.FFNParameters(3)
	if got, want := m.Bytes(stored), scaled*257*3*h*2048+2*(h*256+256); math.Abs(got-want) > 1 {
		t.Errorf("experts take %.0f B, expected %.0f", got, want)
	}
	for p, want := range map[Part]float64{Plain: 2, Attention: 1, FFN: 1, Experts: 1} {
		if got := m.WeightBytes(p); got != want {
			t.Errorf("weights of part %d have %g B, expected %g", p, got, want)
		}
	}
}

const tiny = `kind: gpu
name: %NAME%
title: a test
sources:
  here: "https://example.org"
memory: {value: 24 GB, status: datasheet, source: here}
memory_bandwidth: {value: 1000 GB/s, status: datasheet, source: here}
bf16: {value: 100 TFLOP/s, status: datasheet, source: here}
sms: {value: 80, status: datasheet, source: here}
`

func gpuFile(name string) string { return strings.ReplaceAll(tiny, "%NAME%", name) }

// A user's folder adds and replaces items. Files other than YAML are ignored.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("mine.yaml", gpuFile("mine"))
	write("h100.yml", gpuFile("h100"))
	write("notes.txt", "nothing")
	lib := load(t, dir)
	if g, err := lib.GPU("mine"); err != nil || g.Memory.Value != 24e9 {
		t.Errorf("mine: %v", err)
	}
	m, err := lib.Machine("h100")
	if err != nil || m.GPU.SMs.Value != 80 {
		t.Errorf("the machine has another GPU than the folder's: %v", err)
	}
	if n, all := len(lib.Items(KindGPU)), len(load(t, "").Items(KindGPU)); n != all+1 {
		t.Errorf("%d GPUs, expected %d and mine", n, all)
	}
	write("again.yaml", gpuFile("mine"))
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "gpu mine already has a description in") {
		t.Errorf("two files of one name: %v", err)
	}
	if _, err := Load(filepath.Join(dir, "nowhere")); err == nil || !strings.Contains(err.Error(), "hardware folder") {
		t.Errorf("no folder: %v", err)
	}
	other := t.TempDir()
	machine := "kind: machine\nname: m\ntitle: a test\nsources: {s: \"https://example.org\"}\ngpu: h10\nlink: pcie5-x16\nhost: grace\ndrive: micron-9550\ngpus: {value: 1, status: datasheet, source: s}\ndrives: {value: 1, status: datasheet, source: s}\n"
	fatal.If(t, os.WriteFile(filepath.Join(other, "m.yaml"), []byte(machine), 0o644))
	if _, err := Load(other); err == nil || !strings.Contains(err.Error(), `m.yaml:5: gpu names an unknown gpu "h10", did you mean a10 or h100`) {
		t.Errorf("a machine without its GPU: %v", err)
	}
	machine = strings.Replace(machine, "h10\n", "h100\n", 1) + "gpudirect: {value: 64 GB/s, status: measured, source: s}\n"
	fatal.If(t, os.WriteFile(filepath.Join(other, "m.yaml"), []byte(machine), 0o644))
	if _, err := Load(other); err == nil || !strings.Contains(err.Error(), "m.yaml:11: gpudirect 64 GB/s exceeds the 63.015 GB/s of link pcie5-x16") {
		t.Errorf("drives that write faster than the link: %v", err)
	}
	machine = strings.NewReplacer("h100\n", "l4\n", "pcie5-x16\n", "pcie5-x16-vm\n").Replace(machine)
	fatal.If(t, os.WriteFile(filepath.Join(other, "m.yaml"), []byte(machine), 0o644))
	if _, err := Load(other); err == nil || !strings.Contains(err.Error(), "m.yaml:6: link pcie5-x16-vm: host_to_device.kernel takes 132 SMs, but GPU l4 has 60") {
		t.Errorf("a kernel on more SMs than the GPU has: %v", err)
	}
}

// An alias of a replaced item names the user's item, unless another file uses it as its name.
func TestAliasOfReplaced(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) {
		t.Helper()
		fatal.If(t, os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(gpuFile(name)), 0o644))
	}
	found := func() (gpu, alias *GPU) {
		t.Helper()
		lib := load(t, dir)
		gpu, err1 := lib.GPU("h100")
		alias, err2 := lib.GPU("h100-sxm")
		fatal.If(t, errors.Join(err1, err2))
		return gpu, alias
	}
	write("h100")
	if gpu, alias := found(); alias != gpu || alias.SMs.Value != 80 {
		t.Errorf("h100-sxm has %v SMs, expected those of the folder's h100", alias.SMs.Value)
	}
	write("h100-sxm")
	if gpu, alias := found(); alias == gpu || alias.Name != "h100-sxm" {
		t.Errorf("h100-sxm is %s, expected the file of that name", alias.Name)
	}
}

// Added files follow the same rules as a folder of them.
func TestAddFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	a, b, c := file("a.yaml", gpuFile("mine")), file("b.yml", gpuFile("mine")), file("c.txt", gpuFile("other"))
	pcie4, err := bundled.ReadFile("data/links/pcie4-x16.yaml")
	fatal.If(t, err)
	slow := file("slow.yaml", strings.Replace(string(pcie4), "31.508 GB/s", "26 GB/s", 1))
	for _, x := range []struct {
		files []string
		want  string
	}{
		{[]string{a}, ""},
		{[]string{b}, ""},
		{[]string{a, b}, "b.yml: gpu mine already has a description in " + a + ": remove one"},
		{[]string{c}, "c.txt: --hardware-dir reads only *.yaml and *.yml"},
		{[]string{slow}, "gpudirect 24.3 GiB/s exceeds the 26 GB/s of link pcie4-x16"}, // of the bundled L40S
	} {
		items, err := load(t, "").AddFiles(x.files)
		switch {
		case x.want == "" && (err != nil || len(items) != len(x.files)):
			t.Errorf("%v: %d items, %v", x.files, len(items), err)
		case x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)):
			t.Errorf("%v: %v, expected %q", x.files, err, x.want)
		}
	}
}

func TestUnknown(t *testing.T) {
	lib := load(t, "")
	if _, err := lib.GPU("h10"); err == nil || !strings.Contains(err.Error(), "did you mean") || !strings.Contains(err.Error(), "more (`kvreplay hardware list`)") {
		t.Errorf("error %v", err)
	}
	if _, err := lib.Any("lama-3-8b"); err == nil || !strings.Contains(err.Error(), "did you mean llama-3-8b") {
		t.Errorf("error %v", err)
	}
	if found, err := lib.Any("h100"); err != nil || len(found) != 2 {
		t.Errorf("h100 is %d things, expected machine and GPU; %v", len(found), err)
	}
}

// The example file in README.md is valid.
func TestDocumentedFile(t *testing.T) {
	text, err := os.ReadFile("README.md")
	fatal.If(t, err)
	_, rest, ok1 := strings.Cut(string(text), "```yaml\n")
	file, _, ok2 := strings.Cut(rest, "```")
	if !ok1 || !ok2 {
		t.Fatal("README.md shows no file")
	}
	it, err := Parse("README.md", []byte(file))
	if err != nil || it.(*GPU).Memory.Value != 46068<<20 || it.(*GPU).Reserved.Value != 1e9 {
		t.Errorf("%+v, %v", it, err)
	}
}
