package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// The name of a kept cell depends on all inputs of its rows: on the trace's name and content, and on
// all options but those listed. The cases change every field of the key.
func TestStoreKey(t *testing.T) {
	f := manyStreams(t)
	sink, local, bytes := 1, 4, 50
	base := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x")}
	cases := map[string]func(*Options){
		"policy": func(o *Options) { o.Policies = specs(t, "fifo") }, "options": func(o *Options) { o.Policies = specs(t, "lfu-decay") },
		"other options": func(o *Options) { o.Policies = specs(t, "lfu-decay:half_life=3") }, "capacity": func(o *Options) { o.Capacities = capacities(t, "3x") },
		"warm-up": func(o *Options) { o.Warmup = setting.Warmup{Kind: setting.WarmupCold} }, "windows": func(o *Options) { o.Warmup = setting.Warmup{Kind: setting.WarmupRun, Windows: 3} },
		"scope": func(o *Options) {
			o.Warmup = setting.Warmup{Kind: setting.WarmupImportance, Windows: 3, Scope: setting.ScopeRequest}
		},
		"K": func(o *Options) { o.TopK = 12 }, "M": func(o *Options) { o.Candidates = 30 },
		"sink": func(o *Options) { o.Sink = &sink }, "local": func(o *Options) { o.Local = &local }, "bytes": func(o *Options) { o.EntryBytes = &bytes },
		"blocks": func(o *Options) { o.Shape.BlockTokens = 4 }, "heads": func(o *Options) { o.Shape.ShareHeads = true }, "steps": func(o *Options) { o.Shape.StepTokens = 2 },
		"clusters": func(o *Options) { o.Clusters = mustClusters(t, clusterFile(t, f)) }, "pages": func(o *Options) { o.Clusters = mustClusters(t, clusterFile(t, f)+",page=4") },
		"pool": func(o *Options) { o.Pool = setting.PoolLayer }, "request": func(o *Options) { o.Pool = setting.PoolRequest }, "outliers": func(o *Options) { o.Outliers = setting.Outliers{Source: setting.OutliersWindows, Count: 2} },
		"prefetch": func(o *Options) { o.Prefetch = prefetch(t, "candidates:4") }, "swap": func(o *Options) { o.Prefetch = prefetch(t, "candidates:4,swap") },
		"predictor": func(o *Options) { o.Prefetch = prefetch(t, "echo:4") },
		"tiers":     func(o *Options) { o.Tiers = tiers(t, "dram=lru@2x", "cxl=lru@2x") }, "inclusive": func(o *Options) { o.Tiers, o.Inclusive = tiers(t, "dram=lru@2x", "cxl=lru@2x"), true },
		"layers": func(o *Options) { o.Layers = []int32{0} }, "requests": func(o *Options) { o.Requests = []string{"a"} },
		"plan":       func(o *Options) { o.Allocation, o.Capacities = uniformPlan(t), nil },
		"other plan": func(o *Options) { o.Allocation, o.Capacities = uniformPlan(t), nil; o.Allocation.Streams[0].Size-- },
		"reallocation": func(o *Options) {
			o.Allocation, o.Capacities, o.Reallocation = uniformPlan(t), nil, reallocation(t, "4")
		},
		"detail": func(o *Options) { o.Per = PerStream }, "seed": func(o *Options) { o.Seed = 1 },
	}
	named, changed := map[string]string{}, map[string]bool{}
	var first cellKey
	add := func(name string, f *trace.File, o Options) {
		p, err := newPlan(f, &o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, k := range p.keys() {
			if len(named) == 0 {
				first = k
			}
			if other, taken := named[hashOf(k)]; taken {
				t.Errorf("%s, cell %d, is kept under the name of %s", name, i, other)
			}
			named[hashOf(k)] = name
			addChanged(changed, first, k)
		}
		addChanged(changed, base, o)
	}
	add("nothing", f, base)
	for name, change := range cases {
		o := base
		change(&o)
		add(name, f, o)
	}
	add("another trace", otherTrace(t, f, "other.parquet"), base)
	add("another content", otherTrace(t, nil, filepath.Base(f.Path())), base)
	for _, same := range []string{"Workers", "SkipUnable", "Referee", "Profile", "Store", "Fresh", "Checkpoint", "Progress", "oneByOne", "chunk", "Engine", "Schema"} {
		changed[same] = true // no row depends on it, or it is a constant
	}
	for _, about := range []string{"Model", "Selector", "SelectorRecall"} {
		changed[about] = true // the trace's content determines it
	}
	for _, of := range []any{Options{}, cellKey{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
			if !changed[f.Name] && !f.Anonymous {
				t.Errorf("%T.%s changes in no case", of, f.Name)
			}
		}
	}
}

// addChanged notes the fields in which two structs of a type differ.
func addChanged(changed map[string]bool, a, b any) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for _, f := range reflect.VisibleFields(x.Type()) {
		if f.IsExported() && !reflect.DeepEqual(x.FieldByIndex(f.Index).Interface(), y.FieldByIndex(f.Index).Interface()) {
			changed[f.Name] = true
		}
	}
}

// otherTrace returns a copy of a trace under another name. For a nil trace, it returns the trace of
// manyStreams with other content.
func otherTrace(t *testing.T, f *trace.File, name string) *trace.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if f == nil {
		writeStreams(t, path, 8)
	} else if text, err := os.ReadFile(f.Path()); err != nil || os.WriteFile(path, text, 0o644) != nil {
		t.Fatal(err)
	}
	other, err := trace.Open(path)
	fatal.If(t, err)
	t.Cleanup(func() { other.Close() })
	return other
}

func prefetch(t *testing.T, text string) setting.Prefetch {
	t.Helper()
	p, err := setting.ParsePrefetch(text)
	fatal.If(t, err)
	return p
}

// damageCells cuts every kept cell in half.
func damageCells(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "cells", "*", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("kept cells %v, %v", files, err)
	}
	for _, path := range files {
		info, err := os.Stat(path)
		fatal.If(t, err)
		fatal.If(t, os.Truncate(path, info.Size()/2))
	}
}

// A folder with files of a version before v0.1.0 is refused. A trace may have a name like theirs.
func TestStoreRefusesEarlyVersions(t *testing.T) {
	for name, want := range map[string]string{
		"cells/0123.jsonl":          "before v0.1.0",
		"small.rows-0123abcd.jsonl": "before v0.1.0",
		"a.rows-abc.rows.jsonl":     "",
		"cells/0123/0123.jsonl":     "",
	} {
		path := filepath.Join(t.TempDir(), filepath.FromSlash(name))
		fatal.If(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)))
		folder, _, _ := strings.Cut(path, filepath.FromSlash(name))
		_, err := OpenStore(folder)
		if got := fmt.Sprint(err); (want == "") != (err == nil) || want != "" && (!strings.Contains(got, want) || !strings.Contains(got, path)) {
			t.Errorf("%s: %v, expected %q", name, err, want)
		}
	}
}

// BenchmarkOpenStore opens a folder with cells of many traces, 1,000 each, and finds those of one.
// KVREPLAY_CELLS is the number of cells, such as 1000000.
func BenchmarkOpenStore(b *testing.B) {
	cells := 5000
	if text := os.Getenv("KVREPLAY_CELLS"); text != "" {
		var err error
		if cells, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	s, err := OpenStore(b.TempDir())
	fatal.If(b, err)
	for i := range cells {
		path := s.cellPath(fmt.Sprintf("trace %d", i/1000), hashOf(i)+"-0123456789abcdef")
		fatal.If(b, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)))
	}
	b.ReportAllocs()
	for b.Loop() {
		s, err := OpenStore(s.dir)
		fatal.If(b, err)
		names := map[string][]string{hashOf(7): nil}
		if err := s.cellNames("trace 0", names); err != nil || len(names[hashOf(7)]) != 1 {
			b.Fatal(names, err)
		}
	}
	b.ReportMetric(float64(cells), "cells")
}
