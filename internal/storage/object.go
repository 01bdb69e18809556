package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Span is a range of bytes of an object, without its last.
type Span struct{ From, To int64 }

const (
	// largeBlock is the size of requests for ranges that were announced.
	largeBlock = 8 << 20
	// smallBlock is the alignment of other requests.
	smallBlock = 64 << 10
	// plansKept is the number of announcements that an Object remembers.
	plansKept = 4
	// attempts is the number of requests for a block whose answer ends too early.
	attempts = 5
)

// memory is the number of bytes that an Object keeps: two blocks for every processor, at least 64 MiB.
func memory() int64 { return max(8, 2*int64(runtime.GOMAXPROCS(0))) * largeBlock }

// Object is an open object. It reads blocks, and keeps the last ones. It is safe for concurrent use.
type Object struct {
	ctx    context.Context
	cancel context.CancelFunc
	detach func() bool
	store  Store
	info   Info

	mu     sync.Mutex
	plans  []plan   // the latest first
	blocks []*block // the last used one last
	held   int64    // bytes of blocks
}

// plan is an announcement.
type plan struct {
	blocks []Span // ascending
	ahead  int
}

// block is a part of the object that was requested.
type block struct {
	Span
	done chan struct{} // closed when data or err is set
	data []byte
	err  error
}

// Open opens an object for reading. All requests state its ETag, so that a changed object is an error.
// When ctx ends, reading stops, until Detach is called.
func Open(ctx context.Context, url string) (*Object, error) {
	s, name, err := locate(url)
	if err != nil {
		return nil, err
	}
	return OpenIn(ctx, s, name)
}

// OpenIn is Open for an object of a store.
func OpenIn(ctx context.Context, s Store, name string) (*Object, error) {
	info, err := s.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	return newObject(ctx, s, info), nil
}

func newObject(ctx context.Context, s Store, info Info) *Object {
	o := &Object{store: s, info: info}
	o.ctx, o.cancel = context.WithCancel(context.WithoutCancel(ctx))
	o.detach = context.AfterFunc(ctx, o.cancel)
	return o
}

// Detach makes reading go on when the context of Open ends, until Close. A program that stops between
// pieces of work can then finish a piece.
func (o *Object) Detach() { o.detach() }

// Size returns the number of bytes.
func (o *Object) Size() int64 { return o.info.Size }

// Close stops requests.
func (o *Object) Close() error {
	o.detach()
	o.cancel()
	return nil
}

// Expect announces the ascending ranges that will be read. They are then read in large blocks, and the
// given number of blocks ahead.
func (o *Object) Expect(spans []Span, ahead int) {
	p := plan{ahead: ahead}
	for _, s := range spans {
		for from := s.From; from < s.To; from += largeBlock {
			p.blocks = append(p.blocks, Span{from, min(from+largeBlock, s.To, o.info.Size)})
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.plans = append([]plan{p}, o.plans[:min(len(o.plans), plansKept-1)]...)
}

// ReadAt reads the bytes at an offset, from blocks.
func (o *Object) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) {
		if at >= o.info.Size {
			return n, io.EOF
		}
		b := o.block(at, at+int64(len(p)-n))
		<-b.done
		if b.err != nil {
			o.drop(b)
			return n, b.err
		}
		k := copy(p[n:], b.data[at-b.From:])
		n, at = n+k, at+int64(k)
	}
	return n, nil
}

// block returns the block of the byte at from, of a reader that wants the bytes up to to. It requests
// the block, and those ahead of it, unless they are there.
func (o *Object) block(from, to int64) *block {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.plans {
		i, found := slices.BinarySearchFunc(p.blocks, from, func(s Span, at int64) int {
			return cmp.Compare(min(max(at, s.From), s.To-1), at) // 0 if s holds at
		})
		if !found {
			continue
		}
		for j := min(i+p.ahead, len(p.blocks)-1); j > i; j-- {
			o.request(p.blocks[j])
		}
		return o.request(p.blocks[i])
	}
	return o.request(Span{from / smallBlock * smallBlock, min((to+smallBlock-1)/smallBlock*smallBlock, o.info.Size)})
}

// request returns the block that holds the first byte of s. If there is none, it requests s.
func (o *Object) request(s Span) *block {
	for i := len(o.blocks) - 1; i >= 0; i-- {
		if b := o.blocks[i]; b.From <= s.From && s.To <= b.To {
			o.blocks = append(slices.Delete(o.blocks, i, i+1), b)
			return b
		}
	}
	b := &block{Span: s, done: make(chan struct{})}
	o.blocks, o.held = append(o.blocks, b), o.held+s.To-s.From
	for o.held > memory() && len(o.blocks) > 1 {
		o.held -= o.blocks[0].To - o.blocks[0].From
		o.blocks = o.blocks[1:]
	}
	go o.fetch(b)
	return b
}

// drop forgets a block that could not be read, so that it is requested again.
func (o *Object) drop(b *block) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.blocks, b); i >= 0 {
		o.blocks = slices.Delete(o.blocks, i, i+1)
		o.held -= b.To - b.From
	}
}

// fetch reads a block. It repeats requests whose answer ends too early.
func (o *Object) fetch(b *block) {
	defer close(b.done)
	b.data = make([]byte, b.To-b.From)
	b.err = retry(o.ctx, func() error { return readRange(o.ctx, o.store, o.info, b.Span, b.data) })
	if b.err != nil {
		cause := b.err
		if e := (*Error)(nil); errors.As(b.err, &e) {
			cause = e.Err
		}
		b.err = &Error{fmt.Sprintf("bytes %d to %d", b.From, b.To-1), cause}
	}
}

// readRange reads a part of an object into p, in one request.
func readRange(ctx context.Context, s Store, info Info, part Span, p []byte) error {
	body, err := s.Get(ctx, info.Name, part.From, part.To, info.Tag)
	if err != nil {
		return errFinal{err} // the store has repeated the request
	}
	defer body.Close()
	n, err := io.ReadFull(body, p)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = fmt.Errorf("the answer ended after %d of %d bytes. Check the connection and run again", n, len(p))
	}
	return err
}

// errFinal is an error that a further attempt would not mend.
type errFinal struct{ error }

func (e errFinal) Unwrap() error { return e.error }

// retry calls f until it succeeds, fails finally, or has failed too often.
func retry(ctx context.Context, f func() error) (err error) {
	for i := range attempts {
		if err = f(); err == nil {
			return nil
		}
		if final := (errFinal{}); errors.As(err, &final) {
			return final.error
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		select {
		case <-time.After(100 * time.Millisecond << i):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}
