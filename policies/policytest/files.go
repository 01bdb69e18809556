package policytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// filed replays a file of three streams in several ways: whole and cut in two, with one worker and
// with four, with entries of twice the bytes, and at many capacities in one run.
func (s *suite) filed() error {
	dir, err := os.MkdirTemp("", "policytest")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	meta, streams := s.threeStreams()
	whole, err1 := write(filepath.Join(dir, "whole.parquet"), meta, streams)
	first, err2 := write(filepath.Join(dir, "first.parquet"), meta, streams[:1])
	rest, err3 := write(filepath.Join(dir, "rest.parquet"), meta, streams[1:])
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if err := s.sameRows(whole, []string{first, rest}); err != nil {
		return err
	}
	return s.together(whole)
}

// threeStreams draws a trace of three layers that the policy can use.
func (s *suite) threeStreams() (trace.Meta, []*trace.Stream) {
	o := s.usable(replaytest.Options{Prompt: 60, Steps: 40, Windows: fileWindows, M: 12, Locality: 0.9, Levels: 3, Scores: true, Sink: 1, Local: 2})
	meta := o.Meta(8)
	meta.EntryBytes = 100
	var streams []*trace.Stream
	for layer := range int32(3) {
		stream := replaytest.Stream(rand.New(rand.NewPCG(uint64(layer), 33)), o)
		stream.Layer = layer
		streams = append(streams, stream)
	}
	return meta, streams
}

// fileWindows is the number of warm-up windows of the streams in files. fileEntries is the number
// of entries per block, for policies that count them.
const fileWindows, fileEntries = 6, 2

func (s *suite) sameRows(whole string, parts []string) error {
	want, err := s.rows(whole, 1, 0, "12")
	if err != nil {
		return err
	}
	got, err := s.rows(whole, 4, 0, "12")
	if err != nil || !reflect.DeepEqual(want, got) {
		return fmt.Errorf("rows with four workers differ from those with one (%v): instances share state, so let New's factory make new ones", err)
	}
	var pieces []result.Row
	for _, part := range parts {
		rows, err := s.rows(part, 2, 0, "12")
		if err != nil {
			return err
		}
		pieces = append(pieces, rows...)
	}
	if err := sameCounts(want, pieces); err != nil {
		return fmt.Errorf("a file cut in two: %w: state passes from one stream to the next", err)
	}
	once, err1 := s.rows(whole, 1, 0, "3600B") // 12 entries of 100 bytes in each of 3 streams
	twice, err2 := s.rows(whole, 1, 200, "7200B")
	if err := errors.Join(err1, err2, sameCounts(want, once), sameCounts(once, twice)); err != nil {
		return fmt.Errorf("12 entries per stream, stated as 3600 B of 100 B entries and as 7200 B of 200 B entries: %w", err)
	}
	return nil
}

// together compares a run at many capacities with single streams. A Sweeper answers the run in one
// pass. The streams are replayed one capacity at a time and observed step by step.
func (s *suite) together(path string) error {
	rows, err := s.rows(path, 1, 0, "8", "9", "10", "12", "15", "20", "40")
	if err != nil {
		return err
	}
	f, err := trace.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := f.NewReader(trace.ReadScores)
	defer r.Close()
	for i := range rows {
		row := &rows[i]
		c := &setting{meta: *f.Meta(), stream: new(trace.Stream), topK: row.TopK, candidates: row.Candidates, capacity: policies.Unbounded,
			warmup: replay.Warmup{Kind: replay.WarmupRun, Windows: fileWindows}}
		if row.CapacityEntries != nil {
			c.capacity = int(*row.CapacityEntries) / row.BlockTokens
		}
		if s.picks() {
			c.inBlocks(fileEntries)
		}
		if err := r.Read(int(*row.LayerID), c.stream); err != nil {
			return err
		}
		_, n, err := replayEngine(c, s.fresh())
		if err != nil {
			return err
		}
		if n.Misses != row.Misses || n.Evictions != row.Evictions || n.ResidentPeak != row.ResidentPeak || n.Demand != row.Demand {
			return fmt.Errorf("capacity %d in a run with others: layer %d misses %d, evicts %d and keeps at most %d, but alone %d, %d and %d: Reset does not forget, or the Sweeper is wrong",
				c.capacity, *row.LayerID, row.Misses, row.Evictions, row.ResidentPeak, n.Misses, n.Evictions, n.ResidentPeak)
		}
	}
	return nil
}

// write writes a trace of streams and returns its path. It does not change the streams.
func write(path string, meta trace.Meta, streams []*trace.Stream) (string, error) {
	w, err := trace.Create(path, meta)
	if err != nil {
		return "", err
	}
	for _, stream := range streams {
		own := *stream
		own.Scores = slices.Clone(stream.Scores) // the writer rounds them
		if err := w.Write(&own); err != nil {
			return "", err
		}
	}
	return path, w.Close()
}

// rows replays a file, one row per stream.
func (s *suite) rows(path string, workers, entryBytes int, capacities ...string) ([]result.Row, error) {
	return s.replay(path, replayed{capacities: capacities, workers: workers, entryBytes: entryBytes})
}

// replayed is a way to replay a file, one row per stream.
type replayed struct {
	capacities []string
	workers    int // 0: one
	entryBytes int // 0: the file's
	pool       replay.Pool
}

func (s *suite) replay(path string, how replayed) ([]result.Row, error) {
	f, err := trace.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	o := replay.Options{Policies: []policies.Spec{s.spec}, Workers: max(1, how.workers), Per: replay.PerStream, Pool: how.pool}
	if s.picks() {
		o.Shape.BlockTokens = fileEntries
	}
	for _, text := range how.capacities {
		c, err := replay.ParseCapacity(text)
		if err != nil {
			return nil, err
		}
		o.Capacities = append(o.Capacities, c)
	}
	if how.entryBytes != 0 {
		o.EntryBytes = &how.entryBytes
	}
	result, err := replay.Run(context.Background(), f, o)
	if err != nil {
		return nil, err
	}
	return result.Rows, nil
}

// sameCounts compares the counts of rows, not their settings.
func sameCounts(want, got []result.Row) error {
	if len(want) != len(got) {
		return fmt.Errorf("%d rows, expected %d", len(got), len(want))
	}
	for i := range want {
		w, g := &want[i], &got[i]
		if w.Misses != g.Misses || w.Evictions != g.Evictions || w.Demand != g.Demand || w.ResidentMean != g.ResidentMean || w.ResidentPeak != g.ResidentPeak {
			return fmt.Errorf("layer %d misses %d, evicts %d and keeps %g on average, expected %d, %d and %g", *w.LayerID, g.Misses, g.Evictions, g.ResidentMean, w.Misses, w.Evictions, w.ResidentMean)
		}
	}
	return nil
}

// pooled replays a stream in pools with one and with three other streams, as --pool request does.
// The others demand nothing and have no births. The stream must miss the same with the same memory.
func (s *suite) pooled() error {
	if s.entry.Traits.Random || s.picks() || s.needs&policies.NeedCandidates != 0 { // other streams' lists are candidates too
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
			return fmt.Errorf("misses %d blocks in a pool with one idle stream, but %d with three (trace %d): T counts updates there, so multiply options in steps by Scope.Updates()", few, many, seed)
		}
	}
	return nil
}

// followed replays a pool of three streams with a Follower, and with the same policy as an ordinary one.
// Both must have the same counts. At the smallest capacity only a Tracker follows the changes.
func (s *suite) followed() error {
	if !policies.Follows(s.make()) {
		return nil
	}
	dir, err := os.MkdirTemp("", "policytest")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	meta, streams := s.threeStreams()
	path, err := write(filepath.Join(dir, "pool.parquet"), meta, streams)
	if err != nil {
		return err
	}
	how := replayed{capacities: []string{"8", "9", "13", "20"}, pool: replay.PoolRequest}
	plain := *s
	plain.spec.Make = func() policies.Policy { return ordinary{s.make()} }
	want, err := plain.replay(path, how)
	if err != nil {
		return err
	}
	got, err := s.replay(path, how)
	if err == nil {
		err = sameCounts(want, got)
	}
	if err != nil {
		return fmt.Errorf("a pool whose changes the policy follows: %w: heed Scope.Followed and Scope.Tracked, or let Follows return false", err)
	}
	return nil
}

// ordinary hides all but the methods of a policy.
type ordinary struct{ policies.Policy }

func (p ordinary) Needs() policies.Needs { return policies.NeedsOf(p.Policy) }

// The streams of a pool share a cache of poolCapacity blocks. Within poolSteps there is no birth.
const poolCapacity, poolSteps, poolWindows, poolTokens = 12, 40, 8, 64

// missesInPool returns the misses of one stream in a pool of the given number of streams.
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

// idle returns a stream of the same steps that selects only pinned tokens.
func idle(busy *trace.Stream, layer int32) *trace.Stream {
	stream, info := new(trace.Stream), busy.StreamInfo
	info.Layer = layer
	stream.Reset(info)
	for row := range busy.Rows {
		stream.Append(trace.Row{Step: busy.Steps[row], Indices: []int32{int32(busy.SeqLen(row)-1) / poolTokens}, Scores: []float32{1}})
	}
	return stream
}
