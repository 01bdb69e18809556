package render

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// handTimer takes a second per cell, and another for every hit. Times therefore order the policies
// in the reverse order of misses.
type handTimer struct{ without string }

func (h handTimer) TPOT(r *result.Row) (float64, error) {
	if r.Policy == h.without || h.without == "all" {
		return 0, errors.New("no time")
	}
	return 1 + float64(r.Hits), nil
}

func (handTimer) Model() board.TimeModel {
	return board.TimeModel{Hardware: "abacus", Model: "tiny", Schedule: "sequential", Batch: 4, Assumptions: []string{"hits take a second"}}
}

func timedBoard(t *testing.T, h handTimer, by string) *board.Board {
	t.Helper()
	b, err := board.NewBoard(rowstest.HandRows(), board.Options{Timer: h, By: by})
	fatal.If(t, err)
	return b
}

// Views by misses and by time show the times, in milliseconds, with their assumptions.
func TestTimesAreShown(t *testing.T) {
	for by, want := range map[string][]string{
		board.ByMisses: {"H2D/step      TPOT", "68", "TPOT is modelled: tiny on abacus, batch 4, sequential", "TPOT: hits take a second"},
		// lru: 59.9 s, at batch 4 a fifteenth of a token a second; OPT takes 61, 81 and 91 s: 76.6.
		board.ByTime: {"modelled time per output token", "÷ OPT's", " 1      lru     59900 ms", "0.782", "0.0668", "TPOT: hits take a second"},
	} {
		var out bytes.Buffer
		fatal.If(t, Board(timedBoard(t, handTimer{}, by), Whole).Text(&out))
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("by %s the board lacks %q:\n%s", by, text, out.String())
			}
		}
	}
}

// Times are compared with OPT's, which is not the last of the bounds.
func TestTimesBesideOpt(t *testing.T) {
	rows := append(rowstest.HandRows(), rowstest.Row("a", "opt-bypass", "1x", 30), rowstest.Row("a", "opt-bypass", "2x", 15), rowstest.Row("b", "opt-bypass", "1x", 6))
	for i := range rows {
		if rows[i].Policy == "opt-bypass" {
			rows[i].Offline, rows[i].Bypasses = true, true
		}
	}
	b, err := board.NewBoard(rows, board.Options{Timer: handTimer{}, By: board.ByTime})
	fatal.If(t, err)
	var out bytes.Buffer
	fatal.If(t, Board(b, Whole).Text(&out))
	_, times, _ := strings.Cut(out.String(), "modelled time per output token")
	for line := range strings.Lines(times) {
		if strings.Contains(line, " opt  ") {
			if strings.Count(line, " 1.00 ") != 2 { // times, and misses
				t.Errorf("OPT's time is not its own: %s", line)
			}
			return
		}
	}
	t.Errorf("no line of OPT in\n%s", times)
}

// Policies without capacity have times too.
func TestTimesOfWindows(t *testing.T) {
	b, err := board.NewBoard(rowstest.RenderRows(), board.Options{Timer: handTimer{}})
	fatal.If(t, err)
	var out bytes.Buffer
	fatal.If(t, Board(b, Whole).Text(&out))
	// window:2 misses 30 of 100: 71 s.
	if _, windows, _ := strings.Cut(out.String(), "Policies without capacity"); *b.Windows[0].Figures.TPOT != 71 || !strings.Contains(windows, "71000 ms") {
		t.Errorf("the windows' times are missing:\n%s", out.String())
	}
}

// A policy without time is shown without it and not ranked by time, with the reason.
func TestTimesThatAreMissing(t *testing.T) {
	b := timedBoard(t, handTimer{without: "p"}, "")
	if b.Tables[0].Ranked[0].Pooled.TPOT != nil || !strings.Contains(strings.Join(b.Notes, "\n"), "no modelled TPOT: a, b: no time") {
		t.Errorf("p has a time, or the notes do not say why not: %q", b.Notes)
	}
	table := timedBoard(t, handTimer{without: "p"}, board.ByTime).Tables[0]
	if len(table.Ranked) != 0 || len(table.Unranked) != 2 { // lru would be the only ranked policy
		t.Errorf("%+v is ranked", table.Ranked)
	}
	rowstest.WantNote(t, table.Notes, "p is not ranked: a cell has no modelled time")
	rowstest.WantNote(t, table.Notes, "lru is not ranked: no other policy has its cells")
	if b := timedBoard(t, handTimer{without: "all"}, ""); b.Time != nil || timed(&b.Tables[0]) {
		t.Errorf("times %+v, expected none", b.Time)
	}
	if _, err := board.NewBoard(rowstest.HandRows(), board.Options{Timer: handTimer{without: "all"}, By: board.ByTime}); err == nil || !strings.Contains(err.Error(), "nothing to rank by time: no modelled TPOT: a, b: no time") {
		t.Errorf("error %v", err)
	}
}
