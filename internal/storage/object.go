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

// Compare returns -1, 0 or 1 if the range ends before a byte, holds it, or begins after it.
func (s Span) Compare(at int64) int { return cmp.Compare(min(max(at, s.From), s.To-1), at) }

const (
	// largeBlock is the size of requests for ranges that were announced.
	largeBlock = 8 << 20
	// smallBlock is the alignment of other requests.
	smallBlock = 64 << 10
	// lastBytes is the number of bytes at the end of an object that the first request asks for. They
	// have the footer of most traces.
	lastBytes = 256 << 10
	// arrival is the number of bytes after which readers of a block are told of them.
	arrival = 128 << 10
	// plansKept is the number of announcements that an Object remembers.
	plansKept = 4
	// attempts is the number of requests for a block whose answer ends too early.
	attempts = 5
)

// memory is the number of bytes that an Object keeps: two blocks for every processor, at least 64 MiB.
func memory() int64 { return max(8, 2*int64(runtime.GOMAXPROCS(0))) * largeBlock }

// Object is an open object. It reads blocks, and keeps the last ones. A reader has the bytes of a block
// when they arrive. It is safe for concurrent use.
type Object struct {
	ctx    context.Context
	cancel context.CancelFunc
	detach func() bool
	store  Store
	info   Info

	mu      sync.Mutex
	arrived sync.Cond // bytes or an error of a block
	plans   []plan    // the latest first
	then    func()    // of Then, nil after its call
	blocks  []*block  // the last used one last
	kept    int64     // bytes of blocks
	reading int       // goroutines that read a block
}

// plan is an announcement.
type plan struct {
	blocks []Span // ascending
	ahead  int
}

// block is a part of the object that was requested.
type block struct {
	Span
	data     []byte
	have     int64         // bytes of data that have arrived
	wait     time.Duration // from the request to its answer
	answered time.Time
	err      error
}

// Open opens an object for reading, and requests its last bytes. All later requests state its ETag, so
// that a changed object is an error. When ctx ends, reading stops, until Detach is called.
func Open(ctx context.Context, url string) (*Object, error) {
	s, name, err := locate(url)
	if err != nil {
		return nil, err
	}
	return OpenIn(ctx, s, name)
}

// OpenIn is Open for an object of a store.
func OpenIn(ctx context.Context, s Store, name string) (*Object, error) {
	o := &Object{store: s}
	o.arrived.L = &o.mu
	o.ctx, o.cancel = context.WithCancel(context.WithoutCancel(ctx))
	o.detach = context.AfterFunc(ctx, o.cancel)
	body, info, err := s.Get(o.ctx, name, -lastBytes, -1, "")
	if err != nil {
		o.Close()
		return nil, err
	}
	o.info = info
	o.add(Span{max(0, info.Size-lastBytes), info.Size}, body)
	return o, nil
}

// Detach makes reading go on when the context of Open ends, until Close. A program that stops between
// pieces of work can then finish a piece.
func (o *Object) Detach() { o.detach() }

// Size returns the number of bytes.
func (o *Object) Size() int64 { return o.info.Size }

// Close stops requests, waits for their ends, and forgets the bytes that were read.
func (o *Object) Close() error {
	o.detach()
	o.cancel()
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.reading > 0 {
		o.arrived.Wait()
	}
	o.blocks, o.kept = nil, 0
	return nil
}

// Expect announces the ascending ranges that will be read. They are then read in large blocks, and the
// given number of blocks ahead, at most as many as stay in memory. Expect requests the first ones at once.
func (o *Object) Expect(spans []Span, ahead int) {
	ahead = min(ahead, int(memory()/largeBlock)-2) // the others hold the block that is read, and the last bytes
	p := plan{ahead: ahead}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range spans {
		for from, to := s.From, min(s.To, o.info.Size); from < to; {
			end := o.endOf(from, to)
			p.blocks = append(p.blocks, Span{from, end})
			from = end
		}
	}
	o.plans = append([]plan{p}, o.plans[:min(len(o.plans), plansKept-1)]...)
	for _, s := range p.blocks[:min(ahead, len(p.blocks))] {
		o.request(s)
	}
}

// Then makes the object call f once, before the last bytes that the latest Expect announced arrive. If f
// then requests bytes of another object, their answer begins when the connection is free. f must not wait
// for bytes of this object.
func (o *Object) Then(f func()) {
	o.mu.Lock()
	o.then = f
	due := o.due()
	o.mu.Unlock()
	due()
}

// due returns the function to call now, and forgets it.
func (o *Object) due() func() {
	if o.then == nil || len(o.plans) == 0 || len(o.plans[0].blocks) == 0 {
		return func() {}
	}
	blocks := o.plans[0].blocks
	last := blocks[len(blocks)-1]
	for _, b := range o.blocks {
		if b.From <= last.From && last.To <= b.To && b.soon(last.To) {
			f := o.then
			o.then = nil
			return f
		}
	}
	return func() {}
}

// soon reports whether the bytes up to to arrive at this rate before the answer to a new request.
func (b *block) soon(to int64) bool {
	rest, have := float64(to-b.From-b.have), float64(b.have)
	return b.err == nil && have > 0 && rest*float64(time.Since(b.answered)) <= have*float64(b.wait)
}

// ReadAt reads the bytes at an offset, from blocks.
func (o *Object) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) {
		if at >= o.info.Size {
			return n, io.EOF
		}
		got, err := o.wait(at, at+int64(len(p)-n))
		if err != nil {
			return n, err
		}
		k := copy(p[n:], got)
		n, at = n+k, at+int64(k)
	}
	return n, nil
}

// wait returns the bytes from from to to, or the first of them if a block ends there.
func (o *Object) wait(from, to int64) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.block(from, to)
	to = min(to, b.To)
	for b.From+b.have < to {
		if b.err != nil {
			o.drop(b)
			return nil, b.err
		}
		o.arrived.Wait()
	}
	return b.data[from-b.From : to-b.From], nil
}

// block returns the block of the byte at from, of a reader that wants the bytes up to to. It requests
// the block, and those ahead of it, unless they are there.
func (o *Object) block(from, to int64) *block {
	for _, p := range o.plans {
		i, found := slices.BinarySearchFunc(p.blocks, from, Span.Compare)
		if !found {
			continue
		}
		for j := min(i+p.ahead, len(p.blocks)-1); j > i; j-- {
			o.request(p.blocks[j])
		}
		return o.request(p.blocks[i])
	}
	if b := o.held(Span{from, from + 1}); b != nil {
		return b
	}
	return o.request(Span{from / smallBlock * smallBlock, min((to+smallBlock-1)/smallBlock*smallBlock, o.info.Size)})
}

// request returns the block that holds s. If there is none, it requests s.
func (o *Object) request(s Span) *block {
	if b := o.held(s); b != nil {
		return b
	}
	return o.add(s, nil)
}

// held returns the block that holds s, or nil.
func (o *Object) held(s Span) *block {
	for i := len(o.blocks) - 1; i >= 0; i-- {
		if b := o.blocks[i]; b.From <= s.From && s.To <= b.To {
			o.blocks = append(slices.Delete(o.blocks, i, i+1), b)
			return b
		}
	}
	return nil
}

// endOf returns the end of the large block that begins at from. It ends where a block that is there begins or
// ends, unless that is small.
func (o *Object) endOf(from, to int64) int64 {
	end := min(from+largeBlock, to)
	for _, b := range o.blocks {
		switch {
		case b.err != nil || b.To-b.From <= lastBytes || b.To <= from:
		case b.From <= from:
			return min(b.To, to)
		default:
			end = min(end, b.From)
		}
	}
	return end
}

// add adds a block and reads it, from the answer to a request if there is one.
func (o *Object) add(s Span, body io.ReadCloser) *block {
	b := &block{Span: s, data: make([]byte, s.To-s.From)}
	o.blocks, o.kept = append(o.blocks, b), o.kept+s.To-s.From
	for o.kept > memory() && len(o.blocks) > 1 {
		o.kept -= o.blocks[0].To - o.blocks[0].From
		o.blocks = o.blocks[1:]
	}
	o.reading++
	go o.fetch(b, body)
	return b
}

// drop forgets a block that could not be read, so that it is requested again.
func (o *Object) drop(b *block) {
	if i := slices.Index(o.blocks, b); i >= 0 {
		o.blocks = slices.Delete(o.blocks, i, i+1)
		o.kept -= b.To - b.From
	}
}

// fetch reads a block. If an answer ends too early, it requests the rest.
func (o *Object) fetch(b *block, body io.ReadCloser) {
	err := retry(o.ctx, func() (err error) {
		if body == nil {
			asked := time.Now()
			body, _, err = o.store.Get(o.ctx, o.info.Name, b.From+b.have, b.To, o.info.Tag)
			o.mu.Lock()
			b.wait, b.answered = time.Since(asked), time.Now()
			o.mu.Unlock()
		}
		if err != nil {
			return errFinal{err} // the store has repeated the request
		}
		err = o.fill(b, body)
		body.Close()
		body = nil
		return err
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		b.err = b.Span.unread(err)
	}
	o.reading--
	o.arrived.Broadcast()
}

// unread returns an Error whose place is the bytes instead of the URL.
func (s Span) unread(err error) error {
	if e := (*Error)(nil); errors.As(err, &e) {
		err = e.Err
	}
	return &Error{fmt.Sprintf("bytes %d to %d", s.From, s.To-1), err}
}

// fill reads the rest of a block from an answer.
func (o *Object) fill(b *block, body io.Reader) error {
	size := b.To - b.From
	for b.have < size {
		n, err := io.ReadFull(body, b.data[b.have:min(b.have+arrival, size)])
		o.mu.Lock()
		b.have += int64(n)
		o.arrived.Broadcast()
		due := o.due()
		o.mu.Unlock()
		due()
		if err != nil {
			return cut(err, b.have, size)
		}
	}
	return nil
}

// cut explains an error of an answer of which n bytes arrived.
func cut(err error, n, size int64) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("the answer ended after %d of %d bytes. Check the connection and run again", n, size)
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
