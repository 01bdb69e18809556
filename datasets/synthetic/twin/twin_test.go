package twin

import (
	"context"
	"math"
	"path/filepath"
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
// stated error, whatever the seed.
func TestBundled(t *testing.T) {
	for name, policies := range map[string]int{"smollm2_multi_news_8k": 3, "smollm2_niah_multikey_3_4k": 3, "smollm2_niah_1k_sglang": 2} {
		t.Run(name, func(t *testing.T) {
			original := open(t, filepath.Join("..", "..", "bundled", name+".parquet"))
			d, err := synthetic.Fit(context.Background(), original, synthetic.FitOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(2) {
				d.Seed = seed + 1
				path := filepath.Join(t.TempDir(), "twin.parquet")
				if err := synthetic.Write(context.Background(), path, d, synthetic.Options{}); err != nil {
					t.Fatal(err)
				}
				rows, err := Compare(context.Background(), original, open(t, path), 2)
				if err != nil {
					t.Fatal(err)
				}
				if len(rows) != policies*len(Capacities) {
					t.Errorf("%d rows, expected %d policies at %d capacities", len(rows), policies, len(Capacities))
				}
				for _, r := range rows {
					t.Logf("seed %d  %-10s %6s %8d %8d %+6.1f %%", d.Seed, r.Policy, r.Capacity, r.Original, r.Twin, 100*r.Error())
					if e := r.Error(); !(math.Abs(e) <= most) {
						t.Errorf("seed %d: %s at %s: %d misses, the twin's %d are off by %+.1f %%", d.Seed, r.Policy, r.Capacity, r.Original, r.Twin, 100*e)
					}
				}
			}
		})
	}
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
