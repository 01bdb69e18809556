package run

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/cache"
)

// storeRun runs LRU at a few capacities with the store in dir.
func storeRun(t *testing.T, dir string) func() (*Result, error) {
	t.Helper()
	f := manyStreams(t)
	return func() (*Result, error) {
		store, err := OpenStore(dir)
		fatal.If(t, err)
		return Run(context.Background(), f, Options{Policies: specs(t, "lru"), Capacities: capacities(t, "1x", "2x"), Per: PerRequest, Store: store})
	}
}

// A run does not use a kept cell with a flipped bit or a missing end. It replays the cell and
// replaces the file.
func TestDamagedCell(t *testing.T) {
	dir := t.TempDir()
	run := storeRun(t, dir)
	first, err := run()
	fatal.If(t, err)
	cells, _ := filepath.Glob(filepath.Join(dir, "cells", "*", "*.jsonl"))
	if len(cells) != 2 {
		t.Fatalf("cells %q", cells)
	}
	good, err := os.ReadFile(cells[0])
	fatal.If(t, err)
	other, err := os.ReadFile(cells[1])
	fatal.If(t, err)
	damaged := [][]byte{nil, good[:len(good)/2], append(bytes.Clone(good), "{}\n"...), append(bytes.Clone(good), 0), other}
	r := rand.New(rand.NewPCG(1, 3))
	for at := r.IntN(20); at < len(good); at += 1 + r.IntN(40) {
		flipped := bytes.Clone(good)
		flipped[at] ^= 1 << r.IntN(8)
		damaged = append(damaged, flipped)
	}
	for _, text := range damaged {
		fatal.If(t, os.WriteFile(cells[0], text, 0o644))
		again, err := run()
		fatal.If(t, err)
		if again.FromStore != 1 || !reflect.DeepEqual(again.Rows, first.Rows) {
			t.Fatalf("%d cells from the store, or other rows, of the cell\n%s", again.FromStore, text)
		}
		if healed, err := os.ReadFile(cells[0]); err != nil || !bytes.Equal(healed, good) {
			t.Fatalf("not healed: %v\n%s", err, healed)
		}
	}
}

// If the path of a cell is not a regular file, Plan returns an error that names the path.
func TestCellIsNoFile(t *testing.T) {
	dir := t.TempDir()
	run := storeRun(t, dir)
	if _, err := run(); err != nil {
		t.Fatal(err)
	}
	cells, _ := filepath.Glob(filepath.Join(dir, "cells", "*", "*.jsonl"))
	for name, put := range map[string]func(string) error{
		"folder": func(path string) error { return os.Mkdir(path, 0o755) },
		"link":   func(path string) error { return os.Symlink("nowhere", path) },
		"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o644) },
	} {
		fatal.If(t, os.Remove(cells[0]))
		fatal.If(t, put(cells[0]))
		if _, err := run(); err == nil || !strings.Contains(err.Error(), cells[0]) || !strings.Contains(err.Error(), "Remove it") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A run ignores a kept pass with a flipped bit.
func TestDamagedPass(t *testing.T) {
	dir := t.TempDir()
	kept := &pass{to: 2, todo: []int{0}, done: map[int]bool{}, unchanged: func() error { return nil }}
	kept.save = func(name string, c *Checkpoint) error { return saveCheckpoint(filepath.Join(dir, name), c) }
	k := kept.keeper()
	path := filepath.Join(dir, k.name)
	k.chunks = []int{1}
	tallies := [][]tally{make([]tally, 1)}
	tallies[0][0] = tally{cache.Counts{Streams: 3, Steps: 9, Demand: 70, Misses: 12}, 4, 4, 2}
	fatal.If(t, k.keep(tallies))
	resume := func() (done int, total [][]tally) {
		ps := &pass{to: 2, todo: kept.todo, done: map[int]bool{}}
		total = [][]tally{make([]tally, 1)}
		ps.resume(path, total)
		return len(ps.done), total
	}
	if done, total := resume(); done != 1 || !reflect.DeepEqual(total, tallies) {
		t.Fatalf("%d chunks resumed, %+v", done, total)
	}
	good, err := os.ReadFile(path)
	fatal.If(t, err)
	for bit := range 8 * len(good) {
		flipped := bytes.Clone(good)
		flipped[bit/8] ^= 1 << (bit % 8)
		fatal.If(t, os.WriteFile(path, flipped, 0o644))
		if done, total := resume(); done != 0 || total[0][0].Counts.Streams != 0 {
			t.Fatalf("bit %d of byte %d: %d chunks resumed, %+v", bit%8, bit/8, done, total)
		}
	}
}
