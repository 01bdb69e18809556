package run

import (
	"testing"

	"github.com/kvreplay/kvreplay/trace"
)

// Stream seeds differ by run seed and by stream, and do not change from call to call.
func TestStreamSeed(t *testing.T) {
	seen := map[uint64]bool{}
	keys := []trace.Key{{Request: "a", Head: trace.NoHead}, {Request: "a"}, {Request: "a", Head: 1}, {Request: "a", Layer: 1}, {Request: "b"}}
	for seed := range uint64(3) {
		for _, k := range keys {
			s := streamSeed(seed, k)
			if seen[s] || s != streamSeed(seed, k) {
				t.Errorf("seed %d, %v draws as another, or not as before", seed, k)
			}
			seen[s] = true
		}
	}
}
