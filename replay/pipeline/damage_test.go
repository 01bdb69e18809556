package pipeline

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// Whatever bit of a profile is flipped, what is read of it is the same or an error.
func TestFlippedBits(t *testing.T) {
	if testing.Short() {
		t.Skip("where the library panics on damaged pages, the race detector ends the program before that is an error")
	}
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

// A file whose columns lie otherwise than they are written is refused before it is read.
func TestPlaces(t *testing.T) {
	path := realProfile(t)
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(file, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	if err := checkPlaces(f); err != nil {
		t.Fatal(err)
	}
	f.Metadata().RowGroups[0].Columns[12].MetaData.TotalCompressedSize += 256
	if err := checkPlaces(f); err == nil || !strings.Contains(err.Error(), "column resident begins at byte") {
		t.Errorf("a column that is too long: %v", err)
	}
	f.Metadata().RowGroups[0].Columns[3].MetaData.Type++
	if err := checkColumns(f); err == nil || !strings.Contains(err.Error(), "column policy holds") {
		t.Errorf("a column of another type: %v", err)
	}
}
