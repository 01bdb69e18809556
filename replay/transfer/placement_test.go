package transfer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// With 2 layers of 2 heads and 3 blocks each, the test checks the place of layer 1, head 0, block
// 2.
func TestPlaces(t *testing.T) {
	for s, want := range map[Segments]int64{ByStream: 2*3 + 2, ByLayer: (3+2)*2 + 0, ByToken: (2*2+1)*2 + 0} {
		if got := NewPlacement(s, 2, 2, 3).Place(1, 0, 2); got != want {
			t.Errorf("segments %v: place %d, expected %d", s, got, want)
		}
	}
	for _, s := range []Segments{ByStream, ByLayer, ByToken} {
		p := NewPlacement(s, 3, 4, 5)
		fatal.If(t, p.Order(2, 1, []int32{4, 2, 0, 1, 3}))
		// Block 4 of that stream takes the place of block 0. Other streams keep their places.
		plain := NewPlacement(s, 3, 4, 5)
		for layer := range int64(3) {
			for head := range int64(4) {
				want := plain.Place(layer, head, 4)
				if layer == 2 && head == 1 {
					want = plain.Place(layer, head, 0)
				}
				if got := p.Place(layer, head, 4); got != want {
					t.Errorf("segments %v: block 4 of layer %d head %d at %d, expected %d", s, layer, head, got, want)
				}
			}
		}
		var all []int64
		for layer := range int64(3) {
			for head := range int64(4) {
				all = p.Places(layer, head, []int32{0, 1, 2, 3, 4}, all)
			}
		}
		slices.Sort(all)
		for i, at := range all {
			if at != int64(i) {
				t.Fatalf("segments %v: places %v are not 0 … 59", s, all)
			}
		}
	}
	p := NewPlacement(ByStream, 1, 1, 3)
	for _, order := range [][]int32{{0, 1}, {0, 1, 1}, {0, 1, 3}, {0, -1, 1}} {
		if err := p.Order(0, 0, order); err == nil || !strings.Contains(err.Error(), "layer 0 head 0") {
			t.Errorf("order %v: %v", order, err)
		}
	}
}

// Places 0 1 4 5 8 in extents of 2 are extents 0, 2 and 4: three reads of one. In extents of 4 they
// are 0, 1, 2: one read of 12 blocks.
func TestExtents(t *testing.T) {
	for _, c := range []struct{ extent, reads, blocks int64 }{{1, 3, 5}, {2, 3, 6}, {4, 1, 12}, {16, 1, 16}, {0, 3, 5}} {
		if reads, blocks := Extents([]int64{8, 0, 1, 5, 4, 4}, c.extent); reads != c.reads || blocks != c.blocks {
			t.Errorf("extents of %d: %d reads of %d blocks, expected %d of %d", c.extent, reads, blocks, c.reads, c.blocks)
		}
	}
	if reads, blocks := Extents(nil, 4); reads+blocks != 0 {
		t.Error("nothing is read")
	}
}

// By hand: 1-4 follow each other three times, 4-6 and 0-2 once. The chains are 1 4 6 and 0 2, and
// 3, 5, 7 stay single. 1 4 6 has uses 3 3 1 with mean 7/3, so it comes before 0 2 with 1.
func TestPack(t *testing.T) {
	history := [][]int32{{1, 4}, {1, 4, 6}, {1, 4}, {0, 2}}
	if got, want := Pack(8, history), []int32{1, 4, 6, 0, 2, 3, 5, 7}; !slices.Equal(got, want) {
		t.Errorf("order %v, expected %v", got, want)
	}
	// A chain that is demanded more often comes first, even before a longer one. A block with a
	// follower takes no second one.
	if got, want := Pack(7, [][]int32{{0, 1, 2, 3}, {4, 5}, {4, 5}, {4, 6}}), []int32{4, 5, 0, 1, 2, 3, 6}; !slices.Equal(got, want) {
		t.Errorf("order %v, expected %v", got, want)
	}
	if got := Pack(3, nil); !slices.Equal(got, []int32{0, 1, 2}) {
		t.Errorf("without history %v", got)
	}
}

// Pack finds clusters of scattered blocks that are demanded together. Packed, a cluster is one
// read. By index it has as many reads as pieces.
func TestPackFindsClusters(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 4))
	perm := r.Perm(1000)
	cluster := func(i int) []int32 {
		var c []int32
		for _, x := range perm[20*i : 20*i+20] {
			c = append(c, int32(x))
		}
		slices.Sort(c)
		return c
	}
	var history [][]int32
	for range 200 {
		history = append(history, cluster(r.IntN(10)))
	}
	p := NewPlacement(ByStream, 1, 1, 1000)
	fatal.If(t, p.Order(0, 0, Pack(1000, history)))
	plain := NewPlacement(ByStream, 1, 1, 1000)
	for i := range 10 {
		packed, _ := Extents(p.Places(0, 0, cluster(i), nil), 1)
		scattered, _ := Extents(plain.Places(0, 0, cluster(i), nil), 1)
		if packed != 1 || scattered < 15 {
			t.Errorf("cluster %d: %d reads packed, %d by index", i, packed, scattered)
		}
	}
}

// FuzzPack checks that Pack orders each block once, for any history.
func FuzzPack(f *testing.F) {
	f.Add(uint64(1), 50, 8)
	f.Fuzz(func(t *testing.T, seed uint64, blocks, demands int) {
		if blocks < 1 || blocks > 500 || demands < 0 || demands > 50 {
			return
		}
		r := rand.New(rand.NewPCG(seed, 0))
		var history [][]int32
		for range demands {
			var d []int32
			for x := range int32(blocks) {
				if r.IntN(4) == 0 {
					d = append(d, x)
				}
			}
			history = append(history, d)
		}
		order := Pack(int64(blocks), history)
		if _, err := inverse(order, int64(blocks)); err != nil {
			t.Fatalf("%v: %v", order, err)
		}
	})
}

// Partitions place a head's blocks together. A run of 4 is one read by stream, 4 by layer with two
// heads, and 4 by token.
func TestPartitions(t *testing.T) {
	for s, want := range map[Segments]int64{ByStream: 1, ByLayer: 4, ByToken: 4} {
		if got, _ := Extents(NewPlacement(s, 2, 2, 10).Places(1, 1, []int32{3, 4, 5, 6}, nil), 1); got != want {
			t.Errorf("segments %v: %d reads, expected %d", s, got, want)
		}
	}
}
