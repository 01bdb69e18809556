package run

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/kvreplay/kvreplay/internal/files"
)

// DefaultCheckpoint is the interval at which a worker saves its counts. A kill costs at most this
// much work. Results do not depend on it.
const DefaultCheckpoint = 2 * time.Second

// Checkpoint is a part of an unfinished pass: its finished chunks and their pooled counts.
type Checkpoint struct {
	Policies string      `json:"policies"` // digest of the behaviours of all cells
	Chunks   []int       `json:"units"`    // finished chunks, by position in Job.Chunks
	Cells    []int       `json:"cells"`    // counted cells, by position in the plan
	Tallies  []keptTally `json:"tallies"`
}

// keptTally is one non-empty tally.
type keptTally struct {
	Cell int `json:"cell"`
	Part int `json:"part"`
	tally
}

// pass is one pass over a trace, or over some of its chunks.
type pass struct {
	from, to int    // the chunks of the pass
	of       string // digest of the behaviours of all cells
	todo     []int  // cells of the pass
	every    time.Duration
	done     map[int]bool
	save     func(name string, c *Checkpoint) error // keeps the counts of a worker. Nil keeps none
	whole    bool                                   // see Counting.Whole

	unchanged func() error // an error if the trace has changed since it was opened
}

// newPass returns a pass over the chunks [from, to) that keeps nothing.
func (p *plan) newPass(from, to int) *pass {
	return &pass{from: from, to: to, of: p.behaviourDigest(), todo: p.todo, every: cmp.Or(p.opt.Checkpoint, DefaultCheckpoint),
		done: map[int]bool{}, unchanged: func() error { return p.file.Unchanged(p.digest) }}
}

// open lists the chunks that remain.
func (ps *pass) open() (chunks []int) {
	for u := ps.from; u < ps.to; u++ {
		if !ps.done[u] {
			chunks = append(chunks, u)
		}
	}
	return chunks
}

// openPass finds the counts of earlier runs of the same pass and pools them into total.
func (p *plan) openPass(chunks [][2]int, total [][]tally) (*pass, error) {
	ps := p.newPass(0, len(chunks))
	if p.opt.Store == nil || len(chunks) < 2 || p.opt.Profile != nil || p.opt.Referee {
		return ps, nil
	}
	dir := p.passDir(chunks)
	ps.save = func(name string, c *Checkpoint) error { return saveCheckpoint(filepath.Join(dir, name+".json"), c) }
	if p.opt.Fresh {
		p.tidy()
	}
	if err := makeFolder(dir); err != nil {
		return nil, fmt.Errorf("keep results: %w", err)
	}
	kept, err := files.Matching(dir, "*.json")
	if err != nil {
		return nil, err
	}
	for _, f := range kept { // sorted by name
		ps.resume(f, total)
	}
	return ps, nil
}

// passDir returns the folder of the pass in the store. Its name depends on all cells of the run, not
// only on the cells to replay. A run that was killed while it saved cells then finds the folder again.
func (p *plan) passDir(chunks [][2]int) string {
	return filepath.Join(p.opt.Store.dir, "partial", hashOf([]any{chunks, p.keys()}))
}

// resume pools one saved file. It skips a file that is damaged or that the pass cannot use.
func (ps *pass) resume(path string, total [][]tally) {
	text, err := readKept(path)
	if err != nil {
		return
	}
	var c Checkpoint
	if text, ok := files.Unseal(filepath.Base(path), text); ok && json.Unmarshal(text, &c) == nil {
		_ = ps.pool(&c, total) // without it, the run counts these chunks again
	}
}

// pool adds the counts of c to total, and its chunks to the finished ones. It changes
// nothing and returns an error if a policy has changed since, or if c lacks a cell. It does so too if
// two runs worked on the same pass and c has chunks that are pooled already.
func (ps *pass) pool(c *Checkpoint, total [][]tally) error {
	if c.Policies != ps.of {
		return errors.New("the counts are of policies that decide differently")
	}
	for i, u := range c.Chunks {
		if u < ps.from || u >= ps.to || ps.done[u] || i > 0 && u == c.Chunks[i-1] {
			return fmt.Errorf("chunk %d is counted twice, or is not one of %d to %d", u, ps.from, ps.to-1)
		}
	}
	for _, cell := range ps.todo {
		if !slices.Contains(c.Cells, cell) {
			return fmt.Errorf("the counts lack cell %d", cell)
		}
	}
	for _, k := range c.Tallies {
		if k.Cell < 0 || k.Part < 0 {
			return fmt.Errorf("counts of part %d of cell %d", k.Part, k.Cell)
		}
	}
	for _, u := range c.Chunks {
		ps.done[u] = true
	}
	for _, k := range c.Tallies {
		if k.Cell < len(total) && k.Part < len(total[k.Cell]) { // false for a cell that is finished
			total[k.Cell][k.Part].merge(&k.tally)
		}
	}
	return nil
}

func (ps *pass) checkpoint(chunks []int, tallies [][]tally) *Checkpoint {
	c := &Checkpoint{Policies: ps.of, Chunks: chunks, Cells: ps.todo}
	for i := range tallies {
		for j, t := range tallies[i] {
			if t.Counts.Streams > 0 {
				c.Tallies = append(c.Tallies, keptTally{i, j, t})
			}
		}
	}
	return c
}

// keeper saves the progress of one worker.
type keeper struct {
	pass   *pass
	name   string
	chunks []int
	last   time.Time
}

func (ps *pass) keeper() *keeper {
	return &keeper{pass: ps, name: uuid.NewString(), last: time.Now()}
}

// finished records a chunk, and saves all counts if the checkpoint interval has passed.
func (k *keeper) finished(chunk int, tallies [][]tally) error {
	k.chunks = append(k.chunks, chunk)
	if k.pass.save == nil || time.Since(k.last) < k.pass.every {
		return nil
	}
	return k.keep(tallies)
}

// keep saves the worker's counts and replaces those that it saved before.
func (k *keeper) keep(tallies [][]tally) error {
	if k.pass.save == nil || len(k.chunks) == 0 {
		return nil
	}
	if err := k.pass.unchanged(); err != nil {
		return err
	}
	k.last = time.Now()
	return k.pass.save(k.name, k.pass.checkpoint(slices.Clone(k.chunks), tallies))
}

// saveCheckpoint writes a file that resume reads.
func saveCheckpoint(path string, c *Checkpoint) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := writeSealed(path, append(text, '\n')); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil // another run has finished the same pass, kept its cells and tidied up
}

// tidy removes the files of a pass if the store has all of its cells. This run may have finished
// them, or one that was killed before it could remove the files.
func (p *plan) tidy() {
	if p.opt.Store != nil {
		dir := p.passDir(p.chunks())
		_ = os.RemoveAll(dir)            // a remaining file is harmless: a finished pass is never resumed
		_ = os.Remove(filepath.Dir(dir)) // fails if the folder holds another pass
	}
}

// makeFolder makes the folder of a pass. It tries again if another run that has finished removes
// the parent folder meanwhile.
func makeFolder(dir string) (err error) {
	for range 100 {
		if err = os.MkdirAll(dir, 0o755); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// Interrupted is the error of a run that was cancelled.
type Interrupted struct {
	Trace         string
	Done, Streams int    // counted streams of the trace, and all of its streams
	Kept          bool   // the store keeps the counts, and the same run continues from them
	Why           string // reason that the counts are not kept. Empty without a store
	Err           error
}

// interrupted returns the error of a cancelled run with its progress.
func (p *plan) interrupted(chunks [][2]int, ps *pass, err error) error {
	e := &Interrupted{Trace: p.file.Path(), Kept: ps.save != nil && len(ps.done) > 0, Err: err}
	for u := ps.from; u < ps.to; u++ {
		chunk := chunks[u]
		for _, c := range p.caches[chunk[0]:chunk[1]] {
			streams := c.streams() * p.layout.Heads
			if e.Streams += streams; ps.done[u] {
				e.Done += streams
			}
		}
	}
	switch {
	case p.opt.Store == nil && ps.save == nil:
	case p.opt.Profile != nil:
		e.Why = "profiles are written only for whole traces (finished traces are kept)"
	case p.opt.Referee:
		e.Why = "--referee replays every cell from the start"
	default:
		e.Why = "no part of it was finished"
	}
	return e
}

// Error states the progress, the kept counts and the way to continue.
func (e *Interrupted) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "interrupted in %s after %d of %d streams", e.Trace, e.Done, e.Streams)
	if e.Kept {
		b.WriteString(". The counts are kept: run the same command again to continue")
		return b.String()
	}
	b.WriteString(". No counts of this trace are kept")
	if e.Why != "" {
		b.WriteString(": " + e.Why)
	}
	return b.String()
}

// Unwrap returns the error of the context.
func (e *Interrupted) Unwrap() error { return e.Err }
