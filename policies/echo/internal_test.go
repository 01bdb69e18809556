package echo

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
)

// countColumns agrees with counting bit by bit, for few and for many words.
func TestCountColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	words := make([]uint64, 5000)
	for i := range words {
		words[i] = r.Uint64() | r.Uint64()
	}
	for _, n := range []int{0, 1, 7, 8, 9, 100, 2039, 2040, 2041, 2048, 5000} {
		var blocks []int32
		for _, x := range r.Perm(len(words))[:n] {
			blocks = append(blocks, int32(x))
		}
		var got, want [64]uint32
		countColumns(words, blocks, &got)
		for _, x := range blocks {
			for c := range want {
				want[c] += uint32(words[x] >> c & 1)
			}
		}
		if got != want {
			t.Errorf("%d words: %v, expected %v", n, got, want)
		}
	}
}

// The three sums of a table's number do not run over into each other, whatever the similarities. The
// weights of all steps count twice: the current one and those of the tables.
func TestSumsFit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		similar := make([]uint32, 1+r.IntN(lags+1))
		most := uint32(0)
		for l := 1; l < len(similar); l++ {
			if r.IntN(3) > 0 {
				similar[l] = r.Uint32N(1 + r.Uint32N(1<<20))
			}
			most = max(most, similar[l])
		}
		w := published.weigh(similar, most)
		var key, sharp, all uint32
		for l := range w.key {
			key, sharp, all = key+w.key[l], sharp+w.sharp[l], all+slow[l]
		}
		if key >= 1<<(slowShift-1) || sharp >= 1<<17 || all >= 1<<(sharpShift-slowShift-1) {
			t.Fatalf("similarities %v: the weights add up to %d, %d and %d", similar, key, sharp, all)
		}
	}
}

// logarithm and half agree with their definition.
func TestLogarithm(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	for i := range uint64(300000) {
		x := i
		if i > 1<<16 {
			x = r.Uint64() >> r.IntN(64)
		}
		octave, power := int32(0), uint64(1)
		for octave < 63 && x>>1 >= power {
			octave, power = octave+1, power<<1
		}
		want := octave << 8
		if x > 0 && octave < 8 {
			want += int32((x - power) << 8 / power)
		} else if x > 0 {
			want += int32((x - power) >> (octave - 8))
		}
		if got := logarithm64(x); got != want {
			t.Fatalf("logarithm of %d: %d, expected %d", x, got, want)
		}
		if x > 0 && x < 1<<32 && (logarithm(uint32(x)) != want || half(uint32(x)) != int(want>>7)) {
			t.Fatalf("logarithm of %d: %d, and half %d, expected %d", x, logarithm(uint32(x)), half(uint32(x)), want)
		}
	}
}

// In a pool of two streams, the latest demand of the other stream leaves last. Stream 0 has blocks 0
// to 3, and stream 1 has blocks 4 to 7.
func TestPoolKeepsTheLatestDemands(t *testing.T) {
	p := &Policy{Calibrate: true, rule: &published}
	fatal.If(t, p.Reset(&policies.Scope{Blocks: 8, Capacity: 2, Steps: 4, Demand: 1, PerStep: 2}))
	for i, demand := range [][]int32{{0}, {4}, {1}, {5}} {
		s := policies.Step{T: int32(i), Demand: 1, Members: demand, Miss: demand}
		if i > 0 {
			s.Exit = [][]int32{{0}, {4}, {1}}[i-1]
		}
		p.Update(&s)
	}
	got := p.Evict(2, nil)
	slices.Sort(got)
	if !slices.Equal(got, []int32{0, 4}) {
		t.Errorf("evicts %v, expected 0 and 4: stream 0 demanded block 1 last", got)
	}
}

// The kernels for the processor give what the plain ones give: sums, scores, notes and chances.
func TestKernels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	random := func(bits int) uint32 { return r.Uint32() >> (32 - r.IntN(bits+1)) }
	for draw := range 3000 {
		var c calibrator
		for b := range buckets {
			c.chance[b] = random(16)
			c.ofSharp[b], c.ofSlow[b] = int32(random(13))-1<<12, int32(random(13))-1<<12
			c.ofQuarter[b&7], c.ofAround[b&15] = int32(random(13))-1<<12, int32(random(13))-1<<12
		}
		var g group
		var recent, tables, wantTables sums
		var past [64]uint64
		var other [64]otherSum
		var near [64]uint8
		var listed [64 + 2*margin]uint8
		for i := range listed {
			listed[i] = uint8(r.IntN(2))
		}
		set := uint64(0)
		for _, b := range r.Perm(64)[:1+draw%64] {
			set |= 1 << b
		}
		g.places(set)
		for i := range past {
			past[i] = r.Uint64() & r.Uint64()
			g.correction[i], near[i] = int32(random(14))-1<<13, uint8(r.IntN(5))
			if r.IntN(2) == 0 {
				past[i] = 0
				continue
			}
			if !slices.Contains(g.at[:g.n], uint8(i)) {
				continue
			}
			other[i] = otherSum{key: random(22), sharp: random(19), slow: random(22)}
		}
		w := published.weigh([]uint32{0, random(11), random(11), random(11), random(11)}, 1<<11)
		recent.set(r.IntN(1000), 4, &w, false)
		var weights [64]uint64
		for i := range weights {
			weights[i] = r.Uint64()
		}
		fillTables(&tables, &weights)
		fillPlain(&wantTables, &weights)
		for i := range g.regions {
			g.regions[i] = random(20)
		}
		g.kept = r.Uint64()
		var given credits
		for v := range given.ends {
			for range r.IntN(10) * r.IntN(2) {
				given.blocks = append(given.blocks, int32(g.at[r.IntN(g.n)]))
			}
			given.ends[v] = int32(len(given.blocks))
		}
		of := otherSum{key: random(20), sharp: random(17), slow: random(20)}

		want, wantCalibrator, wantPast, wantOther := g, c, past, other
		var scores, wantScores [64]int32
		var notes, wantNotes [64]note
		var regions, wantRegions [4]uint32
		addCredits(other[:], &given, &of)
		addPlain(wantOther[:], &given, &of)
		forgotten := r.Uint64()
		empty := sumGroup(&g, &past, &other, &recent, forgotten, &regions)
		wantEmpty := sumPlain(&want, &wantPast, &wantOther, &recent, forgotten, &wantRegions)
		all := assessGroup(&g, &c, &scores, &notes, &near, &listed)
		wantAll := assessPlain(&want, &wantCalibrator, &wantScores, &wantNotes, &near, &listed)
		g.forget()
		if tables != wantTables || empty != wantEmpty || regions != wantRegions || all != wantAll || g != want || c != wantCalibrator ||
			past != wantPast || other != wantOther ||
			!slices.Equal(scores[:g.n], wantScores[:g.n]) || !slices.Equal(notes[:g.n], wantNotes[:g.n]) {
			t.Fatalf("draw %d of %d blocks: the kernels and the plain code differ", draw, g.n)
		}
	}
}

// forget clears the figures behind those of the last block.
func (g *group) forget() {
	clear(g.key[g.n:])
	clear(g.sharp[g.n:])
	clear(g.slow[g.n:])
	clear(g.place[g.n:])
	clear(g.chances[g.n:])
}

// The table of leaves sorts a block as the splits in order do.
func TestLeaves(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 7))
	for range 20000 {
		var d described
		for f := range d {
			d[f] = uint8(r.IntN(answers) >> r.IntN(8))
		}
		want := int32(0)
		for _, tree := range trees {
			leaf := 0
			for i, s := range tree.splits {
				if leaf == int(s.leaf) && d[s.feature] > s.above {
					leaf = i + 1
				}
			}
			want += tree.values[leaf]
		}
		if got := reached().score(&d); got != want {
			t.Fatalf("features %v: %d, expected %d", d, got, want)
		}
	}
}
