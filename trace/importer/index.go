package importer

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/lanrat/extsort"

	"github.com/kvreplay/kvreplay/trace"
)

// entry says where a record lies; entries, not records, are sorted. Records differ
// in size, entries do not, so the memory of a sort of n entries is known.
type entry struct {
	key    trace.Key
	seqLen int32
	size   int32
	offset int64
}

// entryBytes is what an entry costs in memory while it is sorted, in bytes: the
// struct, and its share of the sorter's chunks in flight and of request ids.
const entryBytes = 256

// compareEntries orders by stream, then context (which orders like the step), then arrival.
func compareEntries(a, b entry) int {
	return cmp.Or(a.key.Compare(b.key), cmp.Compare(a.seqLen, b.seqLen), cmp.Compare(a.offset, b.offset))
}

// index collects entries and hands them back in order: sorted in memory up to limit
// entries, by an external merge sort beyond.
type index struct {
	ctx     context.Context
	stop    context.CancelFunc
	limit   int
	dir     string
	entries []entry
	input   chan entry // to the external sort; nil while all fits
	done    chan struct{}
	output  <-chan entry
	failed  <-chan error
}

func newIndex(ctx context.Context, limit int, dir string) *index {
	x := &index{limit: max(limit, 64), dir: dir}
	x.ctx, x.stop = context.WithCancel(ctx)
	return x
}

func (x *index) add(e entry) error {
	if x.input == nil {
		if x.entries = append(x.entries, e); len(x.entries) >= x.limit {
			return x.overflow()
		}
		return nil
	}
	return x.send(e)
}

func (x *index) send(e entry) error {
	select {
	case x.input <- e:
		return nil
	case <-x.done: // the sorter gave up; sorted says why
		return nil
	case <-x.ctx.Done():
		return x.ctx.Err()
	}
}

// overflow starts the external sort and hands it what was collected.
func (x *index) overflow() error {
	x.input, x.done = make(chan entry, 256), make(chan struct{})
	var sorter *extsort.GenericSorter[entry]
	sorter, x.output, x.failed = extsort.Generic(x.input, decodeEntry, encodeEntry, compareEntries,
		&extsort.Config{ChunkSize: x.limit, NumWorkers: 1, ChanBuffSize: 0, SortedChanBuffSize: 256, TempFilesDir: x.dir})
	go func() {
		defer close(x.done)
		sorter.Sort(x.ctx)
	}()
	for _, e := range x.entries {
		if err := x.send(e); err != nil {
			return err
		}
	}
	x.entries = nil
	return nil
}

// sorted yields all entries in order; an error ends it.
func (x *index) sorted() iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		if x.input == nil {
			slices.SortFunc(x.entries, compareEntries)
			for _, e := range x.entries {
				if !yield(e, nil) {
					return
				}
			}
			return
		}
		close(x.input)
		<-x.done
		for e := range x.output {
			if !yield(e, nil) {
				return
			}
		}
		if err := <-x.failed; err != nil {
			yield(entry{}, fmt.Errorf("sort in temporary files (--tmp names their directory): %w", err))
		}
	}
}

// close ends a sort that is under way and waits until its files are gone.
func (x *index) close() {
	x.stop()
	if x.input == nil {
		return
	}
	<-x.done
	for range x.output {
	}
	<-x.failed
}

func encodeEntry(e entry) ([]byte, error) {
	le := binary.LittleEndian
	b := make([]byte, 0, 28+len(e.key.Request))
	b = le.AppendUint32(b, uint32(e.key.Layer))
	b = le.AppendUint32(b, uint32(e.key.Head))
	b = le.AppendUint32(b, uint32(e.seqLen))
	b = le.AppendUint32(b, uint32(e.size))
	b = le.AppendUint64(b, uint64(e.offset))
	return append(b, e.key.Request...), nil
}

func decodeEntry(b []byte) (entry, error) {
	if len(b) < 24 {
		return entry{}, errors.New("temporary file is damaged")
	}
	le := binary.LittleEndian
	return entry{
		key:    trace.Key{Layer: int32(le.Uint32(b)), Head: int32(le.Uint32(b[4:])), Request: string(b[24:])},
		seqLen: int32(le.Uint32(b[8:])), size: int32(le.Uint32(b[12:])), offset: int64(le.Uint64(b[16:])),
	}, nil
}
