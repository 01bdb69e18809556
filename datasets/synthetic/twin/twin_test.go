package twin

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/synthetic"
	"github.com/kvreplay/kvreplay/trace"
)

func open(t *testing.T, path string) *trace.File {
	t.Helper()
	f, err := trace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// most is the error that README.md states.
const most = 0.1

// Synthetic twins of the bundled real traces have the misses of the originals within the
// stated error, whatever the seed, and README.md's table is what comes out.
func TestBundled(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, policies := range map[string]int{"smollm2_multi_news_8k": 3, "smollm2_niah_multikey_3_4k": 3, "smollm2_niah_1k_sglang": 2} {
		t.Run(name, func(t *testing.T) {
			original := open(t, filepath.Join("..", "..", "bundled", name+".parquet"))
			d, err := synthetic.Fit(context.Background(), original, synthetic.FitOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var rows [2][]Row
			for seed := range rows {
				if rows[seed], err = twinOf(t, original, d, uint64(seed+1)); err != nil {
					t.Fatal(err)
				}
				if len(rows[seed]) != policies*len(Capacities) {
					t.Fatalf("%d rows, expected %d policies at %d capacities", len(rows[seed]), policies, len(Capacities))
				}
			}
			line := ""
			for i, a := range rows[0] {
				b := rows[1][i]
				for _, r := range []Row{a, b} {
					if e := r.Error(); !(math.Abs(e) <= most) {
						t.Errorf("%s at %s: %d misses, the twin's %d are off by %+.1f %%", r.Policy, r.Capacity, r.Original, r.Twin, 100*e)
					}
				}
				if line += fmt.Sprintf(" | %s, %s %%", percent(a.Error()), percent(b.Error())); (i+1)%len(Capacities) == 0 {
					t.Logf("%-9s%s |", a.Policy, line)
					if !strings.Contains(string(readme), line+" |\n") {
						t.Errorf("README.md has other figures for %s", a.Policy)
					}
					line = ""
				}
			}
		})
	}
}

// twinOf compares a trace with a twin of the dials drawn from seed.
func twinOf(t *testing.T, original *trace.File, d *synthetic.Dials, seed uint64) ([]Row, error) {
	twin := *d
	twin.Seed = seed
	path := filepath.Join(t.TempDir(), "twin.parquet")
	if err := synthetic.Write(context.Background(), path, &twin, synthetic.Options{}); err != nil {
		return nil, err
	}
	return Compare(context.Background(), original, open(t, path), 2)
}

// percent is a share as README.md writes it.
func percent(v float64) string {
	return strings.ReplaceAll(strings.ReplaceAll(fmt.Sprintf("%+.1f", 100*v), "-", "−"), "+0.0", "0.0")
}

// A trace compared with itself has no error, with half of itself none but chance; where
// the original has no misses there is no error to state.
func TestCompare(t *testing.T) {
	f := open(t, filepath.Join("..", "..", "bundled", "smollm2_niah_1k_sglang.parquet"))
	rows, err := Compare(context.Background(), f, f, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Error() != 0 || r.Original == 0 {
			t.Errorf("%+v: error %v, expected 0", r, r.Error())
		}
	}
	if e := (Row{Twin: 3}).Error(); !math.IsNaN(e) {
		t.Errorf("error %v over no misses", e)
	}
}
