package board

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// BoardVersion is the version of Board's JSON form. A field is never renamed or reused. A change of
// meaning raises the version.
const BoardVersion = 2

// Board is the leaderboard: a pure function of rows. Every rendering is made from it.
type Board struct {
	// Version is BoardVersion.
	Version int `json:"board_version"`
	// Resamples and Seed are those of the bootstrap intervals.
	Resamples int    `json:"resamples"`
	Seed      uint64 `json:"seed"`
	// RankedBy is ByMisses or ByTime.
	RankedBy string `json:"ranked_by"`
	// Incomplete lists the requested cells without rows. It is null if all have rows.
	Incomplete *result.Incomplete `json:"incomplete"`
	// Corpus is the version and part of the bundled corpus if its traces are exactly those of the rows,
	// as in "version 1, held-out". It is empty otherwise.
	Corpus string `json:"corpus"`
	// Time is the assumptions of modelled times, null if there are none.
	Time *TimeModel `json:"time"`
	// Labels are the conditions that limit the figures. A label of only some traces states its share:
	// "synthetic trace: 2 of 7 traces".
	Labels result.Labels `json:"labels"`
	// Traces are the tasks, by name, with the settings that their rows share.
	Traces []TraceInfo `json:"traces"`
	// Tables are the rankings of exact policies. It is empty without rows of any.
	Tables []Ranking `json:"tables"`
	// Cells are all figures by trace and capacity, in that order, contenders and bounds.
	Cells []CellLine `json:"cells"`
	// Lossy is the ranking of the lossy policies (SEMANTICS S10), null without rows of any.
	Lossy *Ranking `json:"lossy"`
	// Windows are the policies without capacity, by trace.
	Windows []WindowLine `json:"windows"`
	// Tiers are the caches below the GPU's, by trace and the cache above.
	Tiers []TierLine `json:"tiers"`
	// Footnotes are the warnings of the rows and remarks about policies. Lines refer to them by
	// number, from 1.
	Footnotes []string `json:"footnotes"`
	// Notes concern the board as a whole.
	Notes []string `json:"notes"`
}

// Options of a board. The zero value means 2000 resamples with seed 0.
type Options struct {
	// Seed of the bootstrap.
	Seed uint64
	// Resamples of the requests. 0 means DefaultResamples.
	Resamples int
	// Timer models times. If it is nil, the board has none.
	Timer Timer
	// By is the key of the tables: ByMisses, which is the default, or ByTime.
	By string
	// Incomplete lists the requested cells without rows, nil for none.
	Incomplete *result.Incomplete
	// Corpus is that of the board.
	Corpus string
}

// NewBoard computes the leaderboard of the rows, in any order. Rows that must not be pooled are an
// error: different settings, contradicting counts or different work. The error names them and how
// to choose.
func NewBoard(rows []result.Row, o Options) (*Board, error) {
	if len(rows) == 0 {
		return nil, errors.New("leaderboard: no rows")
	}
	all := result.Pointers(rows)
	if err := result.CheckSettings(all); err != nil {
		return nil, err
	}
	top, below := splitTiers(all)
	tiers, err := newCells(below)
	if err != nil {
		return nil, err
	}
	cells, err := newCells(top)
	if err != nil {
		return nil, err
	}
	return newBoard(cells, tiers, o)
}

// newBoard computes the leaderboard of cells, of the GPU's caches and of the tiers below, with equal
// settings.
func newBoard(cells, below []*cell, o Options) (*Board, error) {
	key := MissesKey
	if o.By == ByTime {
		key = TimeKey
	}
	s, tiers := newSampler(o), tierLines(below)
	g, err := newGrid(cells, s)
	if err != nil {
		return nil, err
	}
	if err := checkOptimum(cells); err != nil {
		return nil, err
	}
	if o.Timer != nil {
		g.clock = &clock{o.Timer, map[*cell]float64{}, map[string][]string{}}
	}
	b := &Board{Version: BoardVersion, Resamples: s.count, Seed: s.seed, RankedBy: key.Name,
		Incomplete: o.Incomplete, Corpus: o.Corpus, Traces: g.traces(), Tiers: tiers}
	b.Labels = result.SharedLabels(slice.Map(b.Traces, func(t TraceInfo) result.Labels { return t.Labels }), "traces")
	if t := g.ranking(key); t != nil {
		b.Tables = []Ranking{*t}
	}
	b.Lossy, b.Cells, b.Windows = g.ranking(RecallKey), g.cellLines(key), g.windows()
	var letters sync.WaitGroup
	letters.Go(func() {
		for _, t := range b.Rankings() {
			t.letterNotes = g.addLetters(t)
		}
	})
	s.makeIntervals()
	letters.Wait()
	b.Time = g.clock.model()
	for _, t := range b.Rankings() {
		g.addNotes(t)
	}
	b.Notes = slices.Concat(o.Incomplete.Notes(), g.notes(b), g.clock.notes())
	if b.Corpus != "" {
		b.Notes = append(b.Notes, "Corpus "+b.Corpus+", see datasets/corpus/VERSIONS.md")
	}
	b.number()
	fillLists(reflect.ValueOf(b).Elem())
	return b, b.check()
}

// ErrNoOptimum means that there are rows of contenders but no rows of the optimum.
var ErrNoOptimum = errors.New("no rows of policy opt")

// check rejects a board without the yardstick, because a rank is × OPT.
func (b *Board) check() error {
	opt := slices.ContainsFunc(b.Cells, func(c CellLine) bool { return c.Policy == OptPolicy })
	contenders := slices.ContainsFunc(b.Cells, func(c CellLine) bool { return !c.Bound })
	clusters := slices.ContainsFunc(b.Traces, func(t TraceInfo) bool { return t.Clusters != "" })
	switch {
	case contenders && !opt && clusters:
		return errors.New("leaderboard: clusters have no optimum, which each board and curve needs: compare two policies with kvreplay compare A B")
	case contenders && !opt:
		return fmt.Errorf("%w, whose misses each board and curve needs: replay the same traces and capacities with --policy opt", ErrNoOptimum)
	}
	if b.RankedBy == ByTime && b.Time == nil {
		return fmt.Errorf("leaderboard: nothing to rank by time: %s", b.Notes[len(b.Notes)-1])
	}
	return nil
}

// Rankings returns those of exact policies, then that of lossy ones.
func (b *Board) Rankings() (all []*Ranking) {
	for i := range b.Tables {
		all = append(all, &b.Tables[i])
	}
	if b.Lossy != nil {
		all = append(all, b.Lossy)
	}
	return all
}

// LabelsOn returns the labels of the figures on one trace.
func (b *Board) LabelsOn(trace string) result.Labels {
	for _, t := range b.Traces {
		if t.Trace == trace {
			return t.Labels
		}
	}
	return nil
}

// fillLists replaces nil lists by empty ones, in depth. JSON's lists are null only if they are
// omitted.
func fillLists(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fillLists(v.Elem())
		}
	case reflect.Slice:
		if v.IsNil() && v.CanSet() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			fillLists(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			omitted := strings.Contains(f.Tag.Get("json"), ",omitzero") && v.Field(i).IsZero()
			if f.IsExported() && f.Tag.Get("json") != "-" && !omitted {
				fillLists(v.Field(i))
			}
		}
	}
}
