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

// LossyHistory replays a short history of a lossy policy that a person worked out. Settings
// come first: capacity (the budget), prompt (tokens, which are blocks), local (tokens that
// are pinned at the end, 1 otherwise), windows (the first so many steps are windows of the
// prompt), and mass, the prompt_mass of each of its tokens. Then a line a step: the list,
// best first, as block or block:attention; what is lost; what is dropped. A window has a
// list and a bar. The line that begins with prompt has what is dropped when the prompt ends.
//
//	capacity 2
//	prompt 5
//	prompt |   | 0 1
//	1 3    | 1 | 2   # 1 was dropped; 4 leaves the local window, 2 is the oldest
func LossyHistory(t *testing.T, entry policies.Entry, options, text string) {
	t.Helper()
	s := &suite{entry: entry, options: options}
	if err := s.parse(); err != nil {
		t.Fatal(err)
	}
	h := lossyHistory{settings: settings{"capacity": 1, "prompt": 1, "windows": 0, "local": 1}}
	readLines(t, text, h.read)
	got, err := replayLossy(h.setting(), s.lossyFresh())
	if err != nil {
		t.Fatalf("%s: %v", s.name(), err)
	}
	if len(got) != len(h.want) {
		t.Fatalf("%s: %d steps, %d worked out", s.name(), len(got)-1, len(h.want)-1)
	}
	for i, want := range h.want {
		if !slices.Equal(got[i].lost, want.lost) || !slices.Equal(got[i].victims, want.victims) {
			t.Errorf("%s: T = %d: lost %v, drops %v; worked out: lost %v, drops %v", s.name(), got[i].T, got[i].lost, got[i].victims, want.lost, want.victims)
		}
	}
}

// Divide is how a method with these options divides a request's memory among streams that a
// person made up.
func Divide(t *testing.T, entry policies.Entry, options string, streams []policies.Surveyed) []int {
	t.Helper()
	fresh, _, err := entry.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return fresh().(policies.Divider).Divide(streams)
}

type lossyHistory struct {
	settings settings
	mass     []float32
	rows     []trace.Row
	want     []dropped
	longest  int
}

func (h *lossyHistory) read(line string) error {
	columns, words := strings.Split(line, "|"), strings.Fields(line)
	switch {
	case len(words) == 0:
		return nil
	case words[0] == "mass":
		for _, w := range words[1:] {
			v, err := strconv.ParseFloat(w, 32)
			if err != nil {
				return err
			}
			h.mass = append(h.mass, float32(v))
		}
		return nil
	case len(columns) == 1:
		return h.settings.set(words)
	case len(columns) == 3 && words[0] == "prompt":
		dropped, err := readBlocks(columns[2])
		h.want = append(h.want, lostAndDropped(nil, dropped))
		return err
	case len(columns) != 2 && len(columns) != 3:
		return fmt.Errorf("%d columns", len(columns))
	}
	return h.row(columns)
}

func lostAndDropped(lost, victims []int32) dropped {
	return dropped{lost: sorted(lost), victims: sorted(victims)}
}

// row reads a step; a window has a list alone.
func (h *lossyHistory) row(columns []string) error {
	row := trace.Row{Step: int32(len(h.rows) - h.settings["windows"])}
	for _, w := range strings.Fields(columns[0]) {
		block, mass, scored := strings.Cut(w, ":")
		x, err := strconv.Atoi(block)
		if err != nil {
			return err
		}
		row.Indices = append(row.Indices, int32(x))
		if !scored {
			continue
		}
		m, err := strconv.ParseFloat(mass, 32)
		if err != nil {
			return err
		}
		row.AttentionMass = append(row.AttentionMass, float32(m))
	}
	h.longest = max(h.longest, len(row.Indices))
	h.rows = append(h.rows, row)
	if len(columns) == 2 {
		return nil
	}
	lost, err := readBlocks(columns[1])
	if err != nil {
		return err
	}
	victims, err := readBlocks(columns[2])
	h.want = append(h.want, lostAndDropped(lost, victims))
	return err
}

func (h *lossyHistory) setting() *lossySetting {
	sink, local := 0, h.settings["local"]
	c := &lossySetting{stream: new(trace.Stream)}
	c.meta = trace.Meta{Version: trace.Version, Order: trace.OrderRank, TopK: h.longest, Candidates: h.longest, BlockTokens: 1, Sink: &sink, Local: &local}
	c.stream.Reset(trace.StreamInfo{Key: trace.Key{Request: "history", Head: trace.NoHead}, PromptLen: int32(h.settings["prompt"])})
	for _, row := range h.rows {
		c.stream.Append(row)
	}
	c.stream.PromptMass = h.mass
	c.o = replay.StreamOptions{Capacity: h.settings["capacity"], Warmup: h.settings.warmup()}
	return c
}
