package policytest

import (
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/trace"
)

// Most random bytes decode to a stream, and every decoded stream keeps the rules of the format.
func TestFuzzDecodes(t *testing.T) {
	s := &suite{entry: lru.Entry}
	fatal.If(t, s.parse())
	r := rand.New(rand.NewPCG(1, 34))
	decoded := map[string]int{}
	for range 500 {
		data := make([]byte, 20+r.IntN(200))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		c := s.decode(data)
		if c == nil {
			continue
		}
		if e := trace.NewChecker("decoded", &c.meta).First(c.stream); e != nil {
			t.Fatalf("%v: %v", data, e)
		}
		decoded["all"]++
		decoded[string(c.warmup.Kind)]++
		decoded[string(c.meta.Order)]++
	}
	for _, kind := range []string{"all", "cold", "staging", "lru", string(trace.OrderIndex), string(trace.OrderRank)} {
		if decoded[kind] < 40 {
			t.Errorf("%d of 500 are %s: %v", decoded[kind], kind, decoded)
		}
	}
}
