package render

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// titles returns the lines of a text above the column names of a table.
func titles(text string) (found []string) {
	lines := strings.Split("\n"+text, "\n")
	for i := range lines[3:] {
		if lines[i] == "" && strings.HasPrefix(lines[i+3], "──") {
			found = append(found, lines[i+1])
		}
	}
	return found
}

// Every title of a board states the labels, with their share if only some traces have them. Every
// line of a trace states its own labels.
func TestBoardTitlesStateLabels(t *testing.T) {
	b := mustBoard(t, append(rowstest.LabelledRows(), rowstest.Row("b", "lossy", "1x", 20)))
	b.Time = &board.TimeModel{Batch: 8, Labels: result.Labels{result.LabelFitted}}
	var counts bytes.Buffer
	if err := Board(b, Whole).Text(&counts); err != nil || strings.Contains(counts.String(), result.LabelFitted) {
		t.Errorf("a board without a time states the label of times: %v\n%s", err, &counts)
	}
	b.Tables[0].Ranked[0].Pooled.TPOT = rowstest.Ptr(0.01)
	const share = "synthetic trace: 1 of 2 traces, 1 request: 1 of 2 traces"
	for name, key := range map[string]*board.Key{"misses": board.MissesKey, "time": board.TimeKey} {
		b.Tables[0].Key = key
		var text, markdown bytes.Buffer
		fatal.If(t, Board(b, everything).Text(&text))
		fatal.If(t, Board(b, everything).Markdown(&markdown))
		found := titles(text.String())
		if len(found) < 5 {
			t.Errorf("%s: %d titles: %q", name, len(found), found)
		}
		for _, title := range found {
			want := "[" + share
			switch {
			case strings.Contains(title, " on a"):
				want = "[synthetic trace, 1 request] "
			case strings.Contains(title, " on b"):
				want = strings.SplitN(title, " on b", 2)[0]
			}
			if !strings.HasPrefix(title, want) {
				t.Errorf("%s: title %q, expected %q before it", name, title, want)
			}
			if !strings.Contains(markdown.String(), "## "+printable.Markdown(title)+"\n") {
				t.Errorf("%s: Markdown lacks the title %q", name, title)
			}
		}
		first := map[string]string{"misses": ", TPOT: fitted constant] ", "time": ", fitted constant] "}[name]
		if !strings.HasPrefix(found[0], "["+share+first) {
			t.Errorf("%s: title %q lacks the label of times", name, found[0])
		}
		if !strings.Contains(text.String(), " a (synthetic trace, 1 request) ") || strings.Contains(text.String(), "b (synthetic") {
			t.Errorf("%s: the traces are not marked\n%s", name, &text)
		}
	}
}

func TestBoardFilesStateLabels(t *testing.T) {
	b := mustBoard(t, rowstest.LabelledRows())
	var out, picture bytes.Buffer
	fatal.If(t, text.WriteJSON(&out, b))
	var back board.Board
	fatal.If(t, json.Unmarshal(out.Bytes(), &back))
	if got := back.Labels.String(); got != "synthetic trace: 1 of 2 traces, 1 request: 1 of 2 traces" {
		t.Errorf("the board has the labels %q", got)
	}
	if got := back.Traces[0].Labels.String() + "; " + back.Traces[1].Labels.String(); got != "synthetic trace, 1 request; " {
		t.Errorf("the traces have the labels %q", got)
	}
	out.Reset()
	fatal.If(t, CSV(&out, b))
	lines, err := csv.NewReader(&out).ReadAll()
	fatal.If(t, err)
	at, trace := slices.Index(lines[0], "labels"), slices.Index(lines[0], "trace")
	for _, line := range lines[1:] {
		want := map[string]string{"": back.Labels.String(), "a": "synthetic trace, 1 request", "b": ""}[line[trace]]
		if line[at] != want {
			t.Errorf("CSV: labels %q of trace %q, expected %q", line[at], line[trace], want)
		}
	}
	fatal.If(t, Curves(&picture, b, "a", View{}))
	for _, want := range []string{"<title>[synthetic trace, 1 request] Misses over capacity: a ", "222222\">[synthetic trace, 1 request] Misses over capacity: a "} {
		if !strings.Contains(picture.String(), want) {
			t.Errorf("no %q in the picture", want)
		}
	}
}

// A comparison states the labels of its places, and that one side is an oracle.
func TestComparisonStatesLabels(t *testing.T) {
	c, err := board.Compare(rowstest.LabelledRows(), "p", "opt", board.Options{})
	fatal.If(t, err)
	var text bytes.Buffer
	fatal.If(t, Comparison(c, Whole).Text(&text))
	if want := "[synthetic trace: 1 of 2 traces, 1 request: 1 of 2 traces, oracle policy] A = p against B = opt\n"; !strings.HasPrefix(text.String(), want) {
		t.Errorf("%s\nexpected the title %s", &text, want)
	}
	if !strings.Contains(text.String(), " a (synthetic trace, 1 request) ") {
		t.Errorf("the places of trace a are not marked\n%s", &text)
	}
	if got := c.Groups[0].Cells[0].Labels.String(); got != "synthetic trace, 1 request, oracle policy" {
		t.Errorf("the first place has the labels %q", got)
	}
}
