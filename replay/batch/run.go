package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/kvreplay/kvreplay/internal/storage"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/replay"
)

// DefaultCheckpoint is the interval at which an attempt saves its counts. A kill costs at most this
// much work of the shard.
const DefaultCheckpoint = time.Minute

// Attempt is one attempt at a shard.
type Attempt struct {
	Packs   string         // folder or URL of the packs
	Shard   int            // from 0
	Options replay.Options // of Batch.Arguments, with the number of workers
	Every   time.Duration  // interval of saves. Zero means DefaultCheckpoint
	Program string         // version of the program, for the pack
}

// Outcome is the result of an attempt that ended well.
type Outcome struct {
	Pack    string // path of the pack
	Before  bool   // an earlier attempt had finished the shard
	Resumed int    // chunks that earlier attempts had counted
	Chunks  int    // chunks of the shard
}

// Run counts a shard and writes its pack. It continues from the counts of an earlier attempt. Other
// attempts at the shard may run at the same time. A pack of another batch is an error, not replaced.
// If ctx is cancelled, Run finishes the begun chunks, saves the counts and returns a *Stopped. An error
// is Permanent if another attempt would meet it again.
func (b *Batch) Run(ctx context.Context, a Attempt) (*Outcome, error) {
	if err := b.checkEngine(); err != nil {
		return nil, err
	}
	if a.Shard < 0 || a.Shard >= len(b.Shards) {
		return nil, permanentf("shard %d: the batch has shards 0 to %d", a.Shard, len(b.Shards)-1)
	}
	at, err := openPlace(a.Packs)
	if err != nil {
		return nil, err
	}
	out := &Outcome{Pack: at.name(packName(a.Shard)), Chunks: b.Shards[a.Shard].chunks()}
	_, unfinished := b.readFinished(at, a.Shard)
	if unfinished == nil {
		out.Before = true
		at.drop(begunName(a.Shard))
		return out, nil
	}
	begun, unread := b.readPack(at, begunName(a.Shard), a.Shard)
	for _, err := range []error{unfinished, unread} {
		if errors.Is(err, errForeign) { // a new attempt would replace it
			return nil, permanentf("%w: name another folder with --packs, or remove the packs", err)
		}
	}
	if unread != nil && !errors.Is(unread, fs.ErrNotExist) && storage.Unread(unread) { // the same
		return nil, fmt.Errorf("the counts of earlier attempts cannot be read: %w", unread)
	}
	w := b.newAttempt(a, at, begun)
	out.Resumed = w.pack.chunks()
	for i := range b.Shards[a.Shard].Parts {
		err := w.count(ctx, i)
		if errors.Is(err, context.Canceled) {
			return nil, &Stopped{Shard: a.Shard, Done: w.pack.chunks(), Chunks: out.Chunks, err: err}
		}
		if err != nil {
			return nil, lasting(err)
		}
	}
	return out, w.finish()
}

// Stopped is the error of an attempt whose context was cancelled.
type Stopped struct {
	Shard, Done, Chunks int // number of the shard, its saved chunks and all
	err                 error
}

// Error states the saved chunks and the way to continue.
func (s *Stopped) Error() string {
	if s.Done == 0 {
		return fmt.Sprintf("shard %d is stopped before its first chunk: repeat the command", s.Shard)
	}
	return fmt.Sprintf("shard %d is stopped with %d of %s saved: repeat the command to continue", s.Shard, s.Done, text.Count(s.Chunks, "chunk"))
}

// Unwrap returns the error of the context.
func (s *Stopped) Unwrap() error { return s.err }

// attempt is an attempt at work.
type attempt struct {
	Attempt
	batch *Batch
	at    place
	pack  pack
	begun time.Time
	spent float64 // seconds of earlier attempts
}

// newAttempt returns the attempt with the counts of an earlier one. earlier is nil if there are none.
func (b *Batch) newAttempt(a Attempt, at place, earlier *pack) *attempt {
	w := &attempt{Attempt: a, batch: b, at: at, pack: pack{counts: map[int]*replay.Checkpoint{}}, begun: time.Now()}
	if earlier != nil {
		w.pack = *earlier
	}
	w.spent = w.pack.Seconds
	host, _ := os.Hostname()
	w.pack.packHeader = packHeader{Schema: Schema, Batch: b.digest, Shard: a.Shard, Engine: b.Engine,
		Program: a.Program, Host: host, Attempts: w.pack.Attempts + 1, Workers: max(1, a.Options.Workers)}
	return w
}

// count counts the chunks of a part that remain.
func (w *attempt) count(ctx context.Context, part int) error {
	p := w.batch.Shards[w.Shard].Parts[part]
	before := w.pack.counts[part]
	if before != nil && len(before.Chunks) == p.To-p.From {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return cmp.Or(w.save(), err)
	}
	f, job, err := w.batch.open(&w.batch.Traces[p.Trace], w.Options)
	if err != nil {
		return err
	}
	defer f.Close()
	counts, err := job.Count(ctx, replay.Counting{From: p.From, To: p.To, Begun: before, Every: cmp.Or(w.Every, DefaultCheckpoint), Whole: true,
		Save: func(c *replay.Checkpoint) error {
			w.pack.counts[part] = c
			return w.save()
		}})
	if counts != nil && len(counts.Chunks) > 0 {
		w.pack.counts[part] = counts
	}
	if err != nil {
		return cmp.Or(w.save(), err)
	}
	return nil
}

// save writes the counts so far, unless another attempt has finished the shard or saved more chunks.
func (w *attempt) save() error {
	if _, err := w.at.get(packName(w.Shard)); err == nil || w.pack.chunks() == 0 {
		return nil
	}
	if other, err := w.batch.readPack(w.at, begunName(w.Shard), w.Shard); err == nil && other.chunks() > w.pack.chunks() {
		return nil
	}
	return w.put(begunName(w.Shard))
}

func (w *attempt) put(name string) error {
	w.pack.Written = time.Now().UTC().Truncate(time.Second)
	w.pack.Seconds = w.spent + time.Since(w.begun).Seconds()
	content, err := encodePack(name, &w.pack)
	if err != nil {
		return err
	}
	return w.at.put(name, content)
}

// finish writes the pack. If another attempt has written other counts, finish keeps both packs for
// the user and returns an error.
func (w *attempt) finish() error {
	if other, err := w.batch.readFinished(w.at, w.Shard); err == nil && !equalCounts(other, &w.pack) {
		if err := w.put(differsName(w.Shard)); err != nil {
			return err
		}
		return permanentf("shard %d: the counts of this host (%s) differ from those of %s in %s: one of the two computes wrongly. "+
			"Remove both packs and repeat the shard elsewhere", w.Shard, w.pack.Host, other.Host, w.at.name(packName(w.Shard)))
	}
	if err := w.put(packName(w.Shard)); err != nil {
		return err
	}
	w.at.drop(begunName(w.Shard))
	return nil
}
