package twin

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/synthetic"
	"github.com/kvreplay/kvreplay/trace"
)

func TestBundled(t *testing.T) {
	for _, c := range []struct {
		name string
	}{{"smollm2_multi_news_8k"}, {"smollm2_niah_multikey_3_4k"}, {"smollm2_niah_1k_sglang"}} {
		t.Run(c.name, func(t *testing.T) {
			f, err := trace.Open(filepath.Join("..", "..", "bundled", c.name+".parquet"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			ctx := context.Background()
			d, err := synthetic.Fit(ctx, f, synthetic.FitOptions{})
			if err != nil {
				t.Fatal(err)
			}
			text, _ := d.Encode()
			t.Logf("%s", text)
			path := filepath.Join(t.TempDir(), "twin.parquet")
			for seed := range uint64(3) {
				d.Seed = seed + 1
				if err := synthetic.Write(ctx, path, d, synthetic.Options{}); err != nil {
					t.Fatal(err)
				}
				g, err := trace.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				rows, err := Compare(ctx, f, g, 0)
				if err != nil {
					t.Fatal(err)
				}
				g.Close()
				for _, r := range rows {
					t.Logf("%-10s %6s %8d %8d %+6.1f %%", r.Policy, r.Capacity, r.Original, r.Twin, 100*r.Error())
				}
			}
		})
	}
}
