package setting

import (
	"reflect"
	"testing"
)

// FuzzParse checks that the text form of a capacity or a warm-up parses back to an equal value.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"1.5x", "0.2ctx", "6400", "64MiB", "peak:window:2", "0", "-1x", "1e400x", "auto", "lru:32", "importance:4", "staging", "cold", "lru:0", "NaNx", "predicted:0.5x", "candidates:64", "candidates:64,swap", "echo:0.25x,swap", "1x+2x@64+4x@128", "8+9@3", "2x+1x@4"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := ParseCapacity(text); err == nil {
			again, err := ParseCapacity(c.String())
			if err != nil || !reflect.DeepEqual(again, c) {
				t.Errorf("capacity %q reads as %+v, its text as %+v, %v", text, c, again, err)
			}
			if n, err := c.Blocks(Sizing{TopK: 256, BlockTokens: 8, PromptLen: 8192, Streams: 3}); err == nil && n < 1 {
				t.Errorf("capacity %q is %d blocks", text, n)
			}
		}
		if p, err := ParsePrefetch(text); err == nil {
			if again, err := ParsePrefetch(p.String()); err != nil || !reflect.DeepEqual(again, p) {
				t.Errorf("prefetch %q reads as %+v, its text as %+v, %v", text, p, again, err)
			}
		}
		if w, err := ParseWarmup(text); err == nil {
			if again, err := ParseWarmup(w.String()); err != nil || again != w {
				t.Errorf("warm-up %q reads as %+v, its text as %+v, %v", text, w, again, err)
			}
		}
	})
}
