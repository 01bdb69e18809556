package longbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/internal/fatal"
)

// The real rows, uncut: the prompt is the published text around the context, the
// references are the row's own.
func TestExcerpt(t *testing.T) {
	rows, m, err := collect(Options{Tokenizer: builtin(t)}, excerpt)
	fatal.If(t, err)
	want := originals(t)
	if len(rows) != 3 || len(want) != 3 {
		t.Fatalf("%d prompts of %d rows, expected 3", len(rows), len(want))
	}
	for i, r := range rows {
		input := "You are given several news passages. Write a one-page summary of all news. \n\nNews:\n" + want[i]["context"].(string) +
			"\n\nNow, write a one-page summary of all the news.\n\nSummary:"
		if r.Input != input {
			t.Errorf("row %d: input is %.200q …", i, r.Input)
		}
		if answer := want[i]["answers"].([]any)[0].(string); !slices.Equal(r.Outputs, []string{answer}) {
			t.Errorf("row %d: outputs %q, want %q", i, r.Outputs, answer)
		}
		if id := "multi_news-" + want[i]["_id"].(string); r.ID != id || r.Task != "multi_news" || r.Index != i {
			t.Errorf("row %d: id %s, task %s, index %d", i, r.ID, r.Task, r.Index)
		}
		if n := len(builtin(t).Encode(input)) + 512; r.Length != n || r.MaxNewTokens != 512 || !r.ChatTemplate {
			t.Errorf("row %d: length %d, new %d, chat %v, want %d, 512, true", i, r.Length, r.MaxNewTokens, r.ChatTemplate, n)
		}
		if r.MaxLength != 0 || r.Tokenizer != "cl100k_base" {
			t.Errorf("row %d: cut to %d by %q, expected uncut", i, r.MaxLength, r.Tokenizer)
		}
		// The benchmark's own length is the words of context, input and answers.
		words := len(strings.Fields(want[i]["context"].(string) + " " + want[i]["answers"].([]any)[0].(string)))
		if l := int(want[i]["length"].(float64)); l != words {
			t.Errorf("row %d: the file says %d words, it has %d", i, l, words)
		}
	}
	if m.Benchmark != "longbench" || m.Tokenizer != "cl100k_base" || len(m.Sources) != 1 || m.Sources[0].Name != "multi_news.jsonl.gz" {
		t.Errorf("manifest %+v", m)
	}
	raw, err := os.ReadFile(excerpt)
	fatal.If(t, err)
	if m.Sources[0].Digest != prompts.Digest(raw) {
		t.Errorf("digest of the source is %s, want %s", m.Sources[0].Digest, prompts.Digest(raw))
	}
}

// Cut prompts keep both instructions and have at most length tokens.
func TestExcerptCut(t *testing.T) {
	tok := builtin(t)
	whole, _, err := collect(Options{Tokenizer: tok}, excerpt)
	fatal.If(t, err)
	rows, _, err := collect(Options{Tokenizer: tok, Length: 801}, excerpt)
	fatal.If(t, err)
	r := rows[0]
	ids := tok.Encode(whole[0].Input)
	head, _ := tok.Decode(ids[:400])
	tail, _ := tok.Decode(ids[len(ids)-400:])
	if r.Input != head+tail || r.Length != len(tok.Encode(head+tail))+512 || r.MaxLength != 801 {
		t.Errorf("cut to 801 tokens: length %d, at most %d, input %.80q … %q", r.Length, r.MaxLength, r.Input, r.Input[len(r.Input)-80:])
	}
	if rows[1].Input != whole[1].Input {
		t.Error("a prompt that is short enough was changed")
	}
}

func TestEverySetFromZip(t *testing.T) {
	files := map[string]string{"data/README.md": "no set", "__MACOSX/data/._lcc.jsonl": "no set"}
	for _, name := range taskNames() {
		set := strings.TrimSuffix(name, "_e")
		files["data/"+name+".jsonl"] = row("1", set, "context one") + row("2", set, "context two")
	}
	zip := writeZip(t, files)
	rows, m, err := collect(Options{Tokenizer: runes{}}, zip)
	fatal.If(t, err)
	if len(rows) != 42 || len(m.Tasks) != 21 {
		t.Fatalf("%d prompts of %d tasks, want 42 of 21", len(rows), len(m.Tasks))
	}
	for i, s := range Sets() {
		r := rows[2*i]
		if r.Task != s.Name || r.MaxNewTokens != s.MaxNewTokens || r.ChatTemplate != s.ChatTemplate {
			t.Errorf("prompt %d: %s, %d new tokens, chat %v, want %+v", 2*i, r.Task, r.MaxNewTokens, r.ChatTemplate, s)
		}
		if !strings.Contains(r.Input, "context one") || strings.Contains(r.Input, "{") {
			t.Errorf("%s: filled badly: %q", s.Name, r.Input)
		}
	}
	e, m, err := collect(Options{Tokenizer: runes{}, Tasks: []string{AllE}}, zip)
	if err != nil || len(e) != 26 || len(m.Tasks) != 13 || m.Tasks[0].Name != "qasper_e" {
		t.Fatalf("LongBench-E: %d prompts, %+v, %v; want 26 of 13", len(e), m, err)
	}
	some, _, err := collect(Options{Tokenizer: runes{}, Tasks: []string{"lcc", "trec_e", "lcc"}}, zip)
	if want := []string{"lcc-1", "lcc-2", "trec_e-1", "trec_e-2"}; err != nil || !slices.Equal(ids(some), want) {
		t.Errorf("two sets by name: %v, %v, want %v", ids(some), err, want)
	}
}

// A folder of files, and a folder with data below it, give the same rows.
func TestFolder(t *testing.T) {
	folder := t.TempDir()
	for _, p := range []string{"lcc.jsonl", filepath.Join("data", "trec_e.jsonl"), "notes.txt"} {
		p = filepath.Join(folder, p)
		fatal.If(t, os.MkdirAll(filepath.Dir(p), 0o777))
		set := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(p), ".jsonl"), "_e")
		fatal.If(t, os.WriteFile(p, []byte(row("7", set, "c")), 0o666))
	}
	rows, _, err := collect(Options{Tokenizer: runes{}, Tasks: []string{prompts.All, AllE}}, folder)
	if want := []string{"lcc-7", "trec_e-7"}; err != nil || !slices.Equal(ids(rows), want) {
		t.Errorf("%v, %v, want %v", ids(rows), err, want)
	}
	packed := t.TempDir()
	text, err := os.ReadFile(writeZip(t, map[string]string{"data/lcc.jsonl": row("7", "lcc", "c")}))
	if err == nil {
		err = os.WriteFile(filepath.Join(packed, "data.zip"), text, 0o666)
	}
	fatal.If(t, err)
	if rows, _, err = collect(Options{Tokenizer: runes{}}, packed); err != nil || len(rows) != 1 {
		t.Errorf("folder with data.zip: %v, %v", ids(rows), err)
	}
}

// If a name does not identify a file, its content does.
func TestNamelessFile(t *testing.T) {
	path := write(t, "some.txt", row("1", "samsum", "c"))
	rows, _, err := collect(Options{Tokenizer: runes{}}, path)
	if err != nil || len(rows) != 1 || rows[0].Task != "samsum" || rows[0].ChatTemplate {
		t.Errorf("%v, %v", rows, err)
	}
}

func TestBadInput(t *testing.T) {
	good := row("1", "lcc", "c")
	v2, err := os.ReadFile("testdata/made_v2.json")
	fatal.If(t, err)
	without := func(key string) string { return strings.Replace(good, `"`+key+`"`, `"x"`, 1) }
	for name, c := range map[string]struct {
		source string
		tasks  []string
		want   string
	}{
		"missing":          {source: filepath.Join(t.TempDir(), "no.jsonl"), want: "no such file"},
		"empty":            {source: write(t, "lcc.jsonl", ""), want: "no rows"},
		"empty array":      {source: write(t, "lcc.jsonl", " [ ]\n"), want: "no rows"},
		"blank":            {source: write(t, "lcc.jsonl", "\n \n"), want: "no rows"},
		"not JSON":         {source: write(t, "lcc.jsonl", "hello"), want: `lcc.jsonl:1: begins with 'h'`},
		"not JSON, line 3": {source: write(t, "lcc.jsonl", "\n \nhello"), want: `lcc.jsonl:3: begins with 'h'`},
		"cut off":          {source: write(t, "lcc.jsonl", good+good[:50]), want: "lcc.jsonl:2: row 2: the file ends inside a row"},
		"broken line":      {source: write(t, "lcc.jsonl", good+"{\"a\": }\n"+good), want: "lcc.jsonl:2: row 2: invalid character"},
		"no context":       {source: write(t, "lcc.jsonl", good+without("context")), want: `lcc.jsonl:2: row 2: no "context"`},
		"no answers":       {source: write(t, "lcc.jsonl", without("answers")), want: `no "answers"`},
		"answers":          {source: write(t, "lcc.jsonl", strings.Replace(good, `["a"]`, `"a"`, 1)), want: `"answers": json`},
		"empty answers":    {source: write(t, "lcc.jsonl", strings.Replace(good, `["a"]`, `[]`, 1)), want: "answers is empty"},
		"blank answers":    {source: write(t, "lcc.jsonl", strings.Replace(good, `["a"]`, `["", " "]`, 1)), want: "answers is empty"},
		"blank context":    {source: write(t, "lcc.jsonl", row("1", "lcc", " \n")), want: "lcc.jsonl:1: row 1: context is empty"},
		"array":            {source: write(t, "lcc.jsonl", good+"[1]\n"), want: "lcc.jsonl:2: row 2: expected a JSON object"},
		"no UTF-8":         {source: write(t, "lcc.jsonl", strings.Replace(good, `"c"`, "\"\xff\"", 1)), want: "not UTF-8"},
		"other set":        {source: write(t, "lcc.jsonl", good+row("2", "trec", "c")), want: `lcc.jsonl:2: row 2: dataset is "trec", expected "lcc"`},
		"unknown dataset":  {source: write(t, "some.jsonl", row("1", "hotpotca", "c")), want: `did you mean hotpotqa`},
		"id twice":         {source: write(t, "lcc.jsonl", good+row("2", "lcc", "c")+good), want: `lcc.jsonl:3: row 3: _id "1" is also in row 1`},
		"v2":               {source: write(t, "data.json", string(v2)), want: "make longbench-v2"},
		"unknown task":     {source: excerpt, tasks: []string{"multinew"}, want: `unknown set "multinew", did you mean multi_news`},
		"no E":             {source: excerpt, tasks: []string{"musique_e"}, want: `unknown set "musique_e"`},
		"absent set":       {source: excerpt, tasks: []string{"lcc"}, want: "set lcc is not in the sources, which have multi_news"},
		"absent E":         {source: excerpt, tasks: []string{AllE}, want: "the sources have none of these sets, only multi_news"},
		"empty folder":     {source: t.TempDir(), want: "no set of LongBench in this folder"},
		"empty zip":        {source: writeZip(t, map[string]string{"a.txt": "a"}), want: "no set of LongBench in this zip"},
		"broken zip":       {source: write(t, "data.zip", "PK\x03\x04 and no more"), want: "data.zip: zip"},
		"broken gzip":      {source: write(t, "lcc.jsonl", "\x1f\x8b and no more"), want: "lcc.jsonl: the gzip data is damaged"},
		"more":             {source: write(t, "lcc.jsonl", "["+good+"] 1"), want: "text after the last row"},
		"open array":       {source: write(t, "lcc.jsonl", "["+good+"\n\n"), want: "lcc.jsonl:4: the file ends inside the array"},
	} {
		_, _, err := collect(Options{Tokenizer: runes{}, Tasks: c.tasks}, c.source)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
	if _, _, err := collect(Options{Tokenizer: runes{}}, excerpt, write(t, "multi_news.jsonl", good)); err == nil || !strings.Contains(err.Error(), "two sources") {
		t.Errorf("a set twice: %v", err)
	}
	var bad *RowError
	_, _, err = collect(Options{Tokenizer: runes{}}, write(t, "lcc.jsonl", good+row("2", "lcc", "c")+without("_id")))
	if !errors.As(err, &bad) || bad.Line != 3 || bad.Row != 3 {
		t.Errorf("%v, want a RowError of line 3", err)
	}
}

func TestBadOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"samples -1":                  {Samples: -1, Tokenizer: runes{}},
		"length -1":                   {Length: -1, Tokenizer: runes{}},
		"no tokenizer":                {},
		"too short for multi_news":    {Length: 100, Tokenizer: runes{}},
		"instructions alone are 141 ": {Length: 141, Tokenizer: runes{}},
	} {
		if _, _, err := collect(o, excerpt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, _, err := collect(Options{Tokenizer: runes{}}); err == nil {
		t.Error("no sources: no error")
	}
}

func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	_, err := Make(ctx, Options{Tokenizer: runes{}}, []string{excerpt}, func(*prompts.Row) error {
		n++
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || n != 1 {
		t.Errorf("%d rows after the interrupt, %v", n, err)
	}
}

// The first or the drawn rows are taken, and a bad row is found in both cases.
func TestSamples(t *testing.T) {
	var text strings.Builder
	for i := range 50 {
		text.WriteString(row(fmt.Sprint(i), "lcc", "c"))
	}
	path := write(t, "lcc.jsonl", text.String())
	first, _, err := collect(Options{Tokenizer: runes{}, Samples: 3}, path)
	if want := []string{"lcc-0", "lcc-1", "lcc-2"}; err != nil || !slices.Equal(ids(first), want) {
		t.Errorf("first three: %v, %v", ids(first), err)
	}
	seed := uint64(1)
	o := Options{Tokenizer: runes{}, Samples: 5, Seed: &seed}
	drawn, m, err := collect(o, path)
	if err != nil || len(drawn) != 5 || m.Seed != 1 || drawn[0].Seed != 1 || m.Tasks[0].Rows != 5 {
		t.Fatalf("drawn: %v, %v", ids(drawn), err)
	}
	if !slices.IsSortedFunc(drawn, func(a, b *prompts.Row) int { return a.Index - b.Index }) {
		t.Errorf("not in the order of the file: %v", ids(drawn))
	}
	o.Samples = 6
	more, _, err := collect(o, path)
	if err != nil || len(more) != 6 {
		t.Fatal(err)
	}
	for _, id := range ids(drawn) {
		if !slices.Contains(ids(more), id) {
			t.Errorf("%s is among five but not among six", id)
		}
	}
	seed = 2
	if other, _, _ := collect(o, path); slices.Equal(ids(other), ids(more)) {
		t.Error("another seed draws the same rows")
	}
	path = write(t, "lcc.jsonl", text.String()+"{}\n")
	if _, _, err := collect(Options{Tokenizer: runes{}, Samples: 1}, path); err == nil {
		t.Error("a bad row behind the samples is not seen")
	}
}

// The first eight bytes of the SHA-256 of the seed, the task, a zero byte and the row's id draw the
// rows. The same draw gives the same rows again.
func TestDraw(t *testing.T) {
	for id, want := range map[[2]string]uint64{{"trec", "a1"}: 7265280609169878096, {"tre", "ca1"}: 10596091212818157346} {
		if got := draw(1, id[0], id[1]); got != want {
			t.Errorf("task %s, row %s: %d, want %d", id[0], id[1], got, want)
		}
	}
}
