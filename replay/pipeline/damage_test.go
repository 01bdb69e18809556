package pipeline

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// Whatever bit of a profile is flipped, what is read of it is the same or an error.
func TestFlippedBits(t *testing.T) {
	whole := realProfile(t)
	want := read(t, whole)
	good, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "flipped.parquet")
	r := rand.New(rand.NewPCG(8, 8))
	seen := 0
	for range 500 {
		at := len(good) - 1 - r.IntN(min(len(good), 6000)) // the footer, and whatever is before it
		flipped := bytes.Clone(good)
		flipped[at] ^= 1 << r.IntN(8)
		if err := os.WriteFile(path, flipped, 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := ReadProfile(t.Context(), path, Cell{"lru", "2x"})
		if err != nil {
			seen++
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("byte %d of %d: another profile", at, len(good))
		}
	}
	if seen < 50 {
		t.Errorf("%d of 500 flips were seen", seen)
	}
}
