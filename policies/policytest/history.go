package policytest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

// History replays a short history that is worked out by hand, and compares every step. The settings
// come first, one per line. One line per step follows: the list, best first, the misses, the
// victims, and the blocks that are kept out, if there are any. Text behind # is a comment.
//
//	capacity 2
//	1   | 1 |
//	2   | 2 |
//	3   | 3 | 1  # block 1 was used longest ago
//
// The settings are
//
//   - capacity
//   - topk: K, by default the longest list. The rest of a list are candidates.
//   - windows: the number of first steps that are a warm-up
//   - entries: the entries per block. Lists then name entries, and the other columns name blocks.
//   - prompt: the number of prompt tokens. Blocks are then tokens, and token prompt+t-1 is born at
//     step t. By default blocks have a hundred tokens, so that none is born.
func History(t *testing.T, entry policies.Entry, options, text string) {
	t.Helper()
	compareHistory(t, &suite{entry: entry, options: options, rule: fetch}, text)
}

// LossyHistory is History for a lossy policy. The settings are
//
//   - capacity: the budget
//   - prompt: the number of prompt tokens, which are blocks
//   - local: the number of tokens that are pinned at the end, by default 1
//   - windows: the number of first steps that are windows of the prompt
//   - mass: the prompt_mass of each token of the prompt
//
// A step's line has the list, as block or block:attention, the lost blocks and the dropped ones. A
// window has a list and a bar. The line that begins with prompt has the blocks that are dropped
// when the prompt ends.
//
//	capacity 2
//	prompt 5
//	prompt |   | 0 1
//	1 3    | 1 | 2   # 1 was dropped; 4 leaves the local window, 2 is the oldest
func LossyHistory(t *testing.T, entry policies.Entry, options, text string) {
	t.Helper()
	compareHistory(t, &suite{entry: entry, options: options, rule: lose}, text)
}

// Divide returns the budgets by which a method with these options divides a request's memory among
// the given streams.
func Divide(t *testing.T, entry policies.Entry, options string, streams []policies.Surveyed) []int {
	t.Helper()
	fresh, _, err := entry.New(options)
	fatal.If(t, err)
	return fresh().(policies.Divider).Divide(streams)
}

func compareHistory(t *testing.T, s *suite, text string) {
	t.Helper()
	fatal.If(t, s.parse())
	h := &history{rule: s.rule, longest: 1, settings: map[string]int{"capacity": 1, "topk": 0, "windows": 0, "prompt": 0, "entries": 1, "local": 1}}
	verbs := [3]string{"misses", "evicts", "keeps out"}
	if s.rule == lose {
		h.settings["prompt"], verbs[0], verbs[1] = 1, "loses", "drops"
	}
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if err := h.read(line); err != nil {
			t.Fatalf("history, line %d: %v", n+1, err)
		}
	}
	c := h.setting()
	if s.entry.Traits.Windowed {
		c.capacity = policies.Unbounded
	}
	got, _, err := replayEngine(c, s.fresh())
	if err != nil {
		t.Fatalf("%s: %v", s.name(), err)
	}
	if len(got) != len(h.want) {
		t.Fatalf("%s: %d steps, expected %d", s.name(), len(got), len(h.want))
	}
	for i, want := range h.want {
		have := [3][]int32{got[i].misses, got[i].victims, got[i].keptOut}
		for j, want := range [][]int32{want.misses, want.victims, want.keptOut} {
			if !slices.Equal(have[j], want) {
				t.Errorf("%s: step T = %d %s %v, expected %v", s.name(), got[i].T, verbs[j], have[j], want)
			}
		}
	}
}

// history is a history while it is read.
type history struct {
	rule     missRule
	settings map[string]int // the settings that it accepts, with their defaults
	mass     []float32
	rows     []trace.Row
	longest  int
	want     []step
}

func (h *history) read(line string) error {
	columns, words := strings.Split(line, "|"), strings.Fields(line)
	switch {
	case len(words) == 0:
		return nil
	case h.rule == lose && words[0] == "mass":
		for _, w := range words[1:] {
			v, err := strconv.ParseFloat(w, 32)
			if err != nil {
				return err
			}
			h.mass = append(h.mass, float32(v))
		}
		return nil
	case len(columns) == 1:
		if _, ok := h.settings[words[0]]; !ok || len(words) != 2 {
			return fmt.Errorf("%q is not a setting", strings.Join(words, " "))
		}
		n, err := strconv.Atoi(words[1])
		h.settings[words[0]] = n
		return err
	case len(columns) > 4 || h.rule == lose && len(columns) > 3:
		return fmt.Errorf("%d columns, too many", len(columns))
	}
	if h.rule == fetch || words[0] != "prompt" {
		if err := h.row(strings.Fields(columns[0])); err != nil {
			return err
		}
	}
	if h.rule == lose && len(columns) == 2 { // a window
		return nil
	}
	var blocks [3][]int32
	for i, column := range columns[1:] {
		for _, word := range strings.Fields(column) {
			x, err := strconv.Atoi(word)
			if err != nil {
				return err
			}
			blocks[i] = append(blocks[i], int32(x))
		}
	}
	h.want = append(h.want, step{misses: sorted(blocks[0]), victims: sorted(blocks[1]), keptOut: sorted(blocks[2])})
	return nil
}

func (h *history) row(words []string) error {
	row := trace.Row{Step: int32(len(h.rows) - h.settings["windows"])}
	for _, w := range words {
		block, mass, scored := strings.Cut(w, ":")
		x, err := strconv.Atoi(block)
		if err != nil {
			return err
		}
		row.Indices = append(row.Indices, int32(x))
		if scored {
			m, err := strconv.ParseFloat(mass, 32)
			if err != nil {
				return err
			}
			row.AttentionMass = append(row.AttentionMass, float32(m))
		}
	}
	h.longest = max(h.longest, len(row.Indices))
	h.rows = append(h.rows, row)
	return nil
}

func (h *history) setting() *setting {
	sink, tokens, prompt := 0, 1, h.settings["prompt"]
	if prompt == 0 {
		tokens, prompt = 100, 100*100*h.settings["entries"]+20 // a hundred blocks. The next is not full for 80 steps
	}
	topK := cmp.Or(h.settings["topk"], h.longest)
	c := &setting{capacity: h.settings["capacity"], topK: topK, candidates: h.longest, local: h.settings["local"], blockTokens: tokens,
		warmup: replay.Warmup{Kind: replay.WarmupCold}}
	if n := h.settings["windows"]; n > 0 {
		c.warmup = replay.Warmup{Kind: replay.WarmupRun, Windows: n}
	}
	c.meta = trace.Meta{Version: trace.Version, Order: trace.OrderRank, TopK: topK, Candidates: h.longest, BlockTokens: tokens, Sink: &sink, Local: &c.local}
	c.inBlocks(h.settings["entries"])
	c.stream = new(trace.Stream)
	c.stream.Reset(trace.StreamInfo{Key: trace.Key{Request: "history", Head: trace.NoHead}, PromptLen: int32(prompt)})
	for _, row := range h.rows {
		c.stream.Append(row)
	}
	c.stream.PromptMass = h.mass
	return c
}
