package systems

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/trace"
)

func load(t *testing.T, dir string) *Library {
	t.Helper()
	lib, err := Load(dir, all.Table())
	fatal.If(t, err)
	return lib
}

// question asks for Llama-3-8B on a machine.
func question(t *testing.T, machine string, context int64, batch int) *Question {
	t.Helper()
	lib, err := hardware.Load("")
	fatal.If(t, err)
	m, err := lib.Machine(machine)
	fatal.If(t, err)
	shape, err := lib.Model("llama-3-8b")
	fatal.If(t, err)
	return &Question{Options: pipeline.Options{Machine: m, Model: shape, Context: context, Batch: batch, Kernels: kernel.Fitted(lib)}, Table: all.Table(), Turn: 512}
}

func open(t *testing.T, patterns ...string) (list []*trace.File) {
	t.Helper()
	for _, p := range patterns {
		paths, err := filepath.Glob(filepath.Join("..", "..", "datasets", "corpus", p))
		if err != nil || len(paths) == 0 {
			t.Fatal(p, err)
		}
		for _, path := range paths {
			f, err := trace.Open(path)
			fatal.If(t, err)
			t.Cleanup(func() { f.Close() })
			list = append(list, f)
		}
	}
	return list
}

func compare(t *testing.T, q *Question, traces []*trace.File, ablate bool, names ...string) map[string]*Row {
	t.Helper()
	list, err := load(t, "").Find(names, ablate)
	fatal.If(t, err)
	rows, err := q.Compare(t.Context(), list, traces)
	fatal.If(t, err)
	found := map[string]*Row{}
	for _, r := range rows {
		found[r.Name] = r
	}
	return found
}

// The bundled systems have every key that a reader needs, and a name like that of their file.
func TestBundled(t *testing.T) {
	lib := load(t, "")
	for _, want := range []string{"dense-gpu", "flexgen", "kvpr", "quest-offload", "shadowkv", "retroinfer", "pqcache", "magicpig", "infinigen",
		"hisparse", "trtllm-offload", "ess", "kvdrive", "ellm", "vllm-recompute", "vllm-swap", "hcache", "streamingllm", "h2o", "snapkv", "pyramidkv", "adakv", "duoattention"} {
		if _, err := lib.Find([]string{want}, true); err != nil {
			t.Error(err)
		}
	}
	for _, s := range lib.All() {
		if s.Title == "" || len(s.Source) < 20 {
			t.Errorf("%s: title %q, source %q", s.Name, s.Title, s.Source)
		}
	}
	list, err := lib.Find([]string{"kvdrive/lru", "ess"}, false)
	if err != nil || len(list) != 2 || list[0].Keep.Policy != "lru" || list[0].Keep.Warmup != "importance:32" {
		t.Errorf("an ablation replaces its keys only: %+v, %v", list, err)
	}
}

// A folder of the user adds systems and replaces bundled ones. A wrong file is an error that names it.
func TestUsersSystems(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		fatal.If(t, os.WriteFile(filepath.Join(dir, "mine.yaml"), []byte(text), 0o600))
	}
	write("name: mine\nsource: here\nselect: {lists: exact}\nkeep: {policy: lrfu}\nschedule: da\nablations:\n  fifo: {keep: {policy: fifo}}\n")
	list, err := load(t, dir).Find([]string{"mine"}, true)
	if err != nil || len(list) != 2 || list[1].Name != "mine/fifo" || list[1].Schedule != "da" {
		t.Fatalf("%+v, %v", list, err)
	}
	list[1].Keep.Policy = "opt" // which no system can have
	rows, err := question(t, "rtx4090", 122880, 4).Compare(t.Context(), list, open(t, "selectors_qa_text.exact.parquet"))
	if err != nil || rows[0].Kind != Sparse || rows[1].Kind != Oracle || rows[1].Rank != "-" || !(rows[1].Tokens > 0) {
		t.Errorf("a system that sees the future: %+v, %v", rows, err)
	}
	second := filepath.Join(dir, "second.yaml")
	fatal.If(t, os.WriteFile(second, []byte("name: mine\nsource: there\nschedule: dense\n"), 0o600))
	if _, err := Load(dir, all.Table()); err == nil || !strings.Contains(err.Error(), "second.yaml: system mine is also in "+filepath.Join(dir, "mine.yaml")) {
		t.Errorf("two files of one name: %v", err)
	}
	fatal.If(t, os.Remove(second))
	write("name: ess\nsource: here\nschedule: dense\n")
	if lib := load(t, dir); lib.All()[0].Name == "ess" || len(lib.All()) != len(load(t, "").All()) {
		t.Error("a file with a bundled name adds a system")
	}
	for text, want := range map[string]string{
		"": "the file is empty",
		"name: x\nsource: y\nschedule: dense\nshedule: da\n":                                                        "shedule",
		"name: x\nschedule: dense\n":                                                                                "name, source and schedule",
		"name: x\nsource: y\nschedule: densely\n":                                                                   "densely",
		"name: x\nsource: y\nschedule: da\n":                                                                        "select.lists",
		"name: x\nsource: y\nselect: {lists: exact}\nschedule: da\n":                                                "keep.policy",
		"name: x\nsource: y\nselect: {lists: exact}\nkeep: {policy: lruu}\nschedule: da\n":                          "lruu",
		"name: x\nsource: y\nselect: {lists: exact, cost: guess}\nkeep: {policy: lru}\nschedule: da\n":              "guess",
		"name: x\nsource: y\nselect: {lists: exact}\nkeep: {policy: lru, size: huge}\nschedule: da\n":               "keep.size",
		"name: x\nsource: y\nselect: {lists: exact}\nkeep: {policy: lru, warmup: hot}\nschedule: da\n":              "hot",
		"name: x\nsource: y\nschedule: flexgen\npreempt: swap\n":                                                    "expected schedule dense",
		"name: x\nsource: y\nschedule: dense\npreempt: wait\n":                                                      "wait",
		"name: x\nsource: y\nselect: {lists: exact}\nkeep: {policy: lru}\nschedule: da\ntiers: lru\n":               "NAME=POLICY@CAPACITY",
		"name: x\nsource: y\nselect: {lists: exact}\nkeep: {policy: lru}\nschedule: da\ninclusive: yes\n":           "inclusive",
		"name: x\nsource: y\nselect: {lists: exact}\nkeep: {policy: window:2, allocate: 2d-greedy}\nschedule: da\n": "no capacity",
		"name: x\nsource: y\nschedule: dense\ntiers: dram=lru@8x\n":                                                 "keep.policy",
		"name: x y\nsource: y\nschedule: dense\n":                                                                   "letters, digits",
		"name: x\nsource: y\nschedule: dense\nablations: {a: {schedule: nope}}\n":                                   "ablation a",
		"name: x\nsource: y\nschedule: dense\n---\nname: z\n":                                                       "second document",
		"name: [x\n": "mine.yaml",
	} {
		write(text)
		if _, err := Load(dir, all.Table()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "mine.yaml") {
			t.Errorf("%q: %v, expected %q", text, err, want)
		}
	}
	if _, err := Load(filepath.Join(dir, "none"), all.Table()); err == nil {
		t.Error("a folder that does not exist")
	}
	for _, text := range []string{"ess/none", "esss", "ess,"} {
		if _, err := load(t, "").Find([]string{text}, false); err == nil {
			t.Errorf("%s is found", text)
		}
	}
	if _, err := load(t, "").Find([]string{"ess", "all"}, false); err == nil || !strings.Contains(err.Error(), "named twice") {
		t.Error(err)
	}
}

// A tier keeps some blocks in host memory. The others are on the SSD, whose reads take time. Misses of
// the GPU's cache stay.
func TestTiers(t *testing.T) {
	rows := compare(t, question(t, "rtx4090", 32768, 4), open(t, "selectors_qa_text.*.parquet"), false, "kvdrive/lru", "kvdrive", "kvdrive/ssd")
	whole, tiered := rows["kvdrive"], rows["kvdrive/ssd"]
	if !whole.Fits() || !tiered.Fits() {
		t.Fatalf("%q, %q", whole.Verdict, tiered.Verdict)
	}
	if whole.Memory.SSD != 0 || tiered.Memory.SSD <= tiered.Memory.Host || tiered.Memory.Host >= whole.Memory.Host || tiered.TPOT <= whole.TPOT {
		t.Errorf("without a tier %+v in %g s, with one %+v in %g s", whole.Memory, whole.TPOT, tiered.Memory, tiered.TPOT)
	}
}

// Every row keeps to the GPU's memory, and a cache that is one block larger does not fit.
func TestEqualMemory(t *testing.T) {
	q := question(t, "rtx4090", 122880, 4)
	traces := open(t, "selectors_qa_text.*.parquet")
	rows := compare(t, q, traces, false, "all")
	for name, r := range rows {
		if r.Fits() != (r.Memory.GPU > 0 && r.Memory.GPU <= r.Memory.GPUHas && r.Memory.Host <= r.Memory.HostHas) {
			t.Errorf("%s: fits %v (%s), with %+v", name, r.Fits(), r.Verdict, r.Memory)
		}
		if r.Fits() != (r.TPOT > 0 && r.Tokens > 0 && r.Interval.Low <= r.TPOT && r.TPOT <= r.Interval.High) {
			t.Errorf("%s: TPOT %g s, interval %+v, %g tokens/s", name, r.TPOT, r.Interval, r.Tokens)
		}
	}
	for _, name := range []string{"hisparse", "quest-offload", "retroinfer"} {
		list, err := load(t, "").Find([]string{name}, false)
		fatal.If(t, err)
		c := &comparison{Question: q, system: list[0], row: newRow(list[0]), policy: "lru", tokens: q.TopK, recorded: newRecordings(traces)}
		if c.traces, err = c.choose(traces); err != nil {
			t.Fatal(err)
		}
		o := c.Options
		if o.Schedule, err = schedule.Parse(list[0].Schedule); err != nil {
			t.Fatal(err)
		}
		if o.Selection, err = operator.ParseSelection(list[0].selection(), o.Model); err != nil {
			t.Fatal(err)
		}
		o.Lookup, o.Path = list[0].Lookup, list[0].Path
		unit, least, most, err := c.bounds()
		fatal.If(t, err)
		slow := 0 // largest capacity that fits, of all in a row
		for n, fit := least, true; fit && n <= most; {
			var texts []string
			for ; n <= most && len(texts) < 16; n++ {
				texts = append(texts, fmt.Sprint(n*unit))
			}
			all, err := c.measure(t.Context(), o, texts)
			fatal.If(t, err)
			for i, m := range all {
				if fit = fit && m.Fits(); fit {
					slow = n - len(texts) + i
				}
			}
		}
		r := rows[name]
		if r.Capacity == nil {
			t.Fatalf("%s: %s", name, r.Verdict)
		}
		if got := *r.Capacity / (float64(q.TopK) / 32) / float64(unit); math.Abs(got-float64(slow)) > 1e-9 || slow == least || slow == most {
			t.Errorf("%s: capacity of %g blocks, expected %d of %d to %d", name, got, slow, least, most)
		}
	}
}

// OPT bounds every exact system. More memory never means more misses, and a warm-up never hurts.
func TestDirections(t *testing.T) {
	traces := open(t, "selectors_niah_multikey_3.*.parquet")
	small, large := question(t, "rtx4090", 122880, 4), question(t, "h100", 122880, 4)
	a, b := compare(t, small, traces, true, "ess", "quest-offload", "dense-gpu"), compare(t, large, traces, true, "ess", "quest-offload", "dense-gpu")
	for _, name := range []string{"ess", "ess/no-warmup", "quest-offload"} {
		for _, rows := range []map[string]*Row{a, b} {
			if r := rows[name]; r.TimesOPT == nil || *r.TimesOPT < 1 {
				t.Errorf("%s: × OPT %v (%s)", name, r.TimesOPT, r.Verdict)
			}
		}
		if !(*a[name].Capacity < *b[name].Capacity && *a[name].HitRate <= *b[name].HitRate) {
			t.Errorf("%s: capacity %g and %g, hits %g and %g", name, *a[name].Capacity, *b[name].Capacity, *a[name].HitRate, *b[name].HitRate)
		}
	}
	if !(*a["ess"].HitRate > *a["ess/no-warmup"].HitRate && a["ess"].TPOT < a["ess/no-overlap"].TPOT) {
		t.Errorf("ESS: hits %g, cold %g; TPOT %g, without overlap %g", *a["ess"].HitRate, *a["ess/no-warmup"].HitRate, a["ess"].TPOT, a["ess/no-overlap"].TPOT)
	}
	if r := a["dense-gpu"]; r.Fits() || !strings.Contains(r.Verdict, "of which KV 64") {
		t.Errorf("dense attention on 24 GB: %q", r.Verdict)
	}
}

// By hand: two of four requests fit. Each generates 512 tokens, then its 32,768 tokens of 131,072 B
// leave the GPU and come back.
func TestPreemption(t *testing.T) {
	q := question(t, "rtx4090", 32768, 4)
	rows := compare(t, q, nil, false, "vllm-swap", "vllm-recompute", "hcache")
	two := question(t, "rtx4090", 32768, 2)
	step := compare(t, two, nil, false, "dense-gpu")["dense-gpu"].TPOT
	for way, r := range map[pipeline.Resumption]*Row{pipeline.BySwap: rows["vllm-swap"], pipeline.ByRecompute: rows["vllm-recompute"], pipeline.ByHidden: rows["hcache"]} {
		o := q.Options
		resume, err := pipeline.Resume(t.Context(), way, 32768, 16, o)
		fatal.If(t, err)
		want := 4 * (step/2 + resume.Seconds/512)
		switch kv := 32768 * 131072.; way { // of a request
		case pipeline.BySwap:
			if r.Memory.Host != 2*kv || math.Abs(*r.H2D/(2*kv/512)-1) > 1e-9 {
				t.Errorf("swap: host memory of %g B and %g B a step, expected two requests of %g B", r.Memory.Host, *r.H2D, kv)
			}
		case pipeline.ByHidden: // twice as wide as K and V with 8 of 32 heads
			if r.Memory.Host != 4*2*kv {
				t.Errorf("hidden states: host memory of %g B, expected four requests of %g B", r.Memory.Host, 2*kv)
			}
		}
		if r.P50 != 0 || r.P99 != 0 {
			t.Errorf("%s: percentiles of %g and %g s without the wait", way, r.P50, r.P99)
		}
		if r.Running != 2 || math.Abs(r.TPOT/want-1) > 1e-9 || math.Abs(r.Tokens*r.TPOT-4) > 1e-9 {
			t.Errorf("%s: %d run, TPOT %g s, %g tokens/s, expected TPOT %g", way, r.Running, r.TPOT, r.Tokens, want)
		}
	}
	small := *q.Machine.Host
	small.Memory.Value = 20e9 // less than four requests' hidden states
	own := *q.Machine
	own.Host = &small
	q.Machine = &own
	if r := compare(t, q, nil, false, "hcache")["hcache"]; r.Fits() || r.Tokens != 0 || !strings.Contains(r.Verdict, "host needs") {
		t.Errorf("HCache on a small host: %q, %g tokens/s", r.Verdict, r.Tokens)
	}
	swap, err := pipeline.Resume(t.Context(), pipeline.BySwap, 32768, 16, q.Options)
	fatal.If(t, err)
	if bytes := 2 * 32768 * 131072.; swap.Seconds < bytes/32e9 || swap.Seconds > bytes/16e9 { // PCIe 4 ×16 moves 20 to 27 GB/s
		t.Errorf("swap takes %g s", swap.Seconds)
	}
	// Only the link moves the swap, and only kernels the steps.
	back := 4 * swap.Seconds / 512
	share := back / (back + 2*step)
	if r := rows["vllm-swap"]; math.Abs(r.Interval.Submodels["link"].Slow-0.65*share) > 1e-6 {
		t.Errorf("the link lengthens a token by %v, expected 0.65 of the %.3f that swap takes", r.Interval.Submodels["link"], share)
	}
}

// Without lists of its own a system replays those of the exact Top-K, and says so. Systems whose
// needs no trace serves have no figures.
func TestOtherLists(t *testing.T) {
	q := question(t, "h100", 32768, 1)
	rows := compare(t, q, open(t, "selectors_qa_text.exact.parquet"), false, "shadowkv", "h2o", "ess")
	if r := rows["shadowkv"]; !r.Fits() || !strings.Contains(strings.Join(r.Approximates, "\n"), "lists of the exact Top-K, because no trace has those of shadowkv") {
		t.Errorf("ShadowKV on exact lists: %q, %q", r.Verdict, r.Approximates)
	}
	if r := rows["h2o"]; r.Fits() || !strings.Contains(r.Verdict, "attention masses") {
		t.Errorf("H2O without masses: %q", r.Verdict)
	}
	wide := compare(t, q, open(t, "selectors_qa_text.*.parquet", "wide_questions.parquet"), false, "h2o", "ess")
	if r := wide["h2o"]; !r.Fits() || r.Kept == nil || *r.Kept <= 0 || !strings.Contains(strings.Join(r.Approximates, "\n"), "other requests than most systems (wide_questions.parquet)") {
		t.Errorf("H2O on another trace: %q, kept %v, %q", r.Verdict, r.Kept, r.Approximates)
	}
	if got := wide["ess"].Traces; len(got) != 1 || got[0] != "selectors_qa_text.exact.parquet" {
		t.Errorf("ESS replays %v, expected the requests that most selectors recorded", got)
	}
	if !slices.ContainsFunc(wide["ess"].Approximates, func(a string) bool { return strings.HasPrefix(a, "no wide_questions.parquet: other K") }) {
		t.Errorf("ESS does not say which traces it left out: %q", wide["ess"].Approximates)
	}
	slip, err := load(t, "").Find([]string{"shadowkv"}, false)
	fatal.If(t, err)
	slip[0].Select.Lists = "shadwkv"
	if _, err := q.Compare(t.Context(), slip, open(t, "selectors_qa_text.*.parquet")); err == nil || !strings.Contains(err.Error(), "no trace and no bundled system has it, did you mean shadowkv?") {
		t.Errorf("an unknown selector: %v", err)
	}
	none := compare(t, q, open(t, "selectors_qa_text.quest.parquet"), false, "ess")
	if r := none["ess"]; r.Fits() || !strings.Contains(r.Verdict, "no trace has lists of exact") {
		t.Errorf("ESS on lists of Quest: %q", r.Verdict)
	}
}

// KVPR that recomputes nothing is FlexGen, and row by row it does not load ahead. OPT 13B has twice as many
// bytes of KV as of activations, so KVPR gains there.
func TestKVPRWithoutRecomputation(t *testing.T) {
	q := question(t, "rtx4090", 32768, 4)
	rows := compare(t, q, nil, true, "flexgen", "kvpr")
	if f, k := rows["flexgen"], rows["kvpr"]; f.TPOT != k.TPOT || f.Rank != k.Rank || rows["kvpr/row"].TPOT <= k.TPOT {
		t.Errorf("FlexGen takes %g s, KVPR %g s, row by row %g s", f.TPOT, k.TPOT, rows["kvpr/row"].TPOT)
	}
	lib, err := hardware.Load("")
	fatal.If(t, err)
	q = question(t, "a100-40", 640, 64)
	if q.Model, err = lib.Model("opt-13b"); err != nil {
		t.Fatal(err)
	}
	if rows = compare(t, q, nil, true, "flexgen", "kvpr"); rows["kvpr"].TPOT >= rows["flexgen"].TPOT {
		t.Errorf("OPT 13B: FlexGen takes %g s, KVPR %g s", rows["flexgen"].TPOT, rows["kvpr"].TPOT)
	}
}

// Without an indexer, exact lists have the price of an index that finds less, which the output says.
// Reading all keys costs more. Notes that some systems have name these systems.
func TestPriceOfExactLists(t *testing.T) {
	q := question(t, "h100", 32768, 4)
	names := []string{"ess", "ess/keys", "hisparse", "trtllm-offload", "sparse-gpu", "quest-offload", "dense-gpu"}
	list, err := load(t, "").Find(names, false)
	fatal.If(t, err)
	traces := open(t, "selectors_qa_text.*.parquet")
	rows, err := q.Compare(t.Context(), list, traces)
	fatal.If(t, err)
	said := "exact lists at the price of bounds of 16 tokens, which find less: llama-3-8b has no indexer"
	for _, r := range rows {
		if want := slices.Contains([]string{"ess", "hisparse", "trtllm-offload", "sparse-gpu"}, r.Name); slices.Contains(r.Approximates, said) != want {
			t.Errorf("%s: %q", r.Name, r.Approximates)
		}
	}
	if rows[1].Memory.Index <= rows[0].Memory.Index || rows[1].TPOT <= rows[0].TPOT {
		t.Errorf("all keys: %g B, %g s; bounds of 16 tokens: %g B, %g s", rows[1].Memory.Index, rows[1].TPOT, rows[0].Memory.Index, rows[0].TPOT)
	}
	notes := strings.Join(q.Report(rows).Footnotes, "\n")
	for _, want := range []string{"note: selection: minmax:tokens=16 (ess, hisparse, trtllm-offload, 2 more)", "note: selection: keys (ess/keys)",
		"note: replayed: 1 request of selectors_qa_text.quest.parquet (quest-offload)", "it has 2 layers (5, 20), llama-3-8b has 32 (ess, ess/keys, hisparse, 3 more)"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes lack %q:\n%s", want, notes)
		}
	}
	lib, err := hardware.Load("")
	fatal.If(t, err)
	if q.Model, err = lib.Model("deepseek-v3.2"); err != nil {
		t.Fatal(err)
	}
	if r := compare(t, q, traces, false, "ess")["ess"]; !r.Fits() || strings.Contains(strings.Join(r.Approximates, "\n"), "no indexer") {
		t.Errorf("a model with an indexer: %q, %q", r.Verdict, r.Approximates)
	}
}

// The three forms have the same rows.
func TestForms(t *testing.T) {
	q := question(t, "h100", 32768, 4)
	q.SLO = 1e-3
	list, err := load(t, "").Find([]string{"ess", "dense-gpu", "magicpig"}, false)
	fatal.If(t, err)
	rows, err := q.Compare(t.Context(), list, open(t, "selectors_qa_text.*.parquet"))
	fatal.If(t, err)
	var table, lines, object bytes.Buffer
	fatal.If(t, q.WriteTable(&table, rows))
	fatal.If(t, q.WriteCSV(&lines, rows))
	fatal.If(t, text.WriteJSON(&object, rows))
	for _, want := range []string{"dense attention\n", "sparse attention, ", "misses the SLO", "ess ", "K = 512 tokens"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	records, err := csv.NewReader(&lines).ReadAll()
	if err != nil || len(records) != 4 || len(records[0]) != len(records[1]) || records[1][0] != "ess" ||
		!slices.Equal(records[1][2:8], []string{"1", "h100", "llama-3-8b", "32768", "4", "1"}) || records[3][2] != "2" {
		t.Errorf("CSV: %q, %v", records, err)
	}
	lines.Reset()
	fatal.If(t, q.WriteCSV(&lines, []*Row{{Name: "=1+1", Running: 1e6}}))
	if records, err := csv.NewReader(&lines).ReadAll(); err != nil || records[1][0] != "'=1+1" || records[1][19] != "1000000" || slices.Contains(records[1], "0") {
		t.Errorf("CSV: %q, %v: expected text that no spreadsheet computes, and 1000000 requests", records, err)
	}
	var back []Row
	if err := json.Unmarshal(object.Bytes(), &back); err != nil || len(back) != 3 || back[0].TPOT != rows[0].TPOT || !back[0].MissesSLO {
		t.Errorf("JSON: %+v, %v", back, err)
	}
}

func TestWrongQuestions(t *testing.T) {
	for want, change := range map[string]func(*Question){
		"context":             func(q *Question) { q.Context = 0 },
		"expected 1 to":       func(q *Question) { q.TopK = 1 << 20 },
		"between preemptions": func(q *Question) { q.Turn = 0 },
		"recall 2":            func(q *Question) { q.Recall = 2 },
		"batch":               func(q *Question) { q.Batch = 0 },
	} {
		q := question(t, "h100", 32768, 1)
		change(q)
		if _, err := q.Compare(t.Context(), nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}

// The recall of a selector's first K entries is the one that the capture measured.
func TestRecallIsThatOfTheCapture(t *testing.T) {
	for _, name := range []string{"infinigen", "quest", "quest-page8", "pqcache", "magicpig", "shadowkv"} {
		f, e := open(t, "selectors_qa_text."+name+".parquet")[0], open(t, "selectors_qa_text.exact.parquet")[0]
		var r ranks
		fatal.If(t, r.compareLists(f, e))
		want, err := strconv.ParseFloat(f.Meta().Notes["exact.recall"], 64)
		fatal.If(t, err)
		k := f.Meta().TopK
		if got := r.recall(k); math.Abs(got-want) > 0.0001 {
			t.Errorf("%s: recall %.4f at K = %d, the capture measured %.4f", name, got, k, want)
		}
		// The least number of entries is the first one that a scan finds.
		for _, recall := range []float64{0.05, 0.2, 0.5, 0.9} {
			n, ok := r.least(recall)
			slow := 1
			for slow < len(r.at) && r.recall(slow) < recall {
				slow++
			}
			if n != slow || ok != (r.recall(slow) >= recall) {
				t.Errorf("%s: %d entries for %g (%v), expected %d", name, n, recall, ok, slow)
			}
		}
	}
}

// At equal recall a poorer selector demands more. One whose lists are too short has no figures.
func TestEqualRecall(t *testing.T) {
	q := question(t, "rtx4090", 32768, 4)
	q.Recall = 0.6
	rows := compare(t, q, open(t, "selectors_qa_text.*.parquet"), false, "ess", "infinigen", "pqcache", "quest-offload")
	if r := rows["ess"]; r.K != 512 || *r.Recall != 1 {
		t.Errorf("ESS: K %d, recall %v", r.K, r.Recall)
	}
	a, b := rows["infinigen"], rows["pqcache"]
	if !a.Fits() || !b.Fits() || *a.Recall < 0.6 || *b.Recall < 0.6 || a.K >= b.K || a.K%16 != 0 {
		t.Errorf("InfiniGen needs %d tokens and PQCache %d (%q, %q)", a.K, b.K, a.Verdict, b.Verdict)
	}
	if r := rows["quest-offload"]; r.Fits() || !strings.Contains(r.Verdict, "record longer lists") {
		t.Errorf("Quest: %q", r.Verdict)
	}
	if r := rows["quest-offload"]; !strings.Contains(r.Verdict, "lists of 3 blocks of 16 tokens") {
		t.Errorf("Quest: %q", r.Verdict)
	}
	alone := compare(t, q, open(t, "selectors_qa_text.pqcache.parquet"), false, "pqcache")
	if r := alone["pqcache"]; r.Fits() || !strings.Contains(r.Verdict, "exact Top-K of the same requests") {
		t.Errorf("without the exact lists: %q", r.Verdict)
	}
}

// The recall of a lossy system is that of its lists × the share that it kept. At equal recall it keeps the
// least cache that suffices, or says that none does.
func TestLossyRecall(t *testing.T) {
	q := question(t, "rtx4090", 32768, 4)
	traces := open(t, "selectors_qa_text.*.parquet")
	r := compare(t, q, traces, false, "streamingllm")["streamingllm"]
	if *r.Kept >= 1 || *r.SelectorRecall != 1 || *r.Recall != *r.Kept || r.Mass != nil {
		t.Fatalf("recall %v, of the selector %v, kept %v, mass %v", *r.Recall, *r.SelectorRecall, *r.Kept, r.Mass)
	}
	q.Recall = *r.Recall / 2
	half := compare(t, q, traces, false, "streamingllm", "duoattention")
	if s := half["streamingllm"]; !s.Fits() || *s.Recall < q.Recall || *s.Recall > 1.1*q.Recall || *s.Capacity >= *r.Capacity || s.TPOT >= r.TPOT {
		t.Errorf("half of the recall: %v with %v tokens in %g s, expected %g with less than %v in less than %g s", *s.Recall, *s.Capacity, s.TPOT, q.Recall, *r.Capacity, r.TPOT)
	}
	q.Recall = 0.9
	for name, want := range map[string]string{"streamingllm": "% of the exact Top-K on these traces, below 90 %: no larger cache fits", "duoattention": "below 90 %: "} {
		if s := compare(t, q, traces, false, name)[name]; s.Fits() || !strings.Contains(s.Verdict, want) {
			t.Errorf("%s: %q, expected %q", name, s.Verdict, want)
		}
	}
}

// A context shorter than K is selected as a whole. Attention and misses then shrink with the context.
func TestContextsBelowK(t *testing.T) {
	q := question(t, "rtx4090", 32768, 4)
	rows := compare(t, q, open(t, "selectors_qa_text.exact.parquet"), false, "quest-offload", "shadowkv")
	for _, r := range rows {
		k := int64(r.K) // 512
		price := func(tokens int64) *pipeline.Result {
			p, err := r.At(t.Context(), 4, tokens)
			fatal.If(t, err)
			return p
		}
		whole, half := price(k), price(k/2)
		if math.Abs(half.H2D-whole.H2D/2) > 1e-9*whole.H2D || half.TPOT >= whole.TPOT {
			t.Errorf("%s: at half of K %g B in %g s, at K %g B in %g s", r.Name, half.H2D, half.TPOT, whole.H2D, whole.TPOT)
		}
		if dense := float64(4*(k/2)) * float64(q.Model.Entry.Value) * float64(q.Model.Layers.Value); half.Memory.Cache > dense*1.1 {
			t.Errorf("%s: a cache of %g B for a context of %g B", r.Name, half.Memory.Cache, dense)
		}
	}

	q = question(t, "rtx4090", 512, 4)
	q.Recall, q.TopK = 0.6, 512
	found := compare(t, q, open(t, "selectors_qa_text.*.parquet"), false, "pqcache")
	if r := found["pqcache"]; !r.Fits() || r.K != 512 {
		t.Errorf("a recall that needs more tokens than the context has: K %d, %q", r.K, r.Verdict)
	}
}

// KVDrive solves its plan before it serves, so the plan of a trace reads other requests only. With one
// trace a line says that it does not.
func TestPlansFromOtherRequests(t *testing.T) {
	c := &comparison{Question: question(t, "l20", 122880, 4), system: found(t, "kvdrive"), policy: "lookahead"}
	c.row, c.traces = newRow(c.system), open(t, "selectors_*.kvdrive.parquet")
	fatal.If(t, c.complete(c.traces))
	plain := *c.system
	plain.Keep.Warmup = "" // needs scores
	c.system = &plain
	said := len(c.row.Approximates)
	fatal.If(t, c.profile(t.Context()))
	if len(c.traces) != 2 || len(c.row.Approximates) != said {
		t.Errorf("%d traces, approximates %q", len(c.traces), c.row.Approximates[said:])
	}
	plans := map[string]*allocate.Plan{}
	for i, name := range []string{"first", "second"} {
		runs, err := c.replays(i, []string{"3x"})
		fatal.If(t, err)
		plans[name] = runs[0].Allocation
	}
	if reflect.DeepEqual(plans["first"].Streams, plans["second"].Streams) {
		t.Error("both traces have one plan, expected each to have that of the other")
	}
	c.curves[0] = nil
	if again, err := c.plan(0, "3x"); err != nil || !reflect.DeepEqual(again, plans["first"]) {
		t.Errorf("the plan of the first trace depends on its own requests: %+v, %v", again, err)
	}
	one := compare(t, c.Question, open(t, "selectors_qa_text.kvdrive.parquet"), false, "kvdrive")["kvdrive"]
	if !one.Fits() || !strings.Contains(strings.Join(one.Approximates, "\n"), "no other trace serves it") {
		t.Errorf("one trace: %q, %q", one.Verdict, one.Approximates)
	}
}

// A chunk of 4 tokens may hold tokens beyond the Top-K, so the floors of a plan exceed K. The least
// capacity that is tried then is the floor.
func TestPlansOfChunks(t *testing.T) {
	q := question(t, "l20", 122880, 4)
	gpu := *q.Machine.GPU
	gpu.Memory.Value = 20.7e9
	q.Machine.GPU = &gpu
	rows := compare(t, q, open(t, "systems_niah_multikey_3.kvdrive.parquet"), true, "kvdrive")
	own, uniform := rows["kvdrive"], rows["kvdrive/uniform"]
	if !own.Fits() || *own.Multiple <= 1 || *own.Multiple > 2 || !uniform.Fits() {
		t.Errorf("capacity %v × K (%s), uniform %s, expected 1 to 2", own.Multiple, own.Verdict, uniform.Verdict)
	}
}

// A step of two positions joins their demands, and yields --accept tokens.
func TestPositions(t *testing.T) {
	q := question(t, "h100", 32768, 4)
	traces := open(t, "systems_niah_multikey_3.exact.parquet")
	single := compare(t, q, traces, false, "ess")["ess"]
	q.Positions = 1
	if r := compare(t, q, traces, false, "dense-gpu")["dense-gpu"]; strings.Contains(strings.Join(r.Notes, "\n"), "positions") {
		t.Errorf("one position: %q", r.Notes)
	}
	q.Positions, q.Accept = 2, 1.5
	rows := compare(t, q, traces, false, "ess", "sparse-gpu", "h2o")
	double := rows["ess"]
	if !double.Fits() || !(double.P50*1.5 > single.P50) || *double.H2D <= *single.H2D {
		t.Errorf("two positions: %q, step %g s and %g s, bytes %g and %g", double.Verdict, double.P50*1.5, single.P50, *double.H2D, *single.H2D)
	}
	o := replay.Options{Shape: replay.Shape{StepTokens: 2}, Workers: 1}
	var err error
	if o.Warmup, err = replay.ParseWarmup("auto"); err != nil {
		t.Fatal(err)
	}
	spec, err := all.Table().Parse("lru")
	fatal.If(t, err)
	o.Policies = []policies.Spec{spec}
	entries := int(math.Round(*double.Capacity / double.Scale))
	if o.Capacities, err = replay.ParseCapacities([]string{fmt.Sprint(entries)}); err != nil {
		t.Fatal(err)
	}
	done, err := replay.Run(t.Context(), traces[0], o)
	fatal.If(t, err)
	if want := 1 - float64(done.Rows[0].Misses)/float64(done.Rows[0].Demand); math.Abs(want-*double.HitRate) > 1e-12 {
		t.Errorf("hits %g, replay has %g at %d entries", *double.HitRate, want, entries)
	}
	if r := rows["h2o"]; r.Fits() || !strings.Contains(r.Verdict, "--mtp") {
		t.Errorf("a lossy policy with two positions: %q", r.Verdict)
	}
}

// found returns a bundled system.
func found(t *testing.T, name string) *System {
	t.Helper()
	list, err := load(t, "").Find([]string{name}, false)
	fatal.If(t, err)
	return list[0]
}

// If no share fits, the note says so, and not that the whole context is the smallest share that fits.
func TestELLMWithoutAShareThatFits(t *testing.T) {
	q := question(t, "rtx4090", 122880, 4)
	r := compare(t, q, nil, false, "ellm")["ellm"]
	notes := strings.Join(r.Notes, "\n")
	if r.Fits() || !strings.Contains(notes, "no share of uncached tokens fits") || strings.Contains(notes, "smallest share that fits") {
		t.Errorf("%q, notes %q", r.Verdict, notes)
	}
	q.Context, q.Batch = 8192, 2
	if r := compare(t, q, nil, false, "ellm")["ellm"]; !r.Fits() || !strings.Contains(strings.Join(r.Notes, "\n"), "smallest share that fits") {
		t.Errorf("%q, notes %q", r.Verdict, r.Notes)
	}
}
