package referee_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/referee"
	"github.com/kvreplay/kvreplay/replay/referee/brute"
	"github.com/kvreplay/kvreplay/trace"
)

// history is a file of testdata: a cell and the counts of every step, derived by hand.
type history struct {
	drawn
	want []referee.StepCounts
}

// Histories in testdata are worked out by hand from S1–S13 and never written by a program.
func TestHandWorkedHistories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d histories, %v", len(files), err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) { readHistory(t, path).check(t) })
	}
}

func (h history) check(t *testing.T) {
	got := h.run(t, h.config.Policy)
	if len(got) != len(h.want) {
		t.Fatalf("%d steps replayed, %d worked out", len(got), len(h.want))
	}
	misses := 0
	for i, want := range h.want {
		for _, column := range []struct {
			name      string
			got, want []int32
			count     int
		}{
			{"births", got[i].Born, want.Born, got[i].Births},
			{"hits", got[i].Hit, want.Hit, got[i].Hits},
			{"misses", got[i].Missed, want.Missed, got[i].Misses},
			{"victims", got[i].Victims, want.Victims, got[i].Evictions},
			{"kept out", got[i].KeptOut, want.KeptOut, len(want.KeptOut)},
			{"residents", got[i].Residents, want.Residents, got[i].Resident},
		} {
			if !slices.Equal(column.got, column.want) || column.count != len(column.want) {
				t.Errorf("step %d: %s %v (%d), want %v", want.Step, column.name, column.got, column.count, column.want)
			}
		}
		if got[i].Step != want.Step {
			t.Errorf("step %d, want %d", got[i].Step, want.Step)
		}
		if want.Step >= 0 {
			misses += len(want.Missed)
		}
	}
	if strings.HasPrefix(h.config.Policy, "opt") {
		fewest, err := brute.MinMisses(h.stream, h.hasRanks, h.config, h.config.Policy == "opt-bypass")
		if err != nil || fewest != misses {
			t.Errorf("%d misses worked out, the fewest possible are %d (%v)", misses, fewest, err)
		}
	}
}

// readHistory parses "name: value" lines, then a table with one row per step. A row that ends after
// its list is not replayed.
func readHistory(t *testing.T, path string) history {
	t.Helper()
	f, err := os.Open(path)
	fatal.If(t, err)
	defer f.Close()
	h := history{drawn: drawn{stream: new(trace.Stream), hasRanks: true,
		config: referee.Config{Local: 1, BlockTokens: 1}}}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "", line[0] == '#', strings.HasPrefix(line, "step"):
		case strings.Contains(line, "|"):
			err = h.row(strings.Split(line, "|"))
		default:
			name, value, _ := strings.Cut(line, ": ")
			err = h.set(name, value)
		}
		if err != nil {
			t.Fatalf("%s:%d: %v", path, n, err)
		}
	}
	h.config.Candidates = max(h.config.Candidates, h.config.TopK)
	return h
}

func (h *history) set(name, value string) error {
	c := &h.config
	switch name {
	case "policy":
		c.Policy = value
		return nil
	case "ranks":
		h.hasRanks = value != "no"
		return nil
	case "warmup":
		return parseWarmup(value, &c.Warmup)
	case "prompt":
		n, err := strconv.Atoi(value)
		h.stream.Reset(trace.StreamInfo{PromptLen: int32(n)})
		return err
	}
	field, known := map[string]*int{"topk": &c.TopK, "candidates": &c.Candidates, "capacity": &c.Capacity,
		"sink": &c.Sink, "local": &c.Local, "block_tokens": &c.BlockTokens}[name]
	if !known {
		return fmt.Errorf("unknown setting %q", name)
	}
	n, err := strconv.Atoi(value)
	*field = n
	return err
}

func parseWarmup(text string, w *referee.Warmup) (err error) {
	kind, number, _ := strings.Cut(text, " ")
	kinds := map[string]referee.WarmupKind{"run": referee.WarmRun, "importance": referee.WarmImportance, "staging": referee.WarmStaging}
	w.Kind = kinds[kind]
	if number != "" {
		w.Windows, err = strconv.Atoi(number)
	}
	return err
}

// row appends a step to the stream and, if it is replayed, its expected counts.
func (h *history) row(cells []string) error {
	step, err := strconv.Atoi(strings.TrimSpace(cells[0]))
	if err != nil {
		return err
	}
	var columns [8][]int32
	var scores []float32
	for i := 1; i < len(cells); i++ {
		for _, word := range strings.Fields(cells[i]) {
			block, score, scored := strings.Cut(word, ":")
			n, err := strconv.Atoi(block)
			if err != nil {
				return err
			}
			columns[i] = append(columns[i], int32(n))
			if v, err := strconv.ParseFloat(score, 32); err == nil {
				scores = append(scores, float32(v))
			} else if scored {
				return err
			}
		}
	}
	h.stream.Append(trace.Row{Step: int32(step), Indices: columns[1], Scores: scores})
	switch len(cells) {
	case 2:
		return nil
	case 8:
		h.want = append(h.want, referee.StepCounts{Step: int32(step), Born: columns[2], Hit: columns[3],
			Missed: columns[4], Victims: columns[5], KeptOut: columns[6], Residents: columns[7]})
		return nil
	}
	return fmt.Errorf("%d columns, expected 2 or 8", len(cells))
}
