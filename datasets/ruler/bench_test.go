package ruler

import (
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// BenchmarkSample makes one sample, from drawing it to counting its position.
func BenchmarkSample(b *testing.B) {
	for _, c := range []struct {
		name   string
		length int
	}{{"niah_multikey_3", 4096}, {"niah_multikey_3", 131072}, {"niah_multivalue", 131072}, {"cwe", 131072}, {"qa_1", 131072}} {
		b.Run(c.name+"/"+map[int]string{4096: "4K", 131072: "128K"}[c.length], func(b *testing.B) {
			m := loaded(b, options(c.length, 1, c.name))
			t := taskNamed(c.name)
			_, guess, err := m.row(t, c.length, 0, 0)
			fatal.If(b, err)
			for i := 0; b.Loop(); i++ {
				if _, _, err := m.row(t, c.length, 1+i%100, guess); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
