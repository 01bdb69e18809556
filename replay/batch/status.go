package batch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
)

// State is the progress of a shard.
type State struct {
	Finished bool
	Chunks   int     // counted chunks
	Seconds  float64 // of all attempts that kept their counts
	Workers  int     // of the last attempt
	Problem  string  // the reason that a pack of the shard cannot be used, or empty
}

// Status is the progress of a batch.
type Status struct {
	Batch   *Batch
	Shards  []State
	Foreign []string // files that belong to no shard of the batch
}

// Status reads the packs in a folder.
func (b *Batch) Status(packs string) (*Status, error) {
	at, err := readPlace(packs)
	if err != nil {
		return nil, err
	}
	names, err := at.list()
	if err != nil {
		return nil, err
	}
	s := &Status{Batch: b, Shards: make([]State, len(b.Shards))}
	for _, name := range names {
		if ok, _ := path.Match("shard-*.jsonl.zst", name); ok && !b.owns(name) {
			s.Foreign = append(s.Foreign, at.name(name))
		}
	}
	var g errgroup.Group
	g.SetLimit(2 * runtime.GOMAXPROCS(0))
	for i := range s.Shards {
		g.Go(func() error {
			s.Shards[i] = b.state(at, i)
			return nil
		})
	}
	return s, g.Wait()
}

// owns reports whether a file has the name of a pack of a shard.
func (b *Batch) owns(name string) bool {
	number, kind, _ := strings.Cut(strings.TrimPrefix(name, "shard-"), ".")
	n, err := strconv.Atoi(number)
	return err == nil && n >= 0 && n < len(b.Shards) && slices.Contains([]string{packName(n), begunName(n), differsName(n)}, "shard-"+number+"."+kind)
}

func (b *Batch) state(at place, shard int) State {
	p, err := b.readFinished(at, shard)
	if err == nil {
		return State{Finished: true, Chunks: p.chunks(), Seconds: p.Seconds, Workers: p.Workers}
	}
	var s State
	if !errors.Is(err, fs.ErrNotExist) {
		s.Problem = err.Error()
	}
	if p, err := b.readPack(at, begunName(shard), shard); err == nil {
		s.Chunks, s.Seconds, s.Workers = p.chunks(), p.Seconds, p.Workers
	}
	return s
}

// Missing returns the shards that are not finished.
func (s *Status) Missing() []int {
	return slice.Filter(slice.Indices(len(s.Shards)), func(i int) bool { return !s.Shards[i].Finished })
}

// problems returns the packs that cannot be used.
func (s *Status) problems() []string {
	lost := slice.Filter(s.Shards, func(state State) bool { return state.Problem != "" })
	return append(slice.Map(lost, func(state State) string { return state.Problem }),
		slice.Map(s.Foreign, func(name string) string { return name + " belongs to no shard of the batch" })...)
}

// Err returns an error that lists the shards to repeat, or nil if all are finished.
func (s *Status) Err() error {
	missing := s.Missing()
	if len(missing) == 0 {
		return nil
	}
	list := "--array=" + array(missing)
	if missing[len(missing)-1] >= maxArray { // needs offsets
		list = "kvreplay batch status prints the lines that submit them"
	}
	return fmt.Errorf("%s of %s missing: %s", humanize.Comma(int64(len(missing))), text.Count(len(s.Shards), "shard"), list)
}

// Write prints the progress, and the lines that submit what is missing.
func (s *Status) Write(w io.Writer, submit Submission) error {
	finished, chunks, counted, hours := 0, 0, 0, 0.0
	var begun []int
	for i, state := range s.Shards {
		chunks, counted = chunks+s.Batch.Shards[i].chunks(), counted+state.Chunks
		hours += state.Seconds * float64(state.Workers) / 3600
		switch {
		case state.Finished:
			finished++
		case state.Chunks > 0:
			begun = append(begun, i)
		}
	}
	_, err := fmt.Fprintf(w, "%s of %s finished, %s of %s chunks counted in %s core-hours\n", humanize.Comma(int64(finished)), text.Count(len(s.Shards), "shard"),
		humanize.Comma(int64(counted)), humanize.Comma(int64(chunks)), text.Rate(hours, 2))
	for _, i := range begun[:min(10, len(begun))] {
		fmt.Fprintf(w, "shard %d is begun: %d of %d chunks\n", i, s.Shards[i].Chunks, s.Batch.Shards[i].chunks())
	}
	if len(begun) > 10 {
		fmt.Fprintf(w, "and %s\n", text.Count(len(begun)-10, "more begun shard"))
	}
	problems := s.problems()
	for _, problem := range problems[:min(10, len(problems))] {
		fmt.Fprintln(w, problem)
	}
	if len(problems) > 10 {
		fmt.Fprintf(w, "and %s\n", text.Count(len(problems)-10, "more unusable pack"))
	}
	if missing := s.Missing(); len(missing) > 0 {
		for _, line := range submit.Slurm(missing) {
			fmt.Fprintln(w, line)
		}
	}
	return err
}
