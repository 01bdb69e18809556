package importer

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"

	"github.com/lanrat/extsort"

	"github.com/kvreplay/kvreplay/trace"
)

// spill keeps encoded records in memory up to limit bytes, and beyond it in a temporary file. All
// records are appended first. Then any record can be read by its offset.
type spill struct {
	limit int64
	dir   string
	mem   []byte
	size  int64
	file  *os.File
	out   *bufio.Writer
}

// add appends b and returns its offset.
func (s *spill) add(b []byte) (offset int64, err error) {
	offset = s.size
	s.size += int64(len(b))
	if s.file == nil && s.size <= s.limit {
		s.mem = append(s.mem, b...)
		return offset, nil
	}
	if s.file == nil {
		if err := s.overflow(); err != nil {
			return 0, err
		}
	}
	if _, err := s.out.Write(b); err != nil {
		return 0, fmt.Errorf("write temporary file ($TMPDIR names its folder): %w", err)
	}
	return offset, nil
}

// overflow moves the content of memory to a temporary file.
func (s *spill) overflow() (err error) {
	if s.file, err = os.CreateTemp(s.dir, "kvreplay-import-*"); err != nil {
		return fmt.Errorf("create temporary file ($TMPDIR names its folder): %w", err)
	}
	s.out = bufio.NewWriterSize(s.file, 1<<18)
	_, err = s.out.Write(s.mem)
	s.mem = nil
	return err
}

func (s *spill) finish() error {
	if s.file == nil {
		return nil
	}
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("write temporary file ($TMPDIR names its folder): %w", err)
	}
	return nil
}

// read returns the n bytes at offset. They are valid until the next call with buf.
func (s *spill) read(offset int64, n int, buf []byte) ([]byte, error) {
	if s.file == nil {
		return s.mem[offset : offset+int64(n)], nil
	}
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	if _, err := s.file.ReadAt(buf[:n], offset); err != nil {
		return nil, fmt.Errorf("read temporary file: %w", err)
	}
	return buf[:n], nil
}

func (s *spill) close() {
	s.mem = nil
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name())
	}
}

// entry is the place of a record. Entries are sorted instead of records, because all have the same
// size. The memory of a sort is therefore known.
type entry struct {
	key    trace.Key
	seqLen int32
	size   int32
	offset int64
}

// entryBytes is the memory of an entry during the sort, in bytes. It covers the struct and its
// share of request ids and of the sorter's chunks.
const entryBytes = 256

// compareEntries orders by stream, then by context, then by arrival. Context order equals step
// order.
func compareEntries(a, b entry) int {
	return cmp.Or(a.key.Compare(b.key), cmp.Compare(a.seqLen, b.seqLen), cmp.Compare(a.offset, b.offset))
}

// index collects entries and returns them in order. Up to limit entries it sorts in memory, beyond
// that with an external merge sort.
type index struct {
	ctx     context.Context
	stop    context.CancelFunc
	limit   int
	dir     string
	entries []entry
	input   chan entry // to the external sort, nil while all entries fit in memory
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
	case <-x.done: // the sorter failed, and sorted returns its error
		return nil
	case <-x.ctx.Done():
		return x.ctx.Err()
	}
}

// overflow starts the external sort and passes the collected entries to it.
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

// sorted yields all entries in order. It stops after an error.
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
			yield(entry{}, fmt.Errorf("sort in temporary files ($TMPDIR names their folder): %w", err))
		}
	}
}

// close ends a running sort and waits until its files are removed.
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
