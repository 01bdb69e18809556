// Package board computes the leaderboard and comparisons of policies from result rows:
// × OPT, bootstrap intervals, permutation tests and ranks. It never replays, and its
// results are pure functions of rows. Package render prints them.
package board

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// BoardVersion is the version of Board's JSON form. A field is never renamed or
// reused; a change of meaning raises the version.
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
	// Incomplete says that cells which were asked for have no rows; null if all have.
	Incomplete *result.Incomplete `json:"incomplete"`
	// Time is what modelled times assume, null where there are none.
	Time *TimeModel `json:"time"`
	// Labels are the conditions that limit the figures. Those of some traces only state
	// their share: "synthetic trace: 2 of 7 traces".
	Labels result.Labels `json:"labels"`
	// Traces are the tasks, by name, with the settings that their rows share.
	Traces []TraceInfo `json:"traces"`
	// Tables are the rankings of exact policies; none without rows of any.
	Tables []Table `json:"tables"`
	// Cells are all figures by trace and capacity, in that order, contenders and bounds.
	Cells []CellLine `json:"cells"`
	// Lossy is the ranking of the lossy policies (SEMANTICS S10), null without rows of any.
	Lossy *LossyTable `json:"lossy"`
	// Windows are the policies without capacity, by trace.
	Windows []WindowLine `json:"windows"`
	// Tiers are the caches below the GPU's, by trace and the cache above.
	Tiers []TierLine `json:"tiers"`
	// Footnotes are the warnings of the rows and what must be known of a policy; lines
	// refer to them by number, from 1.
	Footnotes []string `json:"footnotes"`
	// Notes concern the board as a whole.
	Notes []string `json:"notes"`
}

// Table ranks the policies of one kind.
type Table struct {
	// Kind is "exact".
	Kind string `json:"kind"`
	// Capacities are the capacities as asked for, ascending.
	Capacities []string `json:"capacities"`
	// Traces are those with cells in which × OPT exists, by name.
	Traces []string `json:"traces"`
	// Common are the cells that all ranked policies have: pooled figures are over them.
	Common []CellRef `json:"common"`
	// OptZero are cells left out because OPT has no miss there, NoOpt those without a
	// row of OPT, NoMiss those where a contender has no miss although OPT has: one such
	// cell would make a geometric mean 0. Prefetched are those of rows that prefetch, left
	// out where others do not: OPT does not bound them.
	OptZero    []CellRef `json:"opt_zero"`
	NoOpt      []CellRef `json:"no_opt"`
	NoMiss     []CellRef `json:"no_miss"`
	Prefetched []CellRef `json:"prefetched_cells"`
	// Ranked are the contenders, best first. Unranked are those that lack a common cell,
	// and all of them if fewer than two can be ranked. Bounds are the offline policies.
	Ranked   []Line `json:"ranked"`
	Unranked []Line `json:"unranked"`
	Bounds   []Line `json:"bounds"`
	// Pairs are the tests of all pairs of Ranked; none if the requests are too few.
	Pairs []PairTest `json:"pairs"`
	// Notes say what the table's figures are over.
	Notes []string `json:"notes"`

	usable  []CellRef            // cells in which × OPT exists
	onTrace map[string][]CellRef // those that a line's figures on a trace are over
	untimed []string             // with a cell in common, yet without a time to rank by
	ahead   bool                 // all usable cells are of rows that prefetch: × OPT ranks nobody
	alone   string               // the only policy that could be ranked

	letterNotes []string // what the letters are, or why there are none
}

// Line is a policy's line of a table.
type Line struct {
	// Rank is "1", or "2=" in a tie; empty for bounds and unranked policies.
	Rank string `json:"rank"`
	// Letters are the groups of the policy: policies that share a letter are not
	// distinguished by their requests. Empty for unranked policies and bounds, and if the
	// requests are too few.
	Letters string `json:"letters"`
	Policy  string `json:"policy"`
	// Pooled is over Table.Common, null where the policy lacks one of those cells.
	Pooled *Figures `json:"pooled"`
	// Capacities are over the common cells of each of Table.Capacities, null likewise.
	Capacities []*Figures `json:"capacities"`
	// Traces are over the cells of each of Table.Traces that the policies that ran there
	// have, null where this one lacks one of them.
	Traces []*Figures `json:"traces"`
	// Notes are numbers of footnotes.
	Notes []int `json:"notes"`

	texts []string // the footnotes, before they are numbered
}

// CellLine is one policy at one trace and capacity.
type CellLine struct {
	CellRef
	Policy string `json:"policy"`
	// Kind is "exact"; Bound is true for offline policies.
	Kind  string `json:"kind"`
	Bound bool   `json:"bound"`
	// CapacityOverK is the capacity of a stream ÷ K, the mean where streams differ; null where
	// it is not known.
	CapacityOverK *float64 `json:"capacity_over_k"`
	Figures       *Figures `json:"figures"`
	Notes         []int    `json:"notes"`

	texts []string
}

// Options of a board; the zero value is 2000 resamples with seed 0.
type Options struct {
	// Seed of the bootstrap.
	Seed uint64
	// Resamples of the requests; 0 means DefaultResamples.
	Resamples int
	// Timer models times; nil: the board has none.
	Timer Timer
	// By is what tables rank by: ByMisses, also where it is empty, or ByTime.
	By string
	// Incomplete says which cells have no rows although they were asked for; nil: none.
	Incomplete *result.Incomplete
}

// NewBoard computes the leaderboard of the rows, in whatever order they come. Rows
// that must not be pooled (settings that differ, contradicting counts, other work) are
// an error that says which, and how to choose.
func NewBoard(rows []result.Row, o Options) (*Board, error) {
	if len(rows) == 0 {
		return nil, errors.New("leaderboard: no rows")
	}
	if o.Resamples == 0 {
		o.Resamples = DefaultResamples
	}
	all := result.Pointers(rows)
	if err := result.CheckSettings(all); err != nil {
		return nil, err
	}
	top, below := splitTiers(all)
	tiers, err := tierLines(below)
	if err != nil {
		return nil, err
	}
	cells, err := newCells(top)
	if err != nil {
		return nil, err
	}
	g, err := newGrid(cells, o.Seed, o.Resamples)
	if err != nil {
		return nil, err
	}
	if err := checkOptimum(top, cells); err != nil {
		return nil, err
	}
	if o.Timer != nil {
		g.clock = &clock{o.Timer, map[*cell]float64{}, map[string][]string{}}
	}
	g.by = cmp.Or(o.By, ByMisses)
	b := &Board{Version: BoardVersion, Resamples: o.Resamples, Seed: o.Seed, RankedBy: g.by, Incomplete: o.Incomplete, Traces: g.traces()}
	b.Labels = b.labels()
	if t, ok := g.table(); ok {
		b.Tables = append(b.Tables, t)
	}
	b.Cells, b.Windows, b.Tiers, b.Lossy = g.cellLines(), g.windows(), tiers, g.lossyTable()
	b.Time = g.clock.model()
	b.Notes = slices.Concat(o.Incomplete.Notes(), g.notes(b), g.clock.notes())
	b.number()
	fillLists(reflect.ValueOf(b).Elem())
	return b, b.check()
}

// ErrNoOptimum is the error of rows of contenders without rows of the optimum.
var ErrNoOptimum = errors.New("no rows of policy opt")

// check refuses a board without the yardstick: a rank is × OPT.
func (b *Board) check() error {
	opt := slices.ContainsFunc(b.Cells, func(c CellLine) bool { return c.Policy == OptPolicy })
	contenders := slices.ContainsFunc(b.Cells, func(c CellLine) bool { return !c.Bound })
	if contenders && !opt {
		return fmt.Errorf("leaderboard: %w: ranks are misses ÷ OPT's at the same capacity; replay the same traces and capacities with --policy opt too", ErrNoOptimum)
	}
	if b.RankedBy == ByTime && b.Time == nil {
		return fmt.Errorf("leaderboard: nothing to rank by time: %s", b.Notes[len(b.Notes)-1])
	}
	return nil
}

// Intervals is true where some line of the table has a × OPT with an interval.
func (t *Table) Intervals() bool {
	return slices.ContainsFunc(slices.Concat(t.Ranked, t.Unranked, t.Bounds), func(l Line) bool { return l.Pooled != nil && l.Pooled.XOpt.Bounded() })
}

// Lines are all lines of the table, in their order.
func (t *Table) Lines() []Line { return slices.Concat(t.Ranked, t.Unranked, t.Bounds) }

// fillLists makes nil lists empty ones, in depth: JSON's lists are never null.
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
			if v.Type().Field(i).IsExported() {
				fillLists(v.Field(i))
			}
		}
	}
}
