package render

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// Lines of narrow tables have at most 100 columns, and at most six notes follow each table. Names
// of policies and traces stay whole.
func TestNarrowViewFits(t *testing.T) {
	rows := rowstest.Synthetic()
	const long = "a-trace-with-a-name-of-more-than-fifty-characters"
	for i := range rows {
		rows[i].Trace = strings.Replace(rows[i].Trace, "synthetic", long, 1)
		rows[i].Warnings = []string{strings.Repeat("a long warning ", 20)}
	}
	b := mustBoard(t, rows)
	compared, err := board.Compare(rows, "s3fifo", "lru", board.Options{})
	fatal.If(t, err)
	for name, write := range map[string]func(io.Writer) error{
		"board": Board(b, View{}).Text, "all notes": Board(b, View{Notes: true}).Text, "comparison": Comparison(compared, View{}).Text,
	} {
		var out bytes.Buffer
		fatal.If(t, write(&out))
		if strings.Contains(out.String(), "a-trace") != strings.Contains(out.String(), long) || name == "comparison" && strings.Count(out.String(), long) < 4 {
			t.Errorf("%s: names of traces are cut:\n%s", name, out.String())
		}
		notes := 0
		for line := range strings.SplitSeq(out.String(), "\n") {
			if n := utf8.RuneCountInString(line); n > 100 {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
			if notes++; !strings.HasPrefix(line, "  ") {
				notes = 0
			}
			if notes > 6 && name != "all notes" {
				t.Errorf("%s: more than six notes: %s", name, line)
			}
		}
	}
}

func TestPolicyNames(t *testing.T) {
	usual := func(name string) string {
		return map[string]string{"lrfu": "lrfu:gamma=0.95,history=keep", "window": "window:1"}[name]
	}
	policies := []string{"lrfu:gamma=0.95,history=keep", "lrfu:gamma=0.5,history=keep", "lru", "window:1", "mine:a=1"}
	for _, c := range []struct {
		view View
		want string
	}{
		{View{Defaults: usual}, "lrfu lrfu:gamma=0.5 lru window:1 mine:a=1"},
		{View{}, strings.Join(policies, " ")},
		{View{Wide: true, Defaults: usual}, strings.Join(policies, " ")},
	} {
		names, got := c.view.PolicyNames(policies), ""
		for _, p := range policies {
			got += " " + names[p]
		}
		if got[1:] != c.want {
			t.Errorf("%+v: %q, expected %q", c.view, got[1:], c.want)
		}
	}
	// Options in another order are another policy with the same defaults left out.
	if names := (View{Defaults: usual}).PolicyNames([]string{"lrfu:history=keep", "lrfu:gamma=0.95"}); names["lrfu:history=keep"] != "lrfu:history=keep" {
		t.Errorf("two policies share a name: %v", names)
	}
}

func TestFirstSentences(t *testing.T) {
	for note, want := range map[string]string{
		"Short. Whole": "Short. Whole",
		"The first sentence. The second one is too long": "The first sentence",
		"One. Two. Three is much longer than that":       "One. Two",
		"A list: of one, two, three, four and five":      "A list: of one, two, …",
	} {
		if got := firstSentences(note, 24); got != want {
			t.Errorf("%q: %q, expected %q", note, got, want)
		}
	}
}

// The picture has a row for every ranked policy. One that is far worse is named at the edge.
func TestRankingPlot(t *testing.T) {
	rows := rowstest.HandRows()
	for _, at := range []string{"1x", "2x"} {
		rows = append(rows, rowstest.Row("a", "far", at, 100))
	}
	rows = append(rows, rowstest.Row("b", "far", "1x", 100))
	b := mustBoard(t, rows)
	var light, again, dark bytes.Buffer
	for _, err := range []error{RankingPlot(&light, b, View{}, false), RankingPlot(&again, b, View{}, false), RankingPlot(&dark, b, View{}, true)} {
		fatal.If(t, err)
	}
	if light.String() != again.String() || light.String() == dark.String() {
		t.Error("one picture is drawn in two ways, or two in one")
	}
	for _, want := range []string{"<title>Exact policies: misses ÷ OPT", ">lru<", ">1.31<", ">OPT<", ">5.00<"} {
		if !strings.Contains(light.String(), want) {
			t.Errorf("no %q in the picture", want)
		}
	}
	for dec := xml.NewDecoder(&light); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := RankingPlot(io.Discard, &board.Board{}, View{}, false); err == nil {
		t.Error("a board without a ranking has a picture")
	}
}
