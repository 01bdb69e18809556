package ruler

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/internal/fatal"
)

// TestOriginals checks that the user's files replace the built-in texts, and that the manifest has
// their names and digests.
func TestOriginals(t *testing.T) {
	essay := filepath.Join(t.TempDir(), "PaulGrahamEssays.json")
	content := []byte(`{"text": "One word. ` + strings.Repeat("Another sentence of mine is here. ", 50) + `"}`)
	fatal.If(t, os.WriteFile(essay, content, 0o644))
	o := options(1500, 1, "niah_single_2", "qa_1", "qa_2")
	o.Essays, o.Squad, o.HotpotQA = essay, "testdata/squad.json", "testdata/hotpotqa.json"
	rows, m := mustMake(t, o)
	if !strings.Contains(rows[0].Input, "One word. Another sentence of mine is here.") || rows[0].Substitute != "" {
		t.Errorf("essay: %.300q, substitute %q", rows[0].Input, rows[0].Substitute)
	}
	if q := rows[1]; !strings.Contains(q.Input, "Question: Where does the Danube rise?") || !slices.Equal(q.Outputs, []string{"the Black Forest", "Black Forest"}) || q.Substitute != "" {
		t.Errorf("SQuAD: %+v", q)
	}
	if q := rows[2]; !strings.Contains(q.Input, "\nRhine\nThe Rhine is a river. It flows into the North Sea.\n") || !slices.Equal(q.Outputs, []string{"the North Sea"}) {
		t.Errorf("HotpotQA: %+v", q)
	}
	var roles []string
	for _, s := range m.Sources {
		roles = append(roles, s.Role+" "+s.Name)
		if s.Substitute != "" || s.Digest == "" || s.Licence == "" {
			t.Errorf("source %+v", s)
		}
	}
	if want := []string{"words wonderwords 3.0.1: nouns, adjectives, verbs", "essays PaulGrahamEssays.json", "squad squad.json", "hotpotqa hotpotqa.json"}; !slices.Equal(roles, want) {
		t.Errorf("sources %q, want %q", roles, want)
	}
	if m.Sources[1].Digest != prompts.Digest(content) {
		t.Errorf("digest %s", m.Sources[1].Digest)
	}
}

// TestSquadOrder checks that the documents of a question's article come before others.
func TestSquadOrder(t *testing.T) {
	content, err := os.ReadFile("testdata/squad.json")
	fatal.If(t, err)
	set, err := parseSquad(content)
	fatal.If(t, err)
	if len(set.list) != 3 || len(set.docs) != 3 {
		t.Fatalf("%d questions, %d documents", len(set.list), len(set.docs))
	}
	for i, want := range [][]int{{0, 1, 2}, {1, 0, 2}} {
		if got := set.list[i].order(draws{}, len(set.docs)); !slices.Equal(got, want) {
			t.Errorf("question %d: order %v, want %v", i, got, want)
		}
	}
}

// TestOrderIsDrawn checks the order of documents: those that a question needs, then near ones, then
// all others. The sample draws the order of the last two groups.
func TestOrderIsDrawn(t *testing.T) {
	q := &question{gold: []int{7, 3}, near: []int{0, 1, 2, 4, 5, 6}}
	order := func(sample string) []int { return q.order(draws{name: sample}, 14) }
	one, two := order("qa_1/0"), order("qa_1/1")
	for _, got := range [][]int{one, two} {
		if !slices.Equal(got[:2], q.gold) || !slices.Equal(slices.Sorted(slices.Values(got[2:8])), q.near) ||
			!slices.Equal(slices.Sorted(slices.Values(got[8:])), []int{8, 9, 10, 11, 12, 13}) {
			t.Errorf("order %v", got)
		}
	}
	if slices.Equal(one[2:8], two[2:8]) || slices.Equal(one[8:], two[8:]) {
		t.Errorf("two samples have the orders %v and %v", one, two)
	}
	if !slices.Equal(q.near, []int{0, 1, 2, 4, 5, 6}) {
		t.Errorf("near is %v now", q.near)
	}
}

// TestEssayFolder checks that files are joined in the order of their names, and others left out.
func TestEssayFolder(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b.txt": "second", "a.md": "first", "c.bin": "\xff"} {
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	text, _, err := readEssays(context.Background(), dir)
	if err != nil || strings.Join(strings.Fields(text), " ") != "first second" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestSubstitutes compares the built-in texts with data/README.md.
func TestSubstitutes(t *testing.T) {
	w, _ := loadWords()
	if len(w.nouns) != 6782 || len(w.adjectives) != 912 || len(w.all) != 8168 || !slices.IsSorted(w.all) {
		t.Errorf("%d nouns, %d adjectives, %d words", len(w.nouns), len(w.adjectives), len(w.all))
	}
	for _, word := range w.all {
		if word == "" || strings.TrimSpace(word) != word {
			t.Errorf("word %q", word)
		}
	}
	once := distinctWords(w.all, draws{}.stream("words", 0))
	if slices.Sort(once); len(once) != 8166 || len(slices.Compact(once)) != 8166 {
		t.Errorf("%d words to draw from, expected 8166, each once", len(once))
	}
	set, _ := loadGo()
	for name, q := range map[string]*questions{"single": set.single(), "double": set.double()} {
		if len(q.list) < 500 { // RULER's number of samples
			t.Errorf("%s: %d questions", name, len(q.list))
		}
		seen := make(map[string]bool)
		for _, one := range q.list {
			if seen[one.text] || strings.Contains(one.text, "\n") || !strings.HasSuffix(one.text, "?") {
				t.Errorf("%s: question %q", name, one.text)
			}
			seen[one.text] = true
			if name == "double" && len(one.gold) > hotpotDocs {
				t.Errorf("%d documents for %q", len(one.gold), one.text)
			}
			found := false
			for _, doc := range one.gold[:min(len(one.gold), 2)] {
				found = found || strings.Contains(q.docs[doc], one.answers[0])
			}
			if !found {
				t.Errorf("%s: answer %q is in no document of %q", name, one.answers[0], one.text)
			}
		}
	}
}

// TestGoAnswers checks that all entries with the same purpose are answers.
func TestGoAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short the questions are not all made")
	}
	set, _ := loadGo()
	for text, c := range map[string]struct {
		of   *questions
		want []string
	}{
		"Which type of Go's package regexp/syntax describes a failure to parse a regular expression?":               {set.single(), []string{"ErrorCode", "Error"}},
		"Which method of type DB in Go's package database/sql executes a query without returning any rows?":         {set.single(), []string{"ExecContext", "Exec"}},
		"Which method of type Buffer in Go's package bytes returns a slice of length b.Len() holding the unread":    {set.single(), []string{"Bytes"}},
		"In Go's package database/sql, which method of the type that is a prepared statement executes a prepared":   {set.double(), []string{"ExecContext", "Exec"}},
		"In Go's package crypto/tls, which method of the type that represents a secured connection runs the client": {set.double(), []string{"HandshakeContext", "Handshake"}},
	} {
		i := slices.IndexFunc(c.of.list, func(q question) bool { return strings.HasPrefix(q.text, text) })
		if i < 0 {
			t.Errorf("no question %q", text)
			continue
		}
		if got := c.of.list[i].answers; !slices.Equal(got, c.want) {
			t.Errorf("%q has the answers %q, want %q", text, got, c.want)
		}
	}
	for name, c := range map[string]struct {
		of   *questions
		want int
	}{"single": {set.single(), 61}, "double": {set.double(), 24}} {
		several := 0
		for _, q := range c.of.list {
			if len(q.answers) > 1 {
				several++
			}
		}
		if several != c.want {
			t.Errorf("%s: %d questions with several answers, want %d", name, several, c.want)
		}
	}
}

// TestErrors checks that errors name the file and the remedy.
func TestErrors(t *testing.T) {
	write := func(name, content string) string {
		path := filepath.Join(t.TempDir(), name)
		fatal.If(t, os.WriteFile(path, []byte(content), 0o644))
		return path
	}
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"unknown task":     {func(o *Options) { o.Tasks = []string{"niah_singel_1"} }, `unknown task "niah_singel_1", did you mean niah_single_1`},
		"no task":          {func(o *Options) { o.Tasks = nil }, "0 tasks"},
		"all and one":      {func(o *Options) { o.Tasks = []string{"all", "vt"} }, "task all includes the others"},
		"task twice":       {func(o *Options) { o.Tasks = []string{"vt", "vt"} }, "vt is given twice"},
		"length twice":     {func(o *Options) { o.Lengths = []int{512, 512} }, "length 512 is given twice"},
		"no length":        {func(o *Options) { o.Lengths = []int{0} }, "length 0, expected 1"},
		"no samples":       {func(o *Options) { o.Samples = 0 }, "0 samples"},
		"no tokenizer":     {func(o *Options) { o.Tokenizer = nil }, "no tokenizer"},
		"template tokens":  {func(o *Options) { o.TemplateTokens = -1 }, "-1 tokens for the chat template"},
		"too short":        {func(o *Options) { o.Lengths = []int{4096, 150} }, "niah_single_1: length 150 is too short: sample "},
		"too short of one": {func(o *Options) { o.Tasks, o.Lengths, o.Samples = []string{"qa_2"}, []int{1024}, 5 }, "tokens (1085 for the prompt with 10 documents, 32 to generate or reserve) with"},
		"too short of all": {func(o *Options) { o.Tasks = []string{"vt", "cwe"}; o.Lengths = []int{700} }, "vt: length 700 is too short"},
		"too long":         {func(o *Options) { o.Tasks = []string{"cwe"}; o.Lengths = []int{400_000} }, "all 8166 available words make "},
		"questions":        {func(o *Options) { o.Tasks, o.Squad, o.Samples = []string{"qa_1"}, "testdata/squad.json", 4 }, "squad.json has 3 questions, expected one for sample 3"},
		"no essays":        {func(o *Options) { o.Tasks, o.Essays = []string{"niah_single_2"}, "none.txt" }, "read essays: stat none.txt"},
		"empty essays":     {func(o *Options) { o.Tasks, o.Essays = []string{"niah_single_2"}, write("e.txt", " \n") }, "e.txt: no words in it"},
		"binary essays":    {func(o *Options) { o.Tasks, o.Essays = []string{"niah_single_2"}, write("e.txt", "\xff") }, "e.txt: not UTF-8"},
		"other essays":     {func(o *Options) { o.Tasks, o.Essays = []string{"niah_single_2"}, write("e.json", "{}") }, `e.json: no key "text"`},
		"empty folder":     {func(o *Options) { o.Tasks, o.Essays = []string{"niah_single_2"}, t.TempDir() }, "no .txt or .md file"},
		"no SQuAD":         {func(o *Options) { o.Tasks, o.Squad = []string{"qa_1"}, "none.json" }, "dev-v2.0.json"},
		"cut SQuAD":        {func(o *Options) { o.Tasks, o.Squad = []string{"qa_1"}, write("s.json", `{"data": [`) }, "s.json: byte 10: unexpected end of JSON input, expected SQuAD"},
		"other SQuAD":      {func(o *Options) { o.Tasks, o.Squad = []string{"qa_1"}, write("s.json", `{}`) }, "s.json: no key data, expected SQuAD"},
		"number in SQuAD":  {func(o *Options) { o.Tasks, o.Squad = []string{"qa_1"}, write("s.json", `{"data": 3}`) }, "s.json: byte 10: data is a number, expected SQuAD's dev-v2.0.json"},
		"empty SQuAD":      {func(o *Options) { o.Tasks, o.Squad = []string{"qa_1"}, write("s.json", `{"data": []}`) }, "no question with an answer"},
		"bad SQuAD": {func(o *Options) {
			o.Tasks, o.Squad = []string{"qa_1"}, write("s.json", `{"data": [{"paragraphs": [{"context": "c", "qas": [{"question": "q"}]}]}]}`)
		}, "data[0].paragraphs[0].qas[0]: context, question or answers missing"},
		"blank answer in SQuAD": {func(o *Options) {
			o.Tasks, o.Squad = []string{"qa_1"}, write("s.json", `{"data": [{"paragraphs": [{"context": "c", "qas": [{"question": "q", "answers": [{"text": ""}]}]}]}]}`)
		}, `the answer "" is not in the context`},
		"other answer in SQuAD": {func(o *Options) {
			o.Tasks, o.Squad = []string{"qa_1"}, write("s.json", `{"data": [{"paragraphs": [{"context": "c", "qas": [{"question": "q", "answers": [{"text": "Zed"}]}]}]}]}`)
		}, `the answer "Zed" is not in the context`},
		"no HotpotQA":    {func(o *Options) { o.Tasks, o.HotpotQA = []string{"qa_2"}, "none.json" }, "hotpot_dev_distractor_v1.json"},
		"other HotpotQA": {func(o *Options) { o.Tasks, o.HotpotQA = []string{"qa_2"}, write("h.json", `{}`) }, "h.json: byte 1: found a JSON object, expected HotpotQA"},
		"bad HotpotQA":   {func(o *Options) { o.Tasks, o.HotpotQA = []string{"qa_2"}, write("h.json", `[{"question": "q"}]`) }, "[0]: question, answer or context missing"},
		"null in HotpotQA": {func(o *Options) {
			o.Tasks, o.HotpotQA = []string{"qa_2"}, write("h.json", `[{"question": "q", "answer": "a", "context": [["t", null]]}]`)
		}, "not a title with a list of sentences"},
		"bad context": {func(o *Options) { o.Tasks, o.HotpotQA = []string{"qa_2"}, write("h.json", `[{"context": [["a"]]}]`) }, "not a title with a list of sentences"},
	} {
		o := options(1024, 2, "niah_single_1")
		c.change(&o)
		_, err := Make(context.Background(), o, func(*prompts.Row) error { return nil })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestStops: an error of the writer and a cancelled context end the work.
func TestStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	_, err := Make(ctx, options(1024, 1000, "niah_single_1"), func(*prompts.Row) error {
		if n++; n == 3 {
			cancel()
		}
		return nil
	})
	if err != context.Canceled || n > 100 {
		t.Errorf("%v after %d rows", err, n)
	}
	_, err = Make(context.Background(), options(1024, 1000, "niah_single_1"), func(*prompts.Row) error { return os.ErrClosed })
	if err != os.ErrClosed {
		t.Errorf("%v, want that of the writer", err)
	}
}

// FuzzSources: files of the user are refused or give questions with documents.
func FuzzSources(f *testing.F) {
	f.Add([]byte(`{"data": [{"paragraphs": [{"context": "a c", "qas": [{"question": "q", "answers": [{"text": "a"}]}]}]}]}`))
	f.Add([]byte(`[{"question": "q", "answer": "a", "context": [["t", ["s", "u"]], ["v", []]]}]`))
	f.Add([]byte(`{"text": "A b. C d."}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, parse := range []func([]byte) (*questions, error){parseSquad, parseHotpotQA} {
			set, err := parse(content)
			if err != nil {
				continue
			}
			for i := range set.list {
				q := &set.list[i]
				order := q.order(draws{}, len(set.docs))
				if d := set.sample(i, draws{}).Prompt(len(q.gold) + 1); d.Input == "" || len(order) != len(set.docs) {
					t.Errorf("question %d: %d of %d documents", i, len(order), len(set.docs))
				}
			}
		}
		text, err := essayText(content)
		if err != nil || len(strings.Fields(text)) == 0 {
			return
		}
		e := newEssay(text)
		n := len(e.words) + 3
		if got := strings.Fields(strings.Join(e.sentences(n), " ")); len(got) != n {
			t.Errorf("%d words in the sentences of %d", len(got), n)
		}
	})
}

// TestEssaysRefused checks that a JSON list is rejected, and so is an absent file even if no task
// needs essays.
func TestEssaysRefused(t *testing.T) {
	if text, err := essayText([]byte(`["one.", "two."]`)); err == nil || !strings.Contains(err.Error(), "JSON list") {
		t.Errorf("list: %q, %v", text, err)
	}
	if text, err := essayText([]byte("[1] Opticks, a text")); err != nil || text == "" {
		t.Errorf("text: %v", err)
	}
	m := newMaker(Options{Tokenizer: counter(), Essays: filepath.Join(t.TempDir(), "none")}, nil)
	if err := m.load(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "read essays") {
		t.Errorf("no file: %v", err)
	}
}
