package allocate

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// somePlan returns a plan with text that needs quoting.
func somePlan(f Family) *Plan {
	p := &Plan{Method: "2d-greedy", Family: f, Policy: "near-lrfu:gamma=0.97,w=2", Units: Units{TopK: 4, BlockTokens: 2, StepTokens: 1, SharedHeads: 1}, Floor: 4,
		Memory: "2x", MemoryEntries: 50, UsedEntries: 28,
		Profile: []Source{{"a: b #.parquet", "sha256:1", []string{"yes", "1e3", "ü\"\\ {x}", "- y"}}, {"c", "sha256:2", nil}},
		Streams: []Share{{Key{0, shared}, 4}, {Key{3, 0}, 8}, {Key{3, 1}, 16}}}
	if f == Windows {
		p.Cost, p.Floor = PeakResidents, 0
	}
	return p
}

func TestPlanFile(t *testing.T) {
	for _, f := range []Family{Capacities, Windows} {
		path := filepath.Join(t.TempDir(), "plan.yaml")
		p := somePlan(f)
		fatal.If(t, p.Write(path))
		got, err := Read(t.Context(), path)
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Fatalf("%+v, %v, want %+v", got, err, p)
		}
		if !bytes.Equal(got.Encode(), p.Encode()) {
			t.Errorf("%s, want %s", got.Encode(), p.Encode())
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
			t.Errorf("beside the plan: %v", left)
		}
	}
	if _, err := Read(t.Context(), filepath.Join(t.TempDir(), "none.yaml")); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("no file: %v", err)
	}
	if err := somePlan(Capacities).Write(filepath.Join(t.TempDir(), "no", "such", "folder.yaml")); err == nil {
		t.Error("no folder, no error")
	}
}

func TestPlanSizes(t *testing.T) {
	p := somePlan(Capacities)
	for k, want := range map[Key]int{{0, shared}: 4, {3, 0}: 8, {3, 1}: 16} {
		if got, ok := p.Capacity(k.Layer, k.Head); !ok || got != want {
			t.Errorf("%v: %d, %v, want %d", k, got, ok, want)
		}
	}
	for _, k := range []Key{{0, 0}, {3, shared}, {3, 2}, {4, 0}} {
		if got, ok := p.Capacity(k.Layer, k.Head); ok {
			t.Errorf("%v: %d, want none", k, got)
		}
	}
	if _, ok := p.Window(3, 0); ok {
		t.Error("a plan of capacities has a window")
	}
	if got, ok := somePlan(Windows).Window(3, 0); !ok || got != 8 {
		t.Errorf("window %d, %v, want 8", got, ok)
	}
	if _, ok := somePlan(Windows).Capacity(3, 0); ok {
		t.Error("a plan of windows has a capacity")
	}
}

func TestCovers(t *testing.T) {
	p := somePlan(Capacities)
	if err := p.Covers(p.Units, []Key{{3, 1}, {0, shared}}); err != nil {
		t.Error(err)
	}
	if err := p.Covers(p.Units, []Key{{3, 1}, {5, shared}}); err == nil || !strings.Contains(err.Error(), "the plan lacks layer 5: it has layers 0, 3") {
		t.Errorf("another layer: %v", err)
	}
	other := p.Units
	other.TopK = 8
	if err := p.Covers(other, nil); err == nil || !strings.Contains(err.Error(), "the plan is for topk 4") {
		t.Errorf("another K: %v", err)
	}
}

// The digest depends on exactly the data that replay depends on.
func TestDigest(t *testing.T) {
	a, b := somePlan(Capacities), somePlan(Capacities)
	b.Method, b.Memory, b.MemoryEntries, b.Profile, b.Policy = "uniform", "50", 60, nil, "lru"
	if a.Digest() != b.Digest() || !strings.HasPrefix(a.Digest(), "sha256:") {
		t.Errorf("%s and %s, want the same", a.Digest(), b.Digest())
	}
	seen := map[string]bool{a.Digest(): true, somePlan(Windows).Digest(): true}
	b.Streams[1].Size = 10
	seen[b.Digest()] = true
	b.Streams[1].Head = 7
	seen[b.Digest()] = true
	if len(seen) != 4 {
		t.Errorf("%d digests of 4 plans", len(seen))
	}
}

// Every change of a file that makes it impossible is an error.
func TestDecodeErrors(t *testing.T) {
	text := string(somePlan(Capacities).Encode())
	if _, err := Decode([]byte(text)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"unknown field":      {"topk:", "topK: 4\ntopk:", "topK"},
		"twice":              {"topk: 4", "topk: 4\ntopk: 4", "topk"},
		"no number":          {"topk: 4", "topk: four", "line 5"},
		"schema":             {"schema: 1", "schema: 2", "plan schema 2, this program reads schema 1"},
		"no schema":          {"schema: 1", "", "plan schema 0"},
		"family":             {"family: capacity", "family: sizes", `family "sizes", expected capacity`},
		"other family":       {"family: capacity", "family: window", "family window needs window"},
		"no K":               {"topk: 4", "", "topk 0"},
		"no steps":           {"step_tokens: 1", "step_tokens: 0", "step_tokens 0"},
		"no method":          {`method: "2d-greedy"`, `method: ""`, "method: missing or empty"},
		"two lines":          {`memory: "2x"`, `memory: "2\nx"`, "not printable"},
		"used too much":      {"memory_entries: 50", "memory_entries: 5", "used_entries 28 exceeds memory_entries 5"},
		"used below 0":       {"used_entries: 28", "used_entries: -28", "used_entries -28 exceeds memory_entries 50, or one is negative"},
		"used is not so":     {"used_entries: 28", "used_entries: 30", "used_entries 30, but the streams have 28"},
		"cost":               {"memory_entries", "cost: mean\nmemory_entries", `cost "mean"`},
		"no streams":         {"streams:", "streams: []\nx:", "x"},
		"stream twice":       {"{layer: 3, head: 1,", "{layer: 3, head: 0,", "streams[2]: layer 3 head 0 follows layer 3 head 0"},
		"heads and none":     {"{layer: 3, head: 0,", "{layer: 3,", "the layer has a stream without heads already"},
		"no layer":           {"{layer: 3, head: 0,", "{head: 0,", "streams[1]: layer is missing"},
		"negative head":      {"head: 0", "head: -1", "remove it if"},
		"negative layer":     {"layer: 0,", "layer: -2,", "streams[0]: layer -2"},
		"no size":            {", capacity_entries: 4}", "}", "needs capacity_entries, and no other size"},
		"a window":           {"capacity_entries: 4}", "window: 4}", "needs capacity_entries, and no other size"},
		"below the floor":    {"capacity_entries: 4}", "capacity_entries: 2}", "expected 4 (floor)"},
		"part of a block":    {"capacity_entries: 16}", "capacity_entries: 17}", "whole blocks of 2"},
		"layer out of range": {"layer: 0,", "layer: 99999999999,", "line"},
		"no trace":           {`digest: "sha256:1"`, `digest: ""`, "profile[0]"},
		"no request":         {`- "yes"`, `- ""`, "profile[0]: requests"},
		"two documents":      {"schema: 1", "schema: 1\n---\nschema: 1", ""},
		"not YAML":           {"schema: 1", "schema: [1", ""},
	} {
		altered := strings.Replace(text, c.old, c.new, 1)
		if altered == text {
			t.Errorf("%s: the text has no %q", name, c.old)
		}
		if p, err := Decode([]byte(altered)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v, want %q", name, p, err, c.want)
		}
	}
	if _, err := Decode(make([]byte, mostPlanBytes+1)); err == nil || !strings.Contains(err.Error(), "expected a plan") {
		t.Errorf("too large: %v", err)
	}
	for _, text := range []string{"", "null", "[]", "7", "{}"} {
		if p, err := Decode([]byte(text)); err == nil {
			t.Errorf("%q is the plan %+v", text, p)
		}
	}
}

// FuzzDecode checks that an accepted plan does not change when it is written and read again.
func FuzzDecode(f *testing.F) {
	f.Add(somePlan(Capacities).Encode())
	f.Add(somePlan(Windows).Encode())
	f.Add([]byte("schema: 1\nfamily: window\nmethod: a\npolicy: window\ntopk: 1\nblock_tokens: 1\nstep_tokens: 1\nshared_heads: 1\nmemory: 1x\ncost: mean\nstreams: [{layer: 0, window: 0}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Decode(text)
		if err != nil {
			return
		}
		again, err := Decode(p.Encode())
		if err != nil || !bytes.Equal(again.Encode(), p.Encode()) || again.Digest() != p.Digest() {
			t.Fatalf("%v: %s\nread again: %s", err, p.Encode(), again.Encode())
		}
	})
}

// Plans of any size and text survive writing and reading.
func TestRandomPlans(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 12))
		p := somePlan([]Family{Capacities, Windows}[r.IntN(2)])
		p.Streams, p.UsedEntries = nil, 0
		for layer := range int32(1 + r.IntN(9)) {
			for head := range int32(1 + r.IntN(4)) {
				size := p.Floor + 2*r.IntN(9)
				p.Streams = append(p.Streams, Share{Key{layer, head}, size})
				p.UsedEntries += int64(size)
			}
		}
		p.MemoryEntries = p.UsedEntries + r.Int64N(3)
		letters, id := []rune("az09 :#-{}[]'\"\\,&*!|>%@`~\u00fc\u4e16\u200b\U0001f600\u2028\ufeff"), make([]rune, 1+r.IntN(9))
		for i := range id {
			id[i] = letters[r.IntN(len(letters))]
		}
		p.Profile[0].Requests[0] = string(id)
		got, err := Decode(p.Encode())
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Fatalf("seed %d: %v:\n%s\n%+v, want %+v", seed, err, p.Encode(), got, p)
		}
	}
}

// A plan file without read permission is an error.
func TestUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	path := filepath.Join(t.TempDir(), "plan.yaml")
	fatal.If(t, os.WriteFile(path, somePlan(Capacities).Encode(), 0))
	if _, err := Read(t.Context(), path); err == nil {
		t.Error("an unreadable file was read")
	}
}
