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

	"github.com/kvreplay/kvreplay/metrics"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// shifted renumbers all blocks by a constant, with sinks and prompt longer by as much:
// the order of blocks stays, so the counts do. Policies that draw are left out.
func (s *suite) shifted() error {
	if s.entry.Traits.Random {
		return nil
	}
	return s.seeds(shiftStreams, func(c *setting) error {
		_, want, err := replayEngine(c, s.fresh())
		if err != nil {
			return err
		}
		_, got, err := replayEngine(c.shift(1+int(c.seed%7)), s.fresh())
		if err == nil && got != want {
			err = fmt.Errorf("counts %+v become %+v", want, got)
		}
		if err != nil {
			return fmt.Errorf("with every block's index raised by a constant: %w: order may depend on indices only through ties, lowest first (DESIGN S12)", err)
		}
		return nil
	})
}

// shift returns the setting with every block's index raised.
func (c *setting) shift(blocks int) *setting {
	tokens := blocks * c.blockTokens
	raised := *c
	stream := *c.stream
	stream.PromptLen += int32(tokens)
	stream.Indices = slices.Clone(stream.Indices)
	for i := range stream.Indices {
		stream.Indices[i] += int32(blocks)
	}
	raised.stream, raised.sink = &stream, c.sink+tokens
	raised.meta.Sink = &raised.sink
	return &raised
}

// filed replays a file of three streams, whole and cut in two, with one worker and
// with four, and with entries of twice the bytes.
func (s *suite) filed() error {
	dir, err := os.MkdirTemp("", "policytest")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o := s.usable(replaytest.Options{Prompt: 60, Steps: 40, Windows: 6, M: 12, Locality: 0.9, Levels: 3, Scores: true, Sink: 1, Local: 2})
	meta := o.Meta(8)
	meta.EntryBytes = 100
	var streams []*trace.Stream
	for layer := range int32(3) {
		stream := replaytest.Stream(rand.New(rand.NewPCG(uint64(layer), 33)), o)
		stream.Layer = layer
		streams = append(streams, stream)
	}
	whole, err1 := write(filepath.Join(dir, "whole.parquet"), meta, streams)
	first, err2 := write(filepath.Join(dir, "first.parquet"), meta, streams[:1])
	rest, err3 := write(filepath.Join(dir, "rest.parquet"), meta, streams[1:])
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	return s.sameRows(whole, []string{first, rest})
}

func (s *suite) sameRows(whole string, parts []string) error {
	want, err := s.rows(whole, "12", 1, 0)
	if err != nil {
		return err
	}
	got, err := s.rows(whole, "12", 4, 0)
	if err != nil || !reflect.DeepEqual(want, got) {
		return fmt.Errorf("rows with four workers differ from those with one (%v): instances share state; New's factory must make one of its own for each worker", err)
	}
	var pieces []metrics.Row
	for _, part := range parts {
		rows, err := s.rows(part, "12", 2, 0)
		if err != nil {
			return err
		}
		pieces = append(pieces, rows...)
	}
	if err := sameCounts(want, pieces); err != nil {
		return fmt.Errorf("a file cut in two: %w: streams are independent, state must not pass from one to the next", err)
	}
	once, err1 := s.rows(whole, "3600B", 1, 0) // 12 entries of 100 bytes in each of 3 streams
	twice, err2 := s.rows(whole, "7200B", 1, 200)
	if err := errors.Join(err1, err2, sameCounts(want, once), sameCounts(once, twice)); err != nil {
		return fmt.Errorf("12 entries a stream, as 3600 B of 100 B entries, as 7200 B of 200 B entries: %w", err)
	}
	return nil
}

// write writes a trace of streams and returns its path. The streams stay as they are.
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

// rows replays a file, a row a stream.
func (s *suite) rows(path, capacity string, workers, entryBytes int) ([]metrics.Row, error) {
	f, err := trace.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c, err := replay.ParseCapacity(capacity)
	if err != nil {
		return nil, err
	}
	o := replay.Options{Policies: []policies.Spec{s.spec}, Capacities: []replay.Capacity{c}, Workers: workers, Per: replay.PerStream}
	if entryBytes != 0 {
		o.EntryBytes = &entryBytes
	}
	result, err := replay.Run(context.Background(), f, o)
	if err != nil {
		return nil, err
	}
	return result.Rows, nil
}

// sameCounts compares what streams did, not what was asked for.
func sameCounts(want, got []metrics.Row) error {
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
