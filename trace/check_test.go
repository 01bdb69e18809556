package trace_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// randomList draws up to 300 indices for a context of limit blocks. Half of the lists break a rule
// once or twice.
func randomList(r *rand.Rand, limit int) []int32 {
	var list []int32
	for _, x := range r.Perm(limit)[:1+r.IntN(min(limit, 300))] {
		list = append(list, int32(x))
	}
	for range r.IntN(3) {
		at := r.IntN(len(list))
		switch r.IntN(4) {
		case 0:
			list[at] = list[r.IntN(len(list))]
		case 1:
			list[at] = int32(limit + r.IntN(70))
		case 2:
			list[at] = -1 - int32(r.IntN(1<<30))
		}
	}
	return list
}

// unsort breaks the order of half of the lists at one place. It swaps two neighbours or inserts a
// value whose difference to others overflows.
func unsort(r *rand.Rand, list []int32) {
	at := r.IntN(len(list))
	switch r.IntN(6) {
	case 0:
		list[at], list[at/2] = list[at/2], list[at]
	case 1:
		list[max(at, 1)-1], list[at] = list[at], list[max(at, 1)-1]
	case 2:
		list[at] = []int32{math.MinInt32, math.MaxInt32}[r.IntN(2)]
	}
}

// firstFault checks a list index by index, then its order. It returns the beginning of the expected
// message, or "".
func firstFault(list []int32, limit int, order string) string {
	seen := map[int32]bool{}
	for j, x := range list {
		if x < 0 || int(x) >= limit {
			return fmt.Sprintf("topk_indices[%d] = %d, expected 0 ≤ index < %d", j, x, limit)
		}
		if seen[x] {
			return fmt.Sprintf("topk_indices[%d] = %d appears twice", j, x)
		}
		seen[x] = true
	}
	for j := 1; j < len(list) && order == trace.OrderIndex; j++ {
		if list[j] < list[j-1] {
			return fmt.Sprintf("topk_indices[%d] = %d after %d", j, list[j], list[j-1])
		}
	}
	return ""
}

// The checks of whole lists find the same faults as checks index by index.
func TestListRules(t *testing.T) {
	orders := []string{trace.OrderRank, trace.OrderIndex}
	var checks [2]*trace.Checker
	for i, order := range orders {
		checks[i] = trace.NewChecker("x", &trace.Meta{Order: order, TopK: 1, Candidates: 1 << 20, BlockTokens: 1})
	}
	for seed := uint64(0); seed < 4000; seed++ {
		r := rand.New(rand.NewPCG(seed, 3))
		limit := 1 + r.IntN([]int{40, 500, 50_000}[r.IntN(3)])
		list := randomList(r, limit)
		if seed%4 == 3 {
			slices.Sort(list)
			unsort(r, list)
		}
		var s trace.Stream
		s.Reset(trace.StreamInfo{PromptLen: int32(limit) - 1})
		s.Append(trace.Row{Indices: list})
		got, want := "", firstFault(list, limit, orders[seed%2])
		if e := checks[seed%2].First(&s); e != nil {
			got = e.Err.Error()
		}
		if len(got) < len(want) || got[:len(want)] != want || want == "" && got != "" {
			t.Fatalf("seed %d: %q, want %q", seed, got, want)
		}
	}
}

// The digest equals that of the values written one by one (FORMAT.md, "Digest"), for any position
// of list ends in the hash buffer.
func TestDigestValueByValue(t *testing.T) {
	meta := &trace.Meta{Version: 1, Order: trace.OrderRank, TopK: 1, Candidates: 1 << 20, BlockTokens: 1}
	for seed := uint64(0); seed < 20; seed++ {
		r := rand.New(rand.NewPCG(seed, 4))
		var s trace.Stream
		s.Reset(trace.StreamInfo{Key: trace.Key{Request: "request"[:r.IntN(8)], Layer: 3, Head: trace.NoHead}, PromptLen: 1 << 20})
		for step := range int32(1 + r.IntN(5)) {
			n := r.IntN(9000)
			row := trace.Row{Step: step, Indices: make([]int32, n), Scores: make([]float32, n)}
			for i := range n {
				row.Indices[i], row.Scores[i] = r.Int32(), r.Float32()
			}
			s.Append(row)
		}
		d := trace.NewDigester()
		d.Add(&s)
		got, err := d.Sum(meta)
		fatal.If(t, err)
		if want := slowDigest(t, meta, &s); got != want {
			t.Fatalf("seed %d: digest %s, want %s", seed, got, want)
		}
	}
}

// slowDigest returns the digest of a stream with scores, value by value.
func slowDigest(t *testing.T, m *trace.Meta, s *trace.Stream) string {
	t.Helper()
	var b bytes.Buffer
	put := func(v any) {
		fatal.If(t, binary.Write(&b, binary.LittleEndian, v))
	}
	put(uint32(len(s.Request)))
	b.WriteString(s.Request)
	put([]int32{s.Layer, s.Head, s.PromptLen, int32(s.Rows)})
	for i, step := range s.Steps {
		flags := int32(0)
		if len(s.Scores) > 0 {
			flags = 1
		}
		put([]int32{step, flags, int32(len(s.List(i)))})
		put(s.List(i))
		put(s.ScoreList(i))
	}
	stream := sha256.Sum256(b.Bytes())
	text, err := m.Canonical()
	fatal.If(t, err)
	sum := sha256.Sum256([]byte("kvreplay trace 1\n" + string(text) + "\n" + string(stream[:])))
	return "sha256:" + hex.EncodeToString(sum[:])
}
