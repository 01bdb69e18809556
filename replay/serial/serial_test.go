package serial

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/golang-lru/arc/v2"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// plainLRU is a minimal LRU for single accesses.
type plainLRU struct {
	order    []string // least recently used first
	capacity int
}

func (c *plainLRU) access(x string) (hit bool) {
	if i := slices.Index(c.order, x); i >= 0 {
		c.order, hit = slices.Delete(c.order, i, i+1), true
	} else if len(c.order) == c.capacity {
		c.order = c.order[1:]
	}
	c.order = append(c.order, x)
	return hit
}

// misses reads the output of Flatten as another simulator would.
func misses(csv string, capacity int) (counted, missed int64) {
	caches := map[string]*plainLRU{}
	for _, line := range strings.Split(strings.TrimSpace(csv), "\n")[1:] {
		f := strings.Split(line, ",")
		if caches[f[0]] == nil {
			caches[f[0]] = &plainLRU{capacity: capacity}
		}
		hit := caches[f[0]].access(f[2])
		if step, _ := strconv.Atoi(f[1]); step < 0 {
			continue
		}
		counted++
		if !hit {
			missed++
		}
	}
	return counted, missed
}

func specs(t *testing.T, names ...string) (list []policies.Spec) {
	t.Helper()
	for _, name := range names {
		spec, err := all.Table().Parse(name)
		fatal.If(t, err)
		list = append(list, spec)
	}
	return list
}

func capacities(t *testing.T, texts ...string) (list []replay.Capacity) {
	t.Helper()
	for _, text := range texts {
		c, err := replay.ParseCapacity(text)
		fatal.If(t, err)
		list = append(list, c)
	}
	return list
}

func create(t *testing.T, m trace.Meta, streams ...*trace.Stream) *trace.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.parquet")
	w, err := trace.Create(path, m)
	fatal.If(t, err)
	for i, s := range streams {
		s.Layer = int32(i)
		fatal.If(t, w.Write(s))
	}
	fatal.If(t, w.Close())
	return open(t, path)
}

func open(t *testing.T, path string) *trace.File {
	t.Helper()
	f, err := trace.Open(path)
	fatal.If(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// The caches count the same misses as a plain LRU on the flattened trace. The traces have pins,
// blocks of several tokens, windows, short lists, gaps and heads.
func TestLRUOnFlattenedTrace(t *testing.T) {
	counted := int64(0)
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 3))
		d := replaytest.Medium(r)
		d.Steps++
		a, b := replaytest.Stream(r, d), replaytest.Stream(r, d)
		if seed%2 == 1 {
			a.Head, b.Head = 1, 0
		}
		f := create(t, d.Meta(1+r.IntN(d.M)), a, b)
		blocks := 1 + r.IntN(20)
		o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, strconv.Itoa(blocks*f.Meta().BlockTokens))}
		if r.IntN(3) == 0 {
			o.Warmup.Kind = replay.WarmupCold
		}
		rows, _, err := Run(context.Background(), f, o)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var csv bytes.Buffer
		if err := Flatten(context.Background(), &csv, f, o); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		accesses, missed := misses(csv.String(), blocks)
		if rows[0].Streams != 2 || rows[0].Accesses != accesses || rows[0].Misses != missed {
			t.Fatalf("seed %d: %d misses of %d, a plain LRU on the flattened trace has %d of %d", seed, rows[0].Misses, rows[0].Accesses, missed, accesses)
		}
		counted += accesses
	}
	if counted < 10000 {
		t.Errorf("%d accesses: the draw no longer covers what it should", counted)
	}
}

// The order of a list changes the misses of single accesses, here at C = K and 90 % overlap. The
// steps ignore the order. README.md has the ratios.
func TestOrder(t *testing.T) {
	const k = 512
	kept := replaytest.Overlapping(1, 8<<10, k, k, 256, 0.9) // staying blocks keep their places
	text, err := os.ReadFile("README.md")
	fatal.If(t, err)
	for name, reorder := range map[string]func([]int32){
		"blocks keep their places from step to step": func([]int32) {},
		"ascending": slices.Sort[[]int32],
		"shuffled at every step": func(list []int32) {
			r := rand.New(rand.NewPCG(uint64(list[0]), 2))
			r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		},
	} {
		var s trace.Stream
		s.Reset(kept.StreamInfo)
		for i := range kept.Rows {
			list := slices.Clone(kept.List(i))
			reorder(list)
			s.Append(trace.Row{Step: kept.Steps[i], Indices: list})
		}
		f := create(t, trace.Meta{Order: trace.OrderRank, TopK: k, BlockTokens: 1}, &s)
		rows, _, err := Run(context.Background(), f, Options{Policies: specs(t, "lru"), Capacities: capacities(t, "1x")})
		fatal.If(t, err)
		if line := fmt.Sprintf("| %s | %s |", name, rows[0].overstatement()); !strings.Contains(string(text), line) {
			t.Errorf("README.md lacks the line %s (%+v)", line, rows[0])
		}
	}
}

func TestErrors(t *testing.T) {
	f := open(t, "../../datasets/bundled/smollm2_multi_news_8k.parquet")
	for want, o := range map[string]Options{
		"policy lfu has no per-access cache, expected one of 2q, arc, lru": {Policies: specs(t, "lfu"), Capacities: capacities(t, "1x")},
		"places blocks without accesses":                                   {Policies: specs(t, "lru"), Capacities: capacities(t, "1x"), Warmup: replay.Warmup{Kind: replay.WarmupStaging}},
		"warm-up importance:2 places blocks":                               {Policies: specs(t, "lru"), Capacities: capacities(t, "1x"), Warmup: replay.Warmup{Kind: replay.WarmupImportance, Windows: 2}},
		"2Q of 1 blocks":                                                   {Policies: specs(t, "2q"), Capacities: capacities(t, "1")},
		"capacity 1x+2x@64 grows":                                          {Policies: specs(t, "lru"), Capacities: capacities(t, "1x", "1x+2x@64")},
		"exceeds candidates":                                               {Policies: specs(t, "lru"), Capacities: capacities(t, "1x"), TopK: 400},
	} {
		if _, _, err := Run(context.Background(), f, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Notes and errors do not name flags that serial lacks, such as those for pins and entry bytes.
func TestUnstatedSettings(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	d := replaytest.Medium(r)
	m := d.Meta(d.M)
	m.Sink, m.Local, m.EntryBytes = nil, nil, 0
	f := create(t, m, replaytest.Stream(r, d))
	_, notes, err := Run(context.Background(), f, Options{Policies: specs(t, "lru"), Capacities: capacities(t, "1x")})
	fatal.If(t, err)
	if text := strings.Join(notes, "; "); text != "the trace does not state sink and local: replay assumes 0 and 1" {
		t.Errorf("notes %q", text)
	}
	_, _, err = Run(context.Background(), f, Options{Policies: specs(t, "lru"), Capacities: capacities(t, "64KiB")})
	if err == nil || !strings.Contains(err.Error(), "the trace states no entry_bytes") || strings.Contains(err.Error(), "--") {
		t.Errorf("a capacity in bytes without entry_bytes: %v", err)
	}
}

// A table of several traces names the trace of each row.
func TestTableOfSeveralTraces(t *testing.T) {
	var out bytes.Buffer
	fatal.If(t, WriteTable(&out, []Row{{Trace: "a.parquet", Policy: "lru"}, {Trace: "b.parquet", Policy: "lru"}}))
	lines := strings.Split(out.String(), "\n")
	if !strings.HasPrefix(lines[0], " trace ") {
		t.Errorf("the header is %q", lines[0])
	}
	for i, want := range []string{" a.parquet ", " b.parquet "} {
		if line := lines[2+i]; !strings.HasPrefix(line, want) || !strings.HasSuffix(line, " -") { // with no misses the ratio is undefined
			t.Errorf("row %d is %q, expected %q first and no ratio", i, line, want)
		}
	}
}

// As the document states, golang-lru's ARC may hold one block more than its size, but no more.
func TestARCHoldsOneMore(t *testing.T) {
	const size = 5
	c, err := arc.NewARC[int32, struct{}](size)
	fatal.If(t, err)
	most, r := 0, rand.New(rand.NewPCG(1, 4))
	for range 100000 {
		x := r.Int32N(3 * size)
		if _, hit := c.Get(x); !hit {
			c.Add(x, struct{}{})
		}
		most = max(most, c.Len())
	}
	if most != size+1 {
		t.Errorf("ARC of %d blocks held up to %d", size, most)
	}
}
