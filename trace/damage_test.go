package trace_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

var exhaustive = flag.Bool("exhaustive", false, "flip every bit that no checksum covers (a minute)")

// contents reads everything that a caller can learn about the file at path, with the streams in a
// random order. Two files have equal text only if their contents are equal.
func contents(path string, shuffle *rand.Rand) (string, error) {
	f, err := trace.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	streams := make([]string, len(f.Streams()))
	reader := f.NewReader(trace.ReadAll)
	defer reader.Close()
	order := make([]int, len(streams))
	for i := range order {
		order[i] = i
	}
	if shuffle != nil {
		shuffle.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	var s trace.Stream
	for _, i := range order {
		if err := reader.Read(i, &s); err != nil {
			return "", err
		}
		streams[i] = fmt.Sprintf("%+v", s)
	}
	meta, err := json.Marshal(f.Meta())
	return fmt.Sprint(string(meta), f.StoredDigest(), f.Indices(), f.HasScores(), f.HasAttentionMass(), f.HasCoveredMass(), f.HasPredicted(), f.RowGroups(), streams), err
}

var allHeads = []int32{trace.NoHead, 0, 1}

// damageSample returns a small file with every column, several streams and several pages per
// column, and its contents. Each layer has streams of the given heads.
func damageSample(t testing.TB, heads ...int32) (raw []byte, want string) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 7))
	var streams []*trace.Stream
	for layer := range int32(3) {
		for _, head := range heads {
			key := trace.Key{Request: []string{"a", "b"}[layer/2], Layer: layer, Head: head}
			streams = append(streams, randomStream(r, key, 40+r.IntN(90), -3, 12, 9, trace.ReadAll))
		}
	}
	restore := trace.SetPageBytes(200)
	path := writeTrace(t, testMeta, streams...)
	restore()
	raw, err := os.ReadFile(path)
	fatal.If(t, err)
	if want, err = contents(path, nil); err != nil {
		t.Fatal(err)
	}
	return raw, want
}

// indexedSample returns a small file with a stream index and several row groups, and its contents.
func indexedSample(t testing.TB) (raw []byte, want string) {
	t.Helper()
	defer trace.SetIndexedGroups(1)()
	defer trace.SetRowGroupIndices(200)()
	defer trace.SetPageBytes(200)()
	r := rand.New(rand.NewPCG(7, 8))
	var streams []*trace.Stream
	for layer := int32(0); layer < 6; {
		key := trace.Key{Request: []string{"a", "b"}[layer/4], Layer: layer, Head: trace.NoHead}
		s := randomStream(r, key, 40+r.IntN(90), -3, 12, 9, trace.ReadAll)
		if s.LastStep == 8 { // skips no step, which an index cannot express
			streams = append(streams, s)
			layer++
		}
	}
	path := writeTrace(t, testMeta, streams...)
	raw, err := os.ReadFile(path)
	fatal.If(t, err)
	if want, err = contents(path, nil); err != nil {
		t.Fatal(err)
	}
	return raw, want
}

// bitsToFlip returns all bits that no CRC covers (page headers, page index, footer) in random
// order, and some of the bits in page data.
func bitsToFlip(t *testing.T, raw []byte, r *rand.Rand) []int {
	path := filepath.Join(t.TempDir(), "whole.parquet")
	fatal.If(t, os.WriteFile(path, raw, 0o600))
	f, err := trace.Open(path)
	fatal.If(t, err)
	defer f.Close()
	covered := make([]bool, len(raw))
	for _, span := range trace.PageData(f) {
		for i := span[0]; i < span[1]; i++ {
			covered[i] = true
		}
	}
	var bits []int
	for _, bit := range r.Perm(8 * len(raw)) {
		if !covered[bit/8] || r.IntN(20) == 0 {
			bits = append(bits, bit)
		}
	}
	if !*exhaustive {
		bits = bits[:4000]
	}
	return bits
}

// A flipped bit anywhere in the file causes an error or changes nothing. This holds in file order
// and in random order, which uses the page index.
func TestFlippedBits(t *testing.T) {
	for name, heads := range map[string][]int32{"heads": allHeads, "no heads": {trace.NoHead}} {
		t.Run(name, func(t *testing.T) { flipBits(t, heads) })
	}
	t.Run("stream index", func(t *testing.T) {
		raw, want := indexedSample(t)
		flipBitsOf(t, raw, want)
	})
}

func flipBits(t *testing.T, heads []int32) {
	raw, want := damageSample(t, heads...)
	flipBitsOf(t, raw, want)
}

func flipBitsOf(t *testing.T, raw []byte, want string) {
	path := filepath.Join(t.TempDir(), "flipped.parquet")
	r := rand.New(rand.NewPCG(3, 3))
	flips := bitsToFlip(t, raw, r)
	if testing.Short() { // a tenth of the bits
		r.Shuffle(len(flips), func(i, j int) { flips[i], flips[j] = flips[j], flips[i] })
		flips = flips[:len(flips)/10]
	}
	harmless := 0
	for _, bit := range flips {
		raw[bit/8] ^= 1 << (bit % 8)
		fatal.If(t, os.WriteFile(path, raw, 0o600))
		raw[bit/8] ^= 1 << (bit % 8)
		for _, shuffle := range []*rand.Rand{nil, rand.New(rand.NewPCG(uint64(bit), 5))} {
			got, err := contents(path, shuffle)
			if err == nil && got != want {
				t.Errorf("bit %d of byte %d of %d: other content without an error (shuffled %v)", bit%8, bit/8, len(raw), shuffle != nil)
			}
			if err == nil {
				harmless++
			}
		}
	}
	t.Logf("%d flips of %d bytes, each read twice: %d reads saw no error and the same content", len(flips), len(raw), harmless)
}

// A truncated file is an error, wherever it ends.
func TestTruncated(t *testing.T) {
	raw, _ := damageSample(t, allHeads...)
	path := filepath.Join(t.TempDir(), "short.parquet")
	for n := 0; n < len(raw); n += 97 {
		fatal.If(t, os.WriteFile(path, raw[:n], 0o600))
		_, err := contents(path, nil)
		if e := trace.AsError(err); e == nil || e.Rule != trace.RuleFile {
			t.Fatalf("%d of %d bytes: %v, expected rule %q", n, len(raw), err, trace.RuleFile)
		}
	}
}

// A damaged file that announces large lengths does not cause large allocations.
func TestDamageAllocatesLittle(t *testing.T) {
	raw, _ := damageSample(t, allHeads...)
	path := filepath.Join(t.TempDir(), "huge.parquet")
	r := rand.New(rand.NewPCG(9, 9))
	var before, after runtime.MemStats
	for range 1500 {
		damaged := append([]byte(nil), raw...)
		for range 1 + r.IntN(3) {
			copy(damaged[r.IntN(len(raw)-5):], []byte{0xff, 0xff, 0xff, 0xff, 0x07}) // the largest int32 as varint
		}
		fatal.If(t, os.WriteFile(path, damaged, 0o600))
		runtime.ReadMemStats(&before)
		_, _ = contents(path, nil)
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
			t.Fatalf("a file of %d bytes made the reader allocate %d MiB", len(raw), grown>>20)
		}
	}
}
