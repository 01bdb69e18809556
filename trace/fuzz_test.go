package trace_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// FuzzOpen reads arbitrary bytes as a trace. The result is an error or a trace that keeps every
// rule, never a panic.
func FuzzOpen(f *testing.F) {
	raw, _ := damageSample(f, allHeads...)
	f.Add(raw)
	f.Add(raw[:len(raw)/2])
	f.Add([]byte("PAR1PAR1"))
	for _, path := range []string{
		writeRaw(f, map[string]string{"kvreplay": rawMeta}, goodRows()),
		writeRaw(f, map[string]string{"kvreplay": rawMeta}, goodRows()[:1]),
	} {
		small, err := os.ReadFile(path)
		fatal.If(f, err)
		f.Add(small)
	}
	path := filepath.Join(f.TempDir(), "fuzz.parquet")
	f.Fuzz(func(t *testing.T, data []byte) {
		fatal.If(t, os.WriteFile(path, data, 0o600))
		_, readErr := contents(path, nil)
		violations := 0
		_, err := trace.Validate(t.Context(), path, func(*trace.Error) bool { violations++; return violations < 5 })
		if readErr == nil && err != nil {
			t.Fatalf("reading succeeds, but validate fails: %v", err)
		}
		if readErr != nil && err == nil && violations == 0 {
			t.Fatalf("validate finds nothing, but reading fails: %v", readErr)
		}
	})
}

// FuzzParseMeta checks that accepted metadata has a canonical text that parses back to itself.
func FuzzParseMeta(f *testing.F) {
	f.Add([]byte(rawMeta))
	f.Add([]byte(`{"version":1,"order":"index","topk":4,"candidates":4,"block_tokens":16,"sink":4,"notes":{"a":"b"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := trace.ParseMeta(text)
		if err != nil {
			return
		}
		first, err := m.Canonical()
		fatal.If(t, err)
		back, err := trace.ParseMeta(first)
		if err != nil {
			t.Fatalf("canonical text %s does not parse: %v", first, err)
		}
		if second, _ := back.Canonical(); string(second) != string(first) {
			t.Fatalf("canonical text changes from %s to %s", first, second)
		}
	})
}
