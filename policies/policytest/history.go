package policytest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

// History replays a short history that a person worked out, and compares every step.
// Settings come first, a line each; then a line a step with the list, best first, what
// is missed, what is evicted and, where something is, what is kept out. Text behind #
// is a comment.
//
//	capacity 2
//	1   | 1 |
//	2   | 2 |
//	3   | 3 | 1  # block 1 was used longest ago
//
// Settings are capacity, topk (K; the longest list otherwise: the rest of a list are
// candidates), windows (the first so many steps are a warm-up), entries (of a list in a
// block: lists then name entries, the other columns blocks) and prompt. Without
// prompt blocks have a hundred tokens, so that none is born; with it blocks are tokens,
// and the token prompt+t-1 is born at step t.
func History(t *testing.T, entry policies.Entry, options, text string) {
	t.Helper()
	s := &suite{entry: entry, options: options}
	if err := s.parse(); err != nil {
		t.Fatal(err)
	}
	h := history{settings: settings{"capacity": 1, "topk": 0, "windows": 0, "prompt": 0, "entries": 1}, longest: 1}
	readLines(t, text, h.read)
	c, want := h.setting(), h.want
	if entry.Traits.Windowed {
		c.capacity = policies.Unbounded
	}
	got, _, err := replayEngine(c, s.fresh())
	if err != nil {
		t.Fatalf("%s: %v", s.name(), err)
	}
	for i := range want {
		for _, f := range []struct {
			what      string
			got, want []int32
		}{{"misses", got[i].misses, want[i].misses}, {"evicts", got[i].victims, want[i].victims}, {"keeps out", got[i].keptOut, want[i].keptOut}} {
			if !slices.Equal(f.got, f.want) {
				t.Errorf("%s: step T = %d %s %v, worked out: %v", s.name(), got[i].T, f.what, f.got, f.want)
			}
		}
	}
}

// history is a history as it is read.
type history struct {
	settings settings
	lists    [][]int32
	longest  int
	want     []step
}

// read reads a line.
func (h *history) read(line string) error {
	columns := strings.Split(line, "|")
	words := strings.Fields(line)
	switch {
	case len(words) == 0:
		return nil
	case len(columns) == 1:
		return h.settings.set(words)
	case len(columns) > 4:
		return fmt.Errorf("%d columns", len(columns))
	}
	var blocks [4][]int32
	for i := range columns {
		var err error
		if blocks[i], err = readBlocks(columns[i]); err != nil {
			return err
		}
	}
	h.longest = max(h.longest, len(blocks[0]))
	h.lists = append(h.lists, blocks[0])
	h.want = append(h.want, step{misses: sorted(blocks[1]), victims: sorted(blocks[2]), keptOut: sorted(blocks[3])})
	return nil
}

// readLines hands the lines of a history to read, without their comments.
func readLines(t *testing.T, text string, read func(line string) error) {
	t.Helper()
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if err := read(line); err != nil {
			t.Fatalf("history, line %d: %v", n+1, err)
		}
	}
}

// settings are the numbers that a history may set, with their defaults.
type settings map[string]int

// set reads a setting's line.
func (s settings) set(words []string) (err error) {
	if _, ok := s[words[0]]; !ok || len(words) != 2 {
		return fmt.Errorf("%q is no setting", strings.Join(words, " "))
	}
	s[words[0]], err = strconv.Atoi(words[1])
	return err
}

// warmup is a run over the windows, where there are some.
func (s settings) warmup() replay.Warmup {
	if n := s["windows"]; n > 0 {
		return replay.Warmup{Kind: replay.WarmupRun, Windows: n}
	}
	return replay.Warmup{Kind: replay.WarmupCold}
}

func readBlocks(text string) (blocks []int32, err error) {
	for _, word := range strings.Fields(text) {
		x, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, int32(x))
	}
	return blocks, nil
}

// setting builds the stream.
func (h *history) setting() *setting {
	sink, local, tokens, prompt := 0, 1, 1, h.settings["prompt"]
	if prompt == 0 {
		tokens, prompt = 100, 100*100*h.settings["entries"]+20 // a hundred blocks; the next is not full for 80 steps
	}
	windows, topK := h.settings["windows"], h.settings["topk"]
	if topK == 0 {
		topK = h.longest
	}
	c := &setting{capacity: h.settings["capacity"], topK: topK, candidates: h.longest, local: local, blockTokens: tokens}
	c.meta = trace.Meta{Version: trace.Version, Order: trace.OrderRank, TopK: topK, Candidates: h.longest, BlockTokens: tokens, Sink: &sink, Local: &local}
	c.inBlocks(h.settings["entries"])
	c.stream = new(trace.Stream)
	c.stream.Reset(trace.StreamInfo{Key: trace.Key{Request: "history", Head: trace.NoHead}, PromptLen: int32(prompt)})
	for i, list := range h.lists {
		c.stream.Append(trace.Row{Step: int32(i - windows), Indices: list})
	}
	c.warmup = h.settings.warmup()
	return c
}
