package twin

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/synthetic"
	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

func open(t *testing.T, path string) *trace.File {
	t.Helper()
	f, err := trace.Open(path)
	fatal.If(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// twinOf fits a trace and replays it together with its twin.
func twinOf(t *testing.T, path string) []Row {
	t.Helper()
	original := open(t, path)
	d, err := synthetic.Fit(t.Context(), original, synthetic.FitOptions{})
	fatal.If(t, err)
	topKs := []int{0}
	if m := original.Meta(); m.Order == trace.OrderRank && !strings.Contains(path, "selectors") && !strings.Contains(path, "ahead") {
		topKs = append(topKs, m.TopK/2)
	}
	rows, err := check(t.Context(), original, d, 2, topKs...)
	fatal.If(t, err)
	for i, half := range rows[1:] {
		halved(t, half, topKs[1+i])
	}
	return rows[0]
}

// halved checks README.md's statement about half the K: the error of the twin's LRU misses, for
// traces of a large K and of a small one.
func halved(t *testing.T, rows []Row, topK int) {
	t.Helper()
	low, high := -0.65, -0.2
	if topK < 16 {
		low, high = 0, 0.25
	}
	seen := 0
	for _, r := range rows {
		if r.Policy != "lru" {
			continue
		}
		seen++
		if e := r.Error(); e < low-0.005 || e > high+0.005 {
			t.Errorf("half the K, %s: LRU's misses of the twin are off by %s, README.md says %s to %s", r.Capacity, percent(e), percent(low), percent(high))
		}
	}
	if seen != len(Capacities) {
		t.Errorf("half the K: %d capacities of LRU, expected %d", seen, len(Capacities))
	}
}

// fuses reports whether sums of products are rounded once here, not twice. Go compiles them so for
// arm64 and for GOAMD64=v3. A fit's third digit then differs. MODEL.md has the figures for two
// roundings.
//
//go:noinline
func fuses(x, y, z float64) bool { return x*y+z != float64(x*y)+z }

// stated reports whether MODEL.md has a line of figures, or whether this machine gives others.
func stated(readme []byte, line string) bool {
	return fuses(1+0x1p-30, 1-0x1p-30, -1) || strings.Contains(string(readme), line+" |\n")
}

// Synthetic twins of the bundled real traces, with several requests, have the misses of the
// originals within the stated error. MODEL.md's table agrees.
func TestBundled(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "MODEL.md"))
	fatal.If(t, err)
	for name, policies := range map[string]int{"smollm2_multi_news_8k": 3, "smollm2_niah_multikey_3_4k": 3, "smollm2_niah_1k_sglang": 2} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "smollm2_niah_1k_sglang" {
				t.Skip("one trace is enough")
			}
			rows := twinOf(t, filepath.Join("..", "..", "bundled", name+".parquet"))
			if len(rows) != policies*len(Capacities) {
				t.Fatalf("%d rows, expected %d policies at %d capacities", len(rows), policies, len(Capacities))
			}
			line := ""
			for i, r := range rows {
				if e := r.Error(); !(math.Abs(e) <= Most) {
					t.Errorf("%s at %s: %d misses, the twin's %d are off by %+.1f %%", r.Policy, r.Capacity, r.Original, r.Twin, 100*e)
				}
				if line += " | " + percent(r.Error()); (i+1)%len(Capacities) == 0 {
					t.Logf("%-9s%s |", r.Policy, line)
					if !stated(readme, line) {
						t.Errorf("MODEL.md has other figures for %s", r.Policy)
					}
					line = ""
				}
			}
		})
	}
}

// Twins of the corpus' traces of single tokens have the misses of the originals within an error for
// each trace. MODEL.md's table agrees: the worst error per policy, and its capacity.
func TestCorpus(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "MODEL.md"))
	fatal.If(t, err)
	for name, most := range map[string]float64{
		"ahead_niah_multikey_2": 0.25, "ahead_repobench_go": 0.15,
		"deep_niah_multikey_2": 0.25, "deep_summary_go": 0.25, "deep_vt": 0.15,
		"wide_aggregation": 0.25, "wide_documents": 0.25, "wide_questions": 0.2, "wide_retrieval": 0.15,
		"selectors_niah_multikey_3.exact": 0.15, "selectors_niah_multikey_3.infinigen": 0.2,
		"selectors_niah_multikey_3.kvdrive": 0.25, "selectors_niah_multikey_3.magicpig": 0.1,
		"selectors_niah_multikey_3.pqcache": 0.15, "selectors_niah_multikey_3.retroinfer": 0.15,
		"selectors_qa_text.exact": 0.15, "selectors_qa_text.infinigen": 0.15, "selectors_qa_text.kvdrive": 0.25,
		"selectors_qa_text.magicpig": 0.1, "selectors_qa_text.pqcache": 0.3, "selectors_qa_text.retroinfer": 0.3,
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && !strings.HasPrefix(name, "selectors_qa_text") {
				t.Skip("one task is enough")
			}
			rows := twinOf(t, filepath.Join("..", "..", "corpus", name+".parquet"))
			line := "| " + strings.ReplaceAll(name, "selectors_", "")
			for _, policy := range []string{"lru", "lookahead", "opt"} {
				worst, ok := Worst(slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Policy != policy }))
				if e := worst.Error(); !ok || math.Abs(e) > most {
					t.Errorf("%s at %s: %d misses, the twin's %d are off by %+.1f %%", policy, worst.Capacity, worst.Original, worst.Twin, 100*e)
				}
				line += fmt.Sprintf(" | %s at %s", percent(worst.Error()), worst.Capacity)
			}
			t.Log(line + " |")
			if !stated(readme, line) {
				t.Error("MODEL.md has other figures")
			}
		})
	}
}

// percent is a share as MODEL.md writes it.
func percent(v float64) string {
	return strings.NewReplacer("+0.0 ", "0.0 ", "-0.0 ", "0.0 ", "-", "−").Replace(fmt.Sprintf("%+.1f %%", 100*v))
}

// A trace compared with itself has no error. Misses of a twin whose original has none are the worst
// error. If both have none, there is no error.
func TestCompare(t *testing.T) {
	f := open(t, filepath.Join("..", "..", "bundled", "smollm2_niah_1k_sglang.parquet"))
	rows, err := compare(context.Background(), f, f, 1, 0)
	fatal.If(t, err)
	for _, r := range rows {
		if r.Error() != 0 || r.Original == 0 {
			t.Errorf("%+v: error %v, expected 0", r, r.Error())
		}
	}
	none, some := Row{Policy: "opt"}, Row{Policy: "lru", Twin: 3}
	if none.Error() != 0 || !math.IsInf(some.Error(), 1) {
		t.Errorf("errors %v and %v over no misses", none.Error(), some.Error())
	}
	if worst, ok := Worst([]Row{{Original: 10, Twin: 5}, some, none}); !ok || worst != some {
		t.Errorf("the worst is %+v", worst)
	}
}
