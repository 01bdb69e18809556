package importer

import (
	"context"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/trace"
)

// collector takes the records of all sources and learns what the metadata needs:
// prompt lengths, the longest list, whether there are scores.
type collector struct {
	ctx        context.Context
	opts       *Options
	sources    []*source
	statements []statement
	requests   map[string]*request
	spill      spill
	index      *index
	encoded    []byte
	warnings   []string

	longest   int // longest list, after padding
	longestAt string
	longestOf int32 // and its context
	maxSeqLen int32
	scored    string // first record with scores, of a source that does not state its order
	unscored  string // first one without
	ownSeen   bool   // some list holds the query's own position
	read      int64  // records
}

// request is what all records of a request must agree on whose source does not state the
// prompt's length.
type request struct {
	id       string
	implied  bool  // there is such a record
	varies   bool  // and one that implies another prompt
	prompt   int32 // seq_len − step − 1 of the first record
	prompt2  int32 // of the first that implies another one
	resolved int32 // what the trace gets
	at, at2  place // of the two records
}

func newCollector(ctx context.Context, o *Options) *collector {
	budget := o.memory()
	return &collector{ctx: ctx, opts: o, requests: map[string]*request{},
		spill: spill{limit: budget / 4, dir: o.Tmp},
		index: newIndex(ctx, int(budget/4/entryBytes), o.Tmp)}
}

func (c *collector) close() {
	c.index.close()
	c.spill.close()
}

// where names a place.
func (c *collector) where(p place) string { return c.sources[p.source].at(p.at) }

// begin makes s the source that the next records come from.
func (c *collector) begin(s *source) {
	s.number = int32(len(c.sources))
	c.sources = append(c.sources, s)
}

// state records what the open source says of the whole trace.
func (c *collector) state(s *source, m trace.Meta) {
	s.ordered, s.candidates = m.Order != "", m.Candidates
	c.statements = append(c.statements, statement{s.path, m})
}

func (c *collector) warn(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}

// add takes one record of s.
func (c *collector) add(s *source, r *record) error {
	if c.read++; c.read%tellEvery == 0 {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		c.tell(0)
	}
	r.dropPadding()
	if err := c.admit(s, r); err != nil {
		return err
	}
	if err := c.order(s, r); err != nil {
		return err
	}
	c.learn(s, r)
	c.encoded = r.encode(c.encoded[:0], s.number)
	offset, err := c.spill.add(c.encoded)
	if err != nil {
		return err
	}
	s.records++
	return c.index.add(entry{key: trace.Key{Request: c.requests[r.request].id, Layer: r.layer, Head: r.head},
		seqLen: r.seqLen, size: int32(len(c.encoded)), offset: offset})
}

// tellEvery is how many records are taken in between two looks at what stops the import.
const tellEvery = 256

// tell reports progress.
func (c *collector) tell(written int64) {
	if c.opts.Progress != nil {
		c.opts.Progress(c.read, written)
	}
}

// admit checks what a record can know of itself; the trace's own rules come later.
func (c *collector) admit(s *source, r *record) error {
	switch {
	case r.request == "":
		return s.errorAt(r.at, "request_id is empty; name the request by --request-id")
	case !utf8.ValidString(r.request):
		return s.errorAt(r.at, "request_id %q, expected UTF-8 text", r.request)
	case r.layer < 0 || r.head < trace.NoHead:
		return s.errorAt(r.at, "layer_id %d, head %d, expected none below 0", r.layer, r.head)
	case r.seqLen < 1:
		return s.errorAt(r.at, "context of %d tokens at step %d, expected at least 1", r.seqLen, r.step)
	case len(r.indices) == 0:
		return s.errorAt(r.at, "request %q layer %d step %d: the list has no index (only padding?), expected at least one", r.request, r.layer, r.step)
	case len(r.indices) > math.MaxInt32/64:
		return s.errorAt(r.at, "list of %d indices, expected at most %d", len(r.indices), math.MaxInt32/64)
	case s.candidates > 0 && len(r.indices) > s.candidates:
		return s.errorAt(r.at, "list of %d indices, expected at most the %d that the file's metadata states as candidates (M)", len(r.indices), s.candidates)
	}
	return c.admitPrompt(s, r)
}

// order ranks a list by its scores where neither flags nor the source say what its order
// means. A list that is said to be in rank order is taken as it stands.
func (c *collector) order(s *source, r *record) error {
	switch {
	case len(r.scores) == 0 || s.ordered:
	case c.opts.Meta.Order == "":
		r.rank()
	case c.opts.Meta.Order == trace.OrderRank && !falling(r.scores):
		return s.errorAt(r.at, "request %q layer %d step %d: scores rise along the list, but --order rank says that it is best first: leave out --order, and scores rank it", r.request, r.layer, r.step)
	}
	return nil
}

// admitPrompt holds the prompt length that r implies against the request's others.
func (c *collector) admitPrompt(s *source, r *record) error {
	implied := int64(r.seqLen) - int64(r.step) - 1
	if implied < 0 || implied > math.MaxInt32 {
		return s.errorAt(r.at, "step %d with a context of %d tokens implies a prompt of %d tokens, expected 0 or more (context = prompt + step + 1)", r.step, r.seqLen, implied)
	}
	q, known := c.requests[r.request]
	if !known {
		id := strings.Clone(r.request) // the decoder's may be part of a whole batch
		q = &request{id: id}
		c.requests[id] = q
	}
	if given := int64(c.opts.PromptLen); r.states {
		if given != 0 && given != implied {
			return s.errorAt(r.at, "request %q has a prompt of %d tokens, but --prompt-len says %d", r.request, implied, given)
		}
		return nil
	}
	if !q.implied {
		q.implied, q.prompt, q.at = true, int32(implied), place{s.number, r.at}
		return nil
	}
	if int32(implied) != q.prompt && !q.varies {
		q.varies, q.prompt2, q.at2 = true, int32(implied), place{s.number, r.at}
	}
	return nil
}

// learn notes what metadata needs.
func (c *collector) learn(s *source, r *record) {
	if len(r.indices) > c.longest {
		c.longest, c.longestAt, c.longestOf = len(r.indices), s.at(r.at), r.seqLen
	}
	c.maxSeqLen = max(c.maxSeqLen, r.seqLen)
	if !s.ordered && len(r.scores) > 0 && c.scored == "" {
		c.scored = s.at(r.at)
	}
	if !s.ordered && len(r.scores) == 0 && c.unscored == "" {
		c.unscored = s.at(r.at)
	}
	for i := 0; !c.ownSeen && i < len(r.indices); i++ {
		c.ownSeen = r.indices[i] == r.seqLen-1
	}
}
