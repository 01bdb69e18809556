package pipeline

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// Attention reads the listed entries of clusters. Each missing cluster is a piece of its own size, and
// the resident entries count as clusters of the mean size of the demanded ones.
func TestClusters(t *testing.T) {
	four := "4x"
	rows := []replay.ProfileRow{{RequestID: "r", Policy: "lru", Capacity: &four, SeqLen: 100, Demand: 4, Listed: 20, Misses: 2, MissRuns: 2, Moved: 16, Resident: 50, Positions: 1}}
	p, err := readProfile(t.Context(), writeRows(t, rows, `{"schema":3,"topk":20,"sink":3,"clusters":"lists"}`), Cell{"lru", "4x"})
	fatal.If(t, err)
	b := Batch{Profile: p}
	s := b.sum([]share{{times: 1}}, 0, 0, &Scaling{Factor: 1, Heads: 1}, 0, 0)
	if s.entries != 20+3 || s.Fetched != 2 || s.FetchedRuns != 2 || s.Moved != 16 {
		t.Errorf("%+v, expected 23 entries, 2 misses and 16 moved entries", s)
	}
	if clusters := s.residents(true); clusters != 10 {
		t.Errorf("%g resident clusters, expected 50 · 4 / 20", clusters)
	}
	if blocks := s.residents(false); blocks != 50 {
		t.Errorf("%g resident blocks, expected 50", blocks)
	}
}

// A layer's counts are the sums of its heads'. Context and positions are those of one head. The
// tier below has separate counts. Blocks have 2 tokens. Head 1 moved 3 blocks for 2 misses, one of
// them a prefetch outside of any run. The tier has 2 misses, and one was not taken whole.
func TestHeadsAddUp(t *testing.T) {
	two := "2x"
	row := func(head, tier, demand, misses, runs, moved, resident int32) replay.ProfileRow {
		r := replay.ProfileRow{RequestID: "r", Head: &head, Policy: "lru", Capacity: &two, Tier: tier, Step: 4, SeqLen: 15,
			Demand: demand, Misses: misses, MissRuns: runs, Moved: int64(moved), Resident: resident, Positions: 1}
		if tier > 0 {
			r.Above = "lru@2x"
		}
		return r
	}
	other := row(0, 0, 9, 9, 9, 18, 9)
	other.Policy = "fifo"
	below := row(0, 1, 9, 9, 9, 18, 9)
	below.Above = "fifo@2x"
	rows := []replay.ProfileRow{row(0, 0, 10, 4, 3, 8, 20), other, row(0, 1, 4, 2, 1, 3, 40), below, row(1, 0, 11, 2, 1, 6, 22), row(1, 1, 3, 1, 1, 2, 44)}
	p, err := readProfile(t.Context(), writeRows(t, rows, `{"schema":3,"topk":12,"block_tokens":2,"shared_heads":1}`), Cell{"lru", "2x"})
	fatal.If(t, err)
	want := []Request{{ID: "r", Steps: [][]Counts{{{Demand: 21, Fetched: 4 + 3, FetchedRuns: 3 + 2, Moved: 14, Resident: 42,
		SSDFetched: 3, SSDMoved: 5, SSDRuns: 2, Below: 84, Positions: 1, SeqLen: 15, Prompt: 10}}}}}
	if !reflect.DeepEqual(p.Requests, want) || p.Heads != 2 || !p.Tiered {
		t.Errorf("%+v of %d heads, expected %+v", p.Requests, p.Heads, want)
	}
	rows[0].MissRuns = 5
	if _, err := readProfile(t.Context(), writeRows(t, rows, `{"schema":3,"topk":12}`), Cell{"lru", "2x"}); err == nil || !strings.Contains(err.Error(), "4 misses in 5 runs contradict a demand of 10") {
		t.Errorf("more runs than misses: %v", err)
	}
}

// By hand: two heads of a context of 8 blocks. Head 0 misses blocks 1, 2 and 7 on the SSD, head 1
// misses 0 and 5. By stream they lie at 1, 2, 7 and 8, 13, so 7 and 8 are adjacent. By layer they lie
// at 2, 4, 14 and 1, 11. Packed, head 0 has its blocks in the order 7 1 2 0 3 4 5 6.
func TestLayouts(t *testing.T) {
	two := "2x"
	row := func(head, tier int32, missed ...int32) replay.ProfileRow {
		n := int32(len(missed))
		r := replay.ProfileRow{RequestID: "r", Head: &head, Policy: "lru", Capacity: &two, Tier: tier, SeqLen: 15,
			Demand: 8, Misses: n, MissRuns: n, Moved: int64(2 * n), Resident: 1, Positions: 1, MissedIndices: missed}
		if tier > 0 {
			r.Above = "lru@2x"
		}
		return r
	}
	rows := []replay.ProfileRow{row(0, 0, 1, 2, 3, 7), row(0, 1, 1, 2, 7), row(1, 0, 0, 5, 6), row(1, 1, 0, 5)}
	path := writeRows(t, rows, `{"schema":3,"topk":12,"block_tokens":2,"shared_heads":1}`)
	pack := func(*replay.ProfileMeta) (Packer, error) {
		return func(request string, layer, head int32, blocks int64) ([]int32, error) {
			if request != "r" || layer != 0 || blocks != 8 {
				t.Errorf("pack %q, layer %d, %d blocks", request, layer, blocks)
			}
			if head == 1 {
				return []int32{0, 1, 2, 3, 4, 5, 6, 7}, nil
			}
			return []int32{7, 1, 2, 0, 3, 4, 5, 6}, nil
		}, nil
	}
	for _, c := range []struct {
		layout        Layout
		reads, blocks int64
	}{
		{Layout{Extent: 1}, 3, 5},                           // 1 2 | 7 8 | 13
		{Layout{Extent: 4}, 1, 16},                          // extents 0 1 2 3
		{Layout{Extent: 1, Order: transfer.ByLayer}, 4, 5},  // 1 2 | 4 | 11 | 14
		{Layout{Extent: 4, Order: transfer.ByLayer}, 1, 16}, // extents 0 1 2 3
		{Layout{Extent: 1, Packing: pack}, 3, 5},            // 0 1 2 | 8 | 13
		{Layout{Extent: 4, Packing: pack}, 2, 12},           // extents 0 | 2 3
		{Layout{Extent: 1 << 20, Order: transfer.ByToken}, 1, 1 << 20},
	} {
		all, err := ReadPlaced(t.Context(), path, []Cell{{"lru", "2x"}}, &c.layout)
		fatal.If(t, err)
		if n := all[0].Requests[0].Steps[0][0]; n.SSDReads != c.reads || n.SSDBlocks != c.blocks {
			t.Errorf("extents of %d in order %d: %d reads of %d blocks, expected %d of %d", c.layout.Extent, c.layout.Order, n.SSDReads, n.SSDBlocks, c.reads, c.blocks)
		}
	}
	refuse := func(why string, rows []replay.ProfileRow) {
		t.Helper()
		path := writeRows(t, rows, `{"schema":3,"topk":12,"block_tokens":2}`)
		if _, err := ReadPlaced(t.Context(), path, []Cell{{"lru", "2x"}}, &Layout{Extent: 1}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, expected %q", err, why)
		}
	}
	refuse("reads from an SSD, and the profile has none", rows[:1])
	rows[1].MissedIndices[2] = 8
	refuse("missed block 8 of a context of 8 blocks", rows)
	rows[1].MissedIndices = nil
	refuse("replay with --profile-indices", rows)
}

// Any flipped bit of a profile causes an error or changes nothing.
func TestFlippedBits(t *testing.T) {
	if testing.Short() {
		t.Skip("where the library panics on damaged pages, the race detector ends the program before that is an error")
	}
	whole := realProfile(t)
	want := read(t, whole)
	good, err := os.ReadFile(whole)
	fatal.If(t, err)
	path := filepath.Join(t.TempDir(), "flipped.parquet")
	r := rand.New(rand.NewPCG(8, 8))
	seen := 0
	for range 500 {
		at := len(good) - 1 - r.IntN(min(len(good), 6000)) // in the footer or shortly before it
		flipped := bytes.Clone(good)
		flipped[at] ^= 1 << r.IntN(8)
		fatal.If(t, os.WriteFile(path, flipped, 0o644))
		got, err := readProfile(t.Context(), path, Cell{"lru", "2x"})
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

// A file whose columns are not in the written order is refused before it is read.
func TestPlaces(t *testing.T) {
	path := realProfile(t)
	file, err := os.Open(path)
	fatal.If(t, err)
	defer file.Close()
	info, err := file.Stat()
	fatal.If(t, err)
	f, err := parquet.OpenFile(file, info.Size())
	fatal.If(t, err)
	fatal.If(t, checkPlaces(f))
	f.Metadata().RowGroups[0].Columns[13].MetaData.TotalCompressedSize += 256
	if err := checkPlaces(f); err == nil || !strings.Contains(err.Error(), "column resident begins at byte") {
		t.Errorf("a column that is too long: %v", err)
	}
	f.Metadata().RowGroups[0].Columns[3].MetaData.Type++
	if err := checkColumns(f); err == nil || !strings.Contains(err.Error(), "column policy holds") {
		t.Errorf("a column of another type: %v", err)
	}
}

// readProfile reads one cell of a profile.
func readProfile(ctx context.Context, path string, cell Cell) (*Profile, error) {
	profiles, err := ReadProfiles(ctx, path, []Cell{cell})
	if err != nil {
		return nil, err
	}
	return profiles[0], nil
}
