package longbench

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"maps"
	"slices"
)

// sample returns at most n rows of a task in their order: the first, or those drawn
// with the seed; 0 returns all. All rows are read in any case, so that a malformed one
// is seen.
//
// A row's lot depends on seed, task and the row's own id only. The order of the rows
// does not matter therefore, and n+1 rows are the n and one more.
func sample[R any](rows iter.Seq2[R, error], n int, seed *uint64, task, id func(R) string) iter.Seq2[R, error] {
	if n == 0 {
		return rows
	}
	return func(yield func(R, error) bool) {
		chosen, at := map[string][]lot[R]{}, 0
		for row, err := range rows {
			if err != nil {
				yield(row, err)
				return
			}
			t, l := task(row), lot[R]{row: row, at: at, draw: uint64(at)}
			if seed != nil {
				l.draw = draw(*seed, t, id(row))
			}
			chosen[t] = keep(chosen[t], l, n)
			at++
		}
		lots := slices.Concat(slices.Collect(maps.Values(chosen))...)
		slices.SortFunc(lots, func(a, b lot[R]) int { return a.at - b.at })
		for _, l := range lots {
			if !yield(l.row, nil) {
				return
			}
		}
	}
}

// keep puts a lot among the n smallest, which are sorted.
func keep[R any](lots []lot[R], l lot[R], n int) []lot[R] {
	place, _ := slices.BinarySearchFunc(lots, l, lot[R].compare)
	if place == n {
		return lots
	}
	lots = slices.Insert(lots, place, l)
	return lots[:min(n, len(lots))]
}

// until ends the rows with the context's error once there is one.
func until[R any](ctx context.Context, rows iter.Seq2[R, error]) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for row, err := range rows {
			err = cmp.Or(err, ctx.Err())
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// lot is a row with what decides whether it is chosen, smallest first.
type lot[R any] struct {
	row  R
	at   int
	draw uint64
}

func (l lot[R]) compare(m lot[R]) int {
	return cmp.Or(cmp.Compare(l.draw, m.draw), cmp.Compare(l.at, m.at))
}

// draw is a number that depends on nothing else.
func draw(seed uint64, task, id string) uint64 {
	text := binary.LittleEndian.AppendUint64(nil, seed)
	text = append(text, task...)
	text = append(text, 0)
	sum := sha256.Sum256(append(text, id...))
	return binary.LittleEndian.Uint64(sum[:])
}
