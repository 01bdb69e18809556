package policytest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// pooled replays a stream in pools with one and with three others that demand nothing and
// bear nothing, as --pool request does: what it misses of the same memory is the same.
func (s *suite) pooled() error {
	if s.entry.Traits.Random || s.picks() || s.needs&policies.NeedCandidates != 0 { // candidates are also what other streams list
		return nil
	}
	dir, err := os.MkdirTemp("", "policytest")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for seed := uint64(1); seed <= poolTraces; seed++ {
		few, err1 := s.missesInPool(dir, seed, 2)
		many, err2 := s.missesInPool(dir, seed, 4)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if few != many {
			return fmt.Errorf("misses %d blocks of a stream that shares a cache (--pool) with one stream that demands nothing, %d with three such (trace %d): in a pool T numbers updates, of which Scope.Updates() make a step; what counts steps, as options do, is multiplied by it", few, many, seed)
		}
	}
	return nil
}

// The streams of a pool share a cache of poolCapacity blocks; nothing is born in poolSteps.
const poolCapacity, poolSteps, poolWindows, poolTokens = 12, 40, 8, 64

// missesInPool counts what a stream misses in a pool of so many.
func (s *suite) missesInPool(dir string, seed uint64, streams int) (int64, error) {
	r := rand.New(rand.NewPCG(seed, 36))
	o := s.usable(replaytest.Options{Prompt: 30*poolTokens + poolWindows + 1, Steps: poolSteps, Windows: poolWindows, M: 9,
		Locality: 0.8, Levels: 2, Scores: true, BlockTokens: poolTokens})
	busy, pool := replaytest.Stream(r, o), make([]*trace.Stream, streams)
	for layer := range pool {
		pool[layer] = idle(busy, int32(layer))
	}
	busy.Layer = int32(seed % 2)
	pool[busy.Layer] = busy
	path, err := write(filepath.Join(dir, fmt.Sprintf("%d-%d.parquet", seed, streams)), o.Meta(6), pool)
	if err != nil {
		return 0, err
	}
	each := strconv.Itoa(poolCapacity / streams * poolTokens)
	rows, err := s.replay(path, replayed{capacities: []string{each}, pool: replay.PoolRequest})
	if err != nil {
		return 0, err
	}
	return rows[busy.Layer].Misses, nil
}

// idle is a stream of the same steps that selects what is pinned.
func idle(busy *trace.Stream, layer int32) *trace.Stream {
	stream, info := new(trace.Stream), busy.StreamInfo
	info.Layer = layer
	stream.Reset(info)
	for row := range busy.Rows {
		stream.Append(trace.Row{Step: busy.Steps[row], Indices: []int32{int32(busy.SeqLen(row)-1) / poolTokens}, Scores: []float32{1}})
	}
	return stream
}
