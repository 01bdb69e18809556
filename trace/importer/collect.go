package importer

import (
	"context"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/trace"
)

// collector collects the records of all sources and the facts for the metadata: prompt lengths, the
// longest list, whether scores exist.
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
	longestOf int32 // context of the longest list, in tokens
	maxSeqLen int32
	scored    string // first record with scores from a source that does not state its order
	unscored  string // first record without scores
	ownSeen   bool   // some list holds the position of the query itself
	read      int64  // number of records
}

// request holds the facts on which all records of a request must agree if its source does not state
// the length of the prompt.
type request struct {
	id       string
	implied  bool  // some record does not state the length of the prompt
	varies   bool  // two of these records imply different lengths
	prompt   int32 // seq_len − step − 1 of the first record
	prompt2  int32 // of the first record that implies another length
	resolved int32 // prompt length in the trace
	at, at2  place // places of the two records
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

func (c *collector) where(p place) string { return c.sources[p.source].at(p.at) }

// state records the metadata that the open source states for the whole trace.
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

// tellEvery is the number of records between two checks of ctx, each with a progress report.
const tellEvery = 256

func (c *collector) tell(written int64) {
	if c.opts.Progress != nil {
		c.opts.Progress(c.read, written)
	}
}

// admit checks a record by itself. The rules of the trace are checked later.
func (c *collector) admit(s *source, r *record) error {
	switch {
	case r.request == "":
		return s.errorAt(r.at, "request_id is empty: name the request with --request-id")
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
		return s.errorAt(r.at, "list of %d indices, expected at most the %d that the file's metadata states as candidates", len(r.indices), s.candidates)
	}
	return c.admitPrompt(s, r)
}

// order ranks a list by its scores if neither flags nor the source state the order. A list that is
// stated to be in rank order stays as it is.
func (c *collector) order(s *source, r *record) error {
	switch {
	case len(r.scores) == 0 || s.ordered:
	case c.opts.Meta.Order == "" && len(r.wide) > 0:
		rankBy(r, r.wide) // at the precision of the source
	case c.opts.Meta.Order == "":
		rankBy(r, r.scores)
	case c.opts.Meta.Order == trace.OrderRank && !falling(r.scores):
		return s.errorAt(r.at, "request %q layer %d step %d: scores rise along the list, but --order rank means best first. Remove --order", r.request, r.layer, r.step)
	}
	return nil
}

// admitPrompt compares the prompt length that r implies with that of the request's other records.
func (c *collector) admitPrompt(s *source, r *record) error {
	implied := int64(r.seqLen) - int64(r.step) - 1
	if implied < 0 || implied > math.MaxInt32 {
		return s.errorAt(r.at, "step %d with a context of %d tokens implies a prompt of %d tokens, expected 0 or more (context = prompt + step + 1)", r.step, r.seqLen, implied)
	}
	q, known := c.requests[r.request]
	if !known {
		id := strings.Clone(r.request) // the decoder's string may keep a whole batch in memory
		q = &request{id: id}
		c.requests[id] = q
	}
	if given := int64(c.opts.PromptLen); r.states {
		if given != 0 && given != implied {
			return s.errorAt(r.at, "request %q has a prompt of %d tokens, but --prompt-len is %d", r.request, implied, given)
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

// learn notes the facts of a record that the metadata need.
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
