package longbench

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/internal/fatal"
)

// madeV2 has the schema of v2's data.json. Its questions and contexts were made for tests.
const madeV2 = "testdata/made_v2.json"

func collectV2(o Options, source string) (rows []*prompts.Row, m *prompts.Manifest, err error) {
	m, err = MakeV2(context.Background(), o, source, func(r *prompts.Row) error {
		rows = append(rows, r)
		return nil
	})
	return rows, m, err
}

func readV2(t testing.TB) (rows []map[string]string) {
	t.Helper()
	text, err := os.ReadFile(madeV2)
	if err == nil {
		err = json.Unmarshal(text, &rows)
	}
	fatal.If(t, err)
	return rows
}

func TestV2(t *testing.T) {
	rows, m, err := collectV2(Options{Tokenizer: builtin(t)}, madeV2)
	if err != nil || len(rows) != 3 || len(m.Tasks) != 6 {
		t.Fatalf("%d prompts, %+v, %v", len(rows), m, err)
	}
	for i, r := range rows {
		if r.Index != i {
			t.Errorf("row %d has index %d", i, r.Index)
		}
	}
	q := readV2(t)[1] // question and context have space around them, which is removed
	want := "Please read the following text and answer the question below.\n\n<text>\n" + strings.TrimSpace(q["context"]) +
		"\n</text>\n\nWhat is the correct answer to this question: Why was the printing of the book delayed?" +
		"\nChoices:\n(A) For want of money\n(B) To avoid disputes\n(C) The press was at war\n(D) It was lost" +
		"\n\nFormat your response as follows: \"The correct answer is (insert answer here)\"."
	r := rows[1]
	if r.Input != want {
		t.Errorf("input is %q, want %q", r.Input, want)
	}
	if !slices.Equal(r.Outputs, []string{"B"}) || r.Task != "single_document_qa" || r.MaxNewTokens != 128 || !r.ChatTemplate || r.Benchmark != "longbench-v2" {
		t.Errorf("row %+v", r)
	}
	// As in pred.py, a placeholder in the question is filled with the choice.
	if want := "this question: Which angle equals the angle of incidence? That of reflexion\n"; !strings.Contains(rows[2].Input, want) {
		t.Errorf("no %q in %q", want, rows[2].Input)
	}
}

func TestV2Lines(t *testing.T) {
	var lines strings.Builder
	for _, q := range readV2(t) {
		text, _ := json.Marshal(q)
		lines.Write(append(text, '\n'))
	}
	folder := filepath.Dir(write(t, "data.json", lines.String()))
	want, _, err := collectV2(Options{Tokenizer: runes{}}, madeV2)
	fatal.If(t, err)
	got, _, err := collectV2(Options{Tokenizer: runes{}}, folder)
	if err != nil || len(got) != len(want) {
		t.Fatal(len(got), err)
	}
	for i := range got {
		if got[i].Input != want[i].Input || got[i].ID != want[i].ID {
			t.Errorf("row %d differs between array and lines", i)
		}
	}
}

func TestV2Choice(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Tasks: []string{"long_in_context_learning"}}, "3"},
		{Options{Tasks: []string{prompts.All}}, "123"},
		{Options{Difficulty: "hard"}, "23"},
		{Options{Context: "short"}, "12"},
		{Options{Context: "short", Difficulty: "hard"}, "2"},
		{Options{Samples: 1}, "13"}, // one of each domain
	} {
		c.o.Tokenizer = runes{}
		rows, _, err := collectV2(c.o, madeV2)
		got := ""
		for _, r := range rows {
			got += r.ID[len(r.ID)-1:]
		}
		if err != nil || got != c.want {
			t.Errorf("%+v: rows %s, %v, want %s", c.o, got, err, c.want)
		}
	}
}

func TestV2BadInput(t *testing.T) {
	change := func(key, value string) string {
		rows := readV2(t)
		rows[1][key] = value
		text, _ := json.MarshalIndent(rows, "", " ")
		return write(t, "data.json", string(text))
	}
	text, err := os.ReadFile(madeV2)
	fatal.If(t, err)
	for name, c := range map[string]struct{ source, want string }{
		"missing":    {"testdata/no.json", "no such file"},
		"folder":     {t.TempDir(), "no data.json in the folder"},
		"answer":     {change("answer", "E"), `data.json:16: row 2: answer "E", expected A, B, C or D`},
		"difficulty": {change("difficulty", "middling"), `difficulty "middling"`},
		"length":     {change("length", "12"), `length "12"`},
		"domain":     {change("domain", "Cooking"), `domain "Cooking"`},
		"question":   {change("question", ""), "context or question is empty"},
		"context":    {change("context", " \n"), "context or question is empty"},
		"no id":      {change("_id", ""), "_id is empty"},
		"twice":      {change("_id", readV2(t)[0]["_id"]), "is also in row 1"},
		"v1":         {excerpt, "`kvreplay datasets make longbench`"},
		"cut off":    {write(t, "data.json", string(text[:3000])), "data.json:16: row 2: the file ends inside a row"},
		"no choice":  {write(t, "data.json", strings.Replace(string(text), "choice_C", "choice_E", 1)), `data.json:2: row 1: no "choice_C"`},
	} {
		if _, _, err := collectV2(Options{Tokenizer: runes{}}, c.source); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
	for want, o := range map[string]Options{
		`unknown domain "single_doc_qa", did you mean`: {Tasks: []string{"single_doc_qa"}},
		`unknown difficulty "esy"`:                     {Difficulty: "esy"},
		`unknown context "shrt"`:                       {Context: "shrt"},
		"too short for longbench-v2":                   {Length: 200},
	} {
		o.Tokenizer = runes{}
		if _, _, err := collectV2(o, madeV2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// Python's strip takes the four separators of ASCII for space, and no other control character.
func TestStrip(t *testing.T) {
	if got := strip("\x1c\x1d \x1b a \x1f b\x20\x1e\x1f\n"); got != "\x1b a \x1f b" {
		t.Errorf("%q", got)
	}
}
