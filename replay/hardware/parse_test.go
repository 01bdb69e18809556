package hardware

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// The error for a bad file names the file, the line and the expected value.
func TestBadFiles(t *testing.T) {
	good := gpuFile("g")
	change := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("no %q", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	link := func(old, new string) string {
		text, err := os.ReadFile(filepath.Join("data", "links", "gb300-c2c.yaml"))
		fatal.If(t, err)
		if !strings.Contains(string(text), old) {
			t.Fatalf("no %q", old)
		}
		return strings.Replace(string(text), old, new, 1)
	}
	bundledFile := func(name, old, new string) string {
		text, err := bundled.ReadFile("data/" + name + ".yaml")
		fatal.If(t, err)
		if !strings.Contains(string(text), old) {
			t.Fatalf("no %q in %s", old, name)
		}
		return strings.Replace(string(text), old, new, 1)
	}
	// between replaces the text between two marks.
	between := func(text, from, to, with string) string {
		before, rest, _ := strings.Cut(text, from)
		_, after, ok := strings.Cut(rest, to)
		if !ok {
			t.Fatalf("no %q before %q", from, to)
		}
		return before + with + to + after
	}
	cases := map[string]struct {
		text string
		want []string
	}{
		"empty":             {"", []string{"f.yaml:1", "expected a mapping"}},
		"no mapping":        {"- a\n- b\n", []string{"f.yaml:1", "expected a mapping"}},
		"broken":            {"kind: [gpu\n", []string{"f.yaml"}},
		"two documents":     {good + "---\n" + good, []string{"f.yaml:10", "a second document"}},
		"broken second":     {good + "---\nkind: [gpu\n", []string{"f.yaml"}},
		"kind":              {change("kind: gpu", "kind: gpus"), []string{"f.yaml:1", `kind "gpus"`, "did you mean gpu?"}},
		"unknown key":       {change("sms:", "sm:"), []string{"f.yaml:9", `unknown key "sm"`, "did you mean sms?"}},
		"missing key":       {change("sms: {value: 80, status: datasheet, source: here}\n", ""), []string{"sms is missing"}},
		"twice":             {good + "sms: {value: 80, status: datasheet, source: here}\n", []string{"sms appears twice"}},
		"no unit":           {change("24 GB,", "24,"), []string{"f.yaml:6", "memory", `"24" has no unit`, "GiB"}},
		"wrong unit":        {change("24 GB,", "24 GB/s,"), []string{"f.yaml:6", `"GB/s" is not a unit of a size`}},
		"unit too many":     {change("80,", "80 GB,"), []string{"f.yaml:9", "without one"}},
		"negative":          {change("1000 GB/s", "-1000 GB/s"), []string{"f.yaml:7", "memory_bandwidth", "negative"}},
		"zero":              {change("1000 GB/s", "0 GB/s"), []string{"f.yaml:7", "more than 0"}},
		"expected a number": {change("1000 GB/s", "fast"), []string{"f.yaml:7", `"fast": expected a number`}},
		"NaN":               {change("1000 GB/s", "nan GB/s"), []string{"f.yaml:7", "expected a number"}},
		"no status":         {change("1000 GB/s, status: datasheet", "1000 GB/s"), []string{"f.yaml:7", "no status"}},
		"unknown status":    {change("status: datasheet", "status: measurd"), []string{"f.yaml:6", `status "measurd"`, "did you mean measured?"}},
		"no source":         {change("datasheet, source: here}", "datasheet}"), []string{"f.yaml:6", "no source"}},
		"unknown source":    {change("source: here", "source: her"), []string{"f.yaml:6", `source "her" is not one of`, "did you mean here?"}},
		"assumed, no note":  {change("status: datasheet", "status: assumed"), []string{"f.yaml:6", "assumed numbers need a note"}},
		"unknown in fact":   {change("source: here", "sources: here"), []string{"f.yaml:6", `memory: unknown key "sources"`}},
		"short fact":        {change("{value: 24 GB, status: datasheet, source: here}", "24 GB"), []string{"f.yaml:6", "expected {value"}},
		"name":              {change("name: g", "name: G 1"), []string{`name "G 1"`}},
		"empty title":       {change("title: a test", "title: \"\""), []string{"f.yaml:3", "title: empty"}},
		"achieved":          {good + "achieved_bf16: {value: 101 TFLOP/s, status: datasheet, source: here}\n", []string{"achieved_bf16 101 TFLOP/s exceeds bf16"}},
		"reserved":          {good + "reserved: {value: 1e6 GB, status: datasheet, source: here}\n", []string{"is not below memory"}},
		"achieved memory":   {good + "achieved_memory_bandwidth: {value: 1001 GB/s, status: datasheet, source: here}\n", []string{"achieved_memory_bandwidth 1001 GB/s exceeds memory_bandwidth"}},
		"achieved FP8":      {good + "fp8: {value: 200 TFLOP/s, status: datasheet, source: here}\nachieved_fp8: {value: 201 TFLOP/s, status: datasheet, source: here}\n", []string{"achieved_fp8 201 TFLOP/s exceeds fp8"}},
		"no FP8":            {good + "achieved_fp8: {value: 201 TFLOP/s, status: datasheet, source: here}\n", []string{"achieved_fp8 201 TFLOP/s needs fp8"}},
		"achieved FP4":      {good + "fp4: {value: 400 TFLOP/s, status: datasheet, source: here}\nachieved_fp4: {value: 401 TFLOP/s, status: datasheet, source: here}\n", []string{"achieved_fp4 401 TFLOP/s exceeds fp4"}},
		"no FP4":            {good + "achieved_fp4: {value: 401 TFLOP/s, status: datasheet, source: here}\n", []string{"achieved_fp4 401 TFLOP/s needs fp4"}},
		"size of NVFP4":     {bundledFile("models/deepseek-v3.2", "tied_embeddings: false", "tied_embeddings: false\nnvfp4: true"), []string{"bytes_per_parameter 1 B, expected 0.5625 B with nvfp4"}},
		"all at once":       {strings.Replace(change("24 GB,", "24,"), "1000 GB/s", "-1 GB/s", 1), []string{"f.yaml:6", "f.yaml:7"}},

		"too much":       {change("24 GB,", "1e308 GB,"), []string{"f.yaml:6", `memory: "1e308 GB" is out of range, expected 0.01 B to 1e+06 TB`}},
		"too little":     {change("1000 GB/s", "1e-320 B/s"), []string{"f.yaml:7", "out of range"}},
		"half an SM":     {change("80,", "80.5,"), []string{"f.yaml:9", `sms: "80.5", expected a whole number of at most 100000`}},
		"layers":         {bundledFile("models/deepseek-v3.2", "layers: 61", "layers: 1e10"), []string{`layers: "1e10", expected a whole number of at most 10000`}},
		"half a rank":    {bundledFile("models/deepseek-v3.2", "kv_rank: 512", "kv_rank: 512.5"), []string{`latent.kv_rank: "512.5", expected a whole number`}},
		"half an expert": {bundledFile("models/deepseek-v3.2", "experts: 256", "experts: 0.5"), []string{`moe.experts: "0.5", expected a whole number`}},
		"active":         {bundledFile("models/deepseek-v3.2", "active: 8", "active: 257"), []string{"moe.active 257 exceeds moe.experts 256"}},
		"dense layers":   {bundledFile("models/deepseek-v3.2", "dense_layers: 3", "dense_layers: 62"), []string{"moe.dense_layers 62 exceeds layers 61"}},
		"heads":          {bundledFile("models/llama-3-8b", "query_heads: 32", "query_heads: 36"), []string{"query_heads 36 is not a multiple of kv_heads 8"}},
		"more KV heads":  {bundledFile("models/llama-3-8b", "query_heads: 32", "query_heads: 4"), []string{"query_heads 4 is not a multiple of kv_heads 8"}},
		"FFN":            {bundledFile("models/llama-3-8b", "ffn_matrices: 3", "ffn_matrices: 1"), []string{"ffn_matrices 1, expected 2 or 3"}},
		"ahead":          {bundledFile("links/pcie5-x16", "    submit: {value: 0.5372 us, status: fitted, source: vllm-42212, note: \"fitted; vllm-48434 measures 0.53 to 0.63 us\"}\n", ""), []string{"host_to_device", "ahead needs submit"}},
		"page":           {bundledFile("links/pcie5-x16", "    submit: {value: 0.5372 us", "    page: {value: 64 KiB, status: derived, source: spec, note: \"a test\"}\n    submit: {value: 0.5372 us"), []string{"page is of the curve kernel alone"}},
		"knee":           {bundledFile("drives/phison-e27t", "knee: {value: 0.914,", "knee: {value: 1000,"), []string{"f.yaml:", "knee 1000, expected 0.5 to 64"}},
		"no GPU":         {bundledFile("machines/l40s", "gpus: {value: 4,", "gpus: {value: 0.5,"), []string{`gpus: "0.5", expected a whole number`}},
		"two limits":     {link("rate: {value: 210 GB/s", "rate: {value: 510 GB/s") + "duplex:\n  copy_engine: {value: 901 GB/s, status: measured, source: sglang-40278}\n  kernel: {value: 9 GB/s, status: measured, source: sglang-40278}\n", []string{"f.yaml:16: host_to_device.call.regimes[0].rate 510", "duplex exceeds twice the link's 450 GB/s"}},

		"no path":          {between(link("", ""), "host_to_device:\n", "device_to_host:", "host_to_device: {}\n"), []string{"host_to_device has no path, expected one of call, batch, kernel"}},
		"regimes":          {bundledFile("links/pcie5-x16", "from: {value: 28 KiB", "from: {value: 0 B"), []string{"regimes[1].from is 0 B, expected more than 0 B"}},
		"no regimes":       {between(link("", ""), "    regimes:\n", "  kernel:", "    regimes: []\n"), []string{"regimes: expected a list of at least one"}},
		"many launches":    {link("launches: 8, time: 155 us", "launches: 32769, time: 155 us"), []string{"points[0] has more launches than blocks (tma-h2d)"}},
		"window of SMs":    {link("    sms: {value: 4, status: measured, source: sglang-40278}\n", "    in_flight: {value: 64 KiB, status: measured, source: sglang-40278}\n    round_trip: {value: 1 us, status: measured, source: sglang-40278}\n"), []string{"host_to_device.kernel is incomplete: in_flight and round_trip need each other and sms"}},
		"bare block":       {bundledFile("drives/phison-e27t", "block: 64 KiB, depth: 1,", "block: 64, depth: 1,"), []string{`block: "64" has no unit`}},
		"no depth":         {bundledFile("drives/phison-e27t", "depth: 1, rate: 0.49", "depth: 0.5, rate: 0.49"), []string{"measurements[0].points[0].depth 0.5, expected at least 1 (depths)"}},
		"flat knee":        {bundledFile("drives/phison-e27t", "knee: {value: 0.914,", "knee: {value: 0.49,"), []string{"knee 0.49, expected 0.5 to 64"}},
		"stream":           {bundledFile("hosts/dgx-h100", "stream_bandwidth: {value: 246 GB/s", "stream_bandwidth: {value: 308 GB/s"), []string{"stream_bandwidth 308 GB/s exceeds memory_bandwidth 307.2 GB/s"}},
		"derived, no note": {change("status: datasheet", "status: derived"), []string{"f.yaml:6", "derived numbers need a note"}},
		"list of sources":  {change("sources:\n  here: \"https://example.org\"", "sources: [here]"), []string{"f.yaml:4", "sources: expected a mapping of names to texts"}},
		"source twice":     {change("  here:", "  here: \"a\"\n  here:"), []string{"here appears twice"}},
		"list as a title":  {change("title: a test", "title: [a]"), []string{"f.yaml:3", "title: expected a plain value"}},

		"duplex":          {bundledFile("links/pcie5-x16", "copy_engine: {value: 83.4 GB/s", "copy_engine: {value: 83.4 MB/s"), []string{"duplex.copy_engine 83.4 MB/s is less than half of the 55.63 GB/s of one direction alone"}},
		"rate over link":  {link("rate: {value: 210 GB/s", "rate: {value: 510 GB/s"), []string{"host_to_device.call", "510 GB/s exceeds the link's 450 GB/s"}},
		"first regime":    {link("from: {value: 0 B", "from: {value: 8 B"), []string{"regimes[0].from is 8 B, expected 0 B"}},
		"path of series":  {link("path: call", "path: cal"), []string{`path "cal"`, "did you mean call?"}},
		"direction":       {link("direction: h2d", "direction: up"), []string{`direction "up"`}},
		"rate and time":   {link("launches: 8, time: 155 us", "launches: 8, time: 155 us, rate: 1 GB/s"), []string{"tma-h2d", "points[0] needs either rate or time"}},
		"no block":        {link("block: 512 B, blocks: 32768, launches: 8, time: 155 us", "blocks: 32768, launches: 8, time: 155 us"), []string{"tma-h2d", "points[0] has a time but no block"}},
		"half a byte":     {link("block: 512 B, blocks: 32768, launches: 8", "block: 0.5 B, blocks: 32768, launches: 8"), []string{"points[0].block 0.5 B, expected at least 1 B"}},
		"half a block":    {link("blocks: 32768, launches: 8", "blocks: 0.5"), []string{"points[0] expected whole numbers of blocks and launches"}},
		"half a launch":   {link("launches: 8, time: 155 us", "launches: 1.5, time: 155 us"), []string{"points[0] expected whole numbers of blocks and launches"}},
		"all memory":      {link("block: 512 B, blocks: 32768, launches: 8", "block: 1 TB, blocks: 9_000_000"), []string{"points[0] moves more than"}},
		"half a window":   {link("    in_flight: {value: 64 KiB, status: measured, source: sglang-40278}\n", ""), []string{"register-h2d", "need each other and sms"}},
		"a source's typo": {link("source: sglang-40278\n", "source: sglang-4027\n"), []string{"measurements[0].source", "did you mean sglang-40278?"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			it, err := Parse("f.yaml", []byte(c.text))
			if err == nil {
				t.Fatalf("read %+v", it)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error lacks %q:\n%v", want, err)
				}
			}
		})
	}
	if _, err := Parse("f.yaml", []byte(good)); err != nil {
		t.Errorf("the sound file: %v", err)
	}
}

// A value equal to its bound is accepted.
func TestBounds(t *testing.T) {
	for _, c := range []struct{ file, old, new string }{
		{"models/deepseek-v3.2", "active: 8", "active: 256"},
		{"models/deepseek-v3.2", "dense_layers: 3", "dense_layers: 61"},
		{"models/llama-3-8b", "query_heads: 32", "query_heads: 8"},
		{"drives/phison-e27t", "knee: {value: 0.914,", "knee: {value: 0.5,"},
		{"drives/phison-e27t", "knee: {value: 0.914,", "knee: {value: 64,"},
		{"hosts/dgx-h100", "stream_bandwidth: {value: 246 GB/s", "stream_bandwidth: {value: 307.2 GB/s"},
		{"links/gb300-c2c", "rate: {value: 210 GB/s", "rate: {value: 450 GB/s"},
		{"links/gb300-c2c", "launches: 8, time: 155 us", "launches: 32768, time: 155 us"},
		{"links/pcie5-x16", "copy_engine: {value: 83.4 GB/s", "copy_engine: {value: 27.815 GB/s"}, // half of 55.63
		{"gpus/h100", "memory: {value: 81559 MiB", "memory: {value: 1e6 TB"},
	} {
		text, err := bundled.ReadFile("data/" + c.file + ".yaml")
		fatal.If(t, err)
		if !strings.Contains(string(text), c.old) {
			t.Fatalf("no %q in %s", c.old, c.file)
		}
		if _, err := Parse("f.yaml", []byte(strings.Replace(string(text), c.old, c.new, 1))); err != nil {
			t.Errorf("%s: %s: %v", c.file, c.new, err)
		}
	}
}

// Quantities are parsed with their unit and formatted for people.
func TestUnits(t *testing.T) {
	for text, want := range map[string]float64{"656 B": 656, "28 KiB": 28672, "1.5 GB": 1.5e9, "2 MB": 2e6, "1 GiB": 1 << 30} {
		if got, err := parse[Bytes](text); err != nil || float64(got) != want {
			t.Errorf("%s is %v, %v, expected %v", text, float64(got), err, want)
		}
	}
	for text, want := range map[string]string{"37 GB/s": "37 GB/s", "6.46 GiB/s": "6.936 GB/s", "900 MB/s": "900 MB/s", "7.2 TB/s": "7.2 TB/s", "1000 MB/s": "1 GB/s", "999.9 MB/s": "999.9 MB/s"} {
		if got, err := parse[BytesPerSecond](text); err != nil || got.String() != want {
			t.Errorf("%s is %v, %v, expected %v", text, got, err, want)
		}
	}
	if got, err := parse[Seconds]("2.3 µs"); err != nil || math.Abs(float64(got)-2.3e-6) > 1e-18 || got.String() != "2.3 us" {
		t.Errorf("2.3 µs is %v, %v", got, err)
	}
	if got := Number(61).String() + " " + PerSecond(2.5e6).String() + " " + FLOPPerSecond(989e12).String() + " " + Bytes(80e9).String(); got != "61 2.5 MIOPS 989 TFLOP/s 80 GB" {
		t.Errorf("written as %s", got)
	}
}

// FuzzParse checks that for any file, Parse returns an error or a valid item. Its numbers are
// finite, not negative and have a source.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"gpus/h100", "links/pcie5-x16", "links/gb300-c2c", "drives/phison-e27t", "hosts/epyc-9004-cxl", "models/deepseek-v3.2", "machines/l40s"} {
		text, err := bundled.ReadFile("data/" + name + ".yaml")
		fatal.If(f, err)
		f.Add(string(text))
	}
	f.Add(gpuFile("g"))
	f.Add("kind: gpu\nsources: &a {x: *a}\n")
	f.Add("kind: model\nmoe: {experts: 1}\n")
	f.Fuzz(func(t *testing.T, text string) {
		it, err := Parse("f.yaml", []byte(text))
		if err != nil {
			return
		}
		for _, l := range Lines(it) {
			if l.Source == "" || !(l.Value >= 0) || math.IsInf(l.Value, 0) {
				t.Errorf("%s is %v from %q", l.Field, l.Value, l.Source)
			}
		}
	})
}
