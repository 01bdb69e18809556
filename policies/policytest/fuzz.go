package policytest

import (
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

// Fuzz decodes bytes to a stream and a way to replay it. It checks that the policy answers legally,
// keeps no slice, stays above the optimum and agrees with the reference (nil: none).
//
//	func FuzzConformance(f *testing.F) { policytest.Fuzz(f, lru.Entry, "", nil) }
func Fuzz(f *testing.F, entry policies.Entry, options string, newReference func() Reference) {
	s := &suite{entry: entry, options: options, rule: fetch, reference: newReference}
	fatal.If(f, s.parse())
	f.Add([]byte{2, 1, 3, 9, 0, 0, 0, 3, 0, 4, 1, 2, 3, 4, 3, 5, 6, 7, 4, 1, 2, 3, 4})
	f.Add([]byte{1, 0, 0, 4, 1, 1, 1, 1, 1, 2, 0, 1, 2, 1, 2, 2, 2, 3, 130, 4, 5, 2, 0, 1})
	f.Add([]byte{4, 3, 7, 20, 2, 3, 0, 4, 2, 5, 9, 3, 1, 7, 2, 133, 4, 4, 4, 8, 6, 1, 1, 5, 0, 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, data []byte) {
		c := s.decode(data)
		if c == nil {
			return
		}
		for _, check := range []func(*setting) error{s.borrowsOn, s.refereedOn, s.boundedOn} {
			if err := check(c); err != nil {
				t.Fatalf("%s: %v\n%v", s.name(), err, c)
			}
		}
	})
}

// bytesReader reads bytes, and zeros after the end.
type bytesReader []byte

func (b *bytesReader) next() int {
	if len(*b) == 0 {
		return 0
	}
	x := (*b)[0]
	*b = (*b)[1:]
	return int(x)
}

// decode reads a setting. Nine bytes of settings come first. Each row follows as a byte with its
// length and a bit for a gap, then the blocks. decode returns nil if no counted row is left.
func (s *suite) decode(data []byte) *setting {
	b := (*bytesReader)(&data)
	k, more, windows := 1+b.next()%12, b.next()%8, b.next()%10
	prompt := windows*2 + 1 + b.next()
	sink, local := b.next()%8, 1+b.next()%8
	capacity, tokens, flags := 1+b.next()%40, 1+b.next()%4, b.next()
	entries := 1
	if s.picks() {
		tokens, entries = 1, tokens
	}
	meta := trace.Meta{Version: trace.Version, Order: trace.OrderRank, TopK: k, Candidates: k + more, BlockTokens: tokens, Sink: &sink, Local: &local}
	if flags&1 != 0 && s.needs&policies.NeedCandidates == 0 {
		meta.Order, meta.Candidates = trace.OrderIndex, k
	}
	stream := new(trace.Stream)
	stream.Reset(trace.StreamInfo{Key: trace.Key{Request: "fuzz", Head: trace.NoHead}, PromptLen: int32(prompt)})
	for step := -windows; len(*b) > 0 && stream.Rows < 64; step++ {
		step += appendRow(stream, &meta, step, b)
	}
	if stream.Rows == 0 || stream.LastStep < 0 { // a run rejects streams without a counted step
		return nil
	}
	c := &setting{stream: stream, meta: meta, topK: k, candidates: meta.Candidates, capacity: capacity,
		sink: sink, local: local, blockTokens: tokens, warmup: replay.Warmup{Kind: replay.WarmupCold}}
	c.inBlocks(entries)
	switch {
	case s.entry.Traits.Windowed:
		c.capacity = policies.Unbounded
	case flags&6 == 2:
		c.warmup = replay.Warmup{Kind: replay.WarmupStaging}
	}
	if stream.Windows > 0 && flags&6 == 4 {
		c.warmup = replay.Warmup{Kind: replay.WarmupRun, Windows: 1 + flags>>3%stream.Windows}
	}
	return c
}

// appendRow reads a row and returns how many steps to skip after it.
func appendRow(stream *trace.Stream, meta *trace.Meta, step int, b *bytesReader) (skip int) {
	n := b.next()
	blocks := (int(stream.PromptLen) + step + meta.BlockTokens) / meta.BlockTokens
	row := trace.Row{Step: int32(step)}
	for range 1 + n&127%meta.Candidates {
		if x := int32(b.next() % blocks); !slices.Contains(row.Indices, x) {
			row.Indices = append(row.Indices, x)
		}
	}
	if meta.Order == trace.OrderIndex {
		slices.Sort(row.Indices)
	}
	for i := range row.Indices {
		row.Scores = append(row.Scores, float32(-i))
	}
	stream.Append(row)
	return n >> 7
}
