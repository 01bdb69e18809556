package offline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/longbench"
	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/datasets/tokens"
	"github.com/kvreplay/kvreplay/internal/fatal"
)

func tokenizer(t testing.TB) tokens.Tokenizer {
	t.Helper()
	tok, err := tokens.Open("")
	fatal.If(t, err)
	return tok
}

// goroot is the Go distribution of the machine.
func goroot(t testing.TB) string {
	t.Helper()
	root, err := Places{}.goRoot()
	if err != nil {
		t.Skip(err)
	}
	return root
}

func collect(o Options) (rows []*prompts.Row, r *Result, err error) {
	r, err = Make(context.Background(), o, func(row *prompts.Row) error {
		rows = append(rows, row)
		return nil
	})
	return rows, r, err
}

// Every task works on the real sources. The claims of each row are checked against the files of the
// distribution, read again.
func TestRealSources(t *testing.T) {
	root := goroot(t)
	tok := tokenizer(t)
	const length, samples = 2048, 2
	chosen := Tasks()
	if testing.Short() { // those that need no syntax trees
		chosen = slices.DeleteFunc(chosen, func(x Task) bool { return !strings.HasSuffix(x.Name, "_text") && x.Name != "lcc_go" })
	}
	var names []string
	for _, x := range chosen {
		names = append(names, x.Name)
	}
	if len(names) == len(tasks) {
		names = nil // all, with or without Python
	}
	rows, result, err := collect(Options{Tasks: names, Samples: samples, Seed: 1, Length: length, Tokenizer: tok})
	fatal.If(t, err)
	checks := map[string]func(*testing.T, *prompts.Row){
		"lcc_go":               func(t *testing.T, r *prompts.Row) { checkLine(t, root, r) },
		"lcc_python":           func(t *testing.T, r *prompts.Row) { checkLine(t, pythonLibrary(t), r) },
		"repobench_go":         func(t *testing.T, r *prompts.Row) { checkLine(t, root, r); checkUse(t, root, r) },
		"summary_go":           checkAbsent,
		"multi_summary_go":     checkAbsent,
		"passage_retrieval_go": checkRetrieval,
		"hotpotqa_go":          checkHops,
		"trec_go":              checkExamples,
		"qa_text":              checkFirst,
		"summary_text":         checkExtract,
		"passage_count_text":   checkCount,
	}
	seen := map[string]int{}
	for _, r := range rows {
		seen[r.Task]++
		i := slices.IndexFunc(tasks, func(x Task) bool { return x.Name == r.Task })
		set, _ := longbench.Lookup(tasks[i].StandsFor)
		if n := len(tok.Encode(r.Input)) + set.MaxNewTokens; r.Length != n || n > length {
			t.Errorf("%s: length %d, counted %d, at most %d", r.ID, r.Length, n, length)
		}
		if r.Length < length*6/10 {
			t.Errorf("%s: length %d of %d", r.ID, r.Length, length)
		}
		if r.MaxNewTokens != set.MaxNewTokens || r.ChatTemplate != set.ChatTemplate || r.Benchmark != "substitute" ||
			!strings.HasPrefix(r.Substitute, "for LongBench "+set.Name+"; made from ") {
			t.Errorf("%s: %d new tokens, chat %v, %s, %s", r.ID, r.MaxNewTokens, r.ChatTemplate, r.Benchmark, r.Substitute)
		}
		if err := r.Validate(); err != nil || len(r.Outputs) != 1 || strings.TrimSpace(r.Outputs[0]) == "" {
			t.Errorf("%s: %v, outputs %q", r.ID, err, r.Outputs)
		}
		t.Run(r.ID, func(t *testing.T) { checks[r.Task](t, r) })
	}
	for _, task := range chosen {
		if seen[task.Name] != samples && !slices.ContainsFunc(result.Notes, func(n string) bool { return strings.HasPrefix(n, task.Name+" left out") }) {
			t.Errorf("%s: %d prompts, want %d; notes %q", task.Name, seen[task.Name], samples, result.Notes)
		}
	}
	version, err := os.ReadFile(filepath.Join(root, "VERSION"))
	fatal.If(t, err)
	name, _, _ := strings.Cut(string(version), "\n")
	if s := result.Manifest.Sources[0]; s.Name != "Go distribution "+name || !strings.HasPrefix(s.Digest, "sha256:") || s.Licence != "BSD-3-Clause" {
		t.Errorf("source %+v", s)
	}
}

func pythonLibrary(t *testing.T) string {
	folder, err := Places{}.pythonLibrary()
	fatal.If(t, err)
	return folder
}

var origin = regexp.MustCompile(`, ([^ ,]+):(\d+)[,;]`)

// checkLine: the answer is the line that the row names, and the line before it ends the
// code of the prompt.
func checkLine(t *testing.T, root string, r *prompts.Row) {
	m := origin.FindStringSubmatch(r.Substitute)
	if m == nil {
		t.Fatalf("no file and line in %q", r.Substitute)
	}
	text, err := os.ReadFile(filepath.Join(root, m[1]))
	fatal.If(t, err)
	all := strings.Split(string(text), "\n")
	n, _ := strconv.Atoi(m[2])
	if got := r.Outputs[0]; got != strings.TrimRight(all[n-1], " \t") {
		t.Errorf("answer %q, line %d is %q", got, n, all[n-1])
	}
	if !strings.HasSuffix(r.Input, all[n-2]+"\nNext line of code:\n") {
		t.Errorf("prompt ends %q, the line before is %q", r.Input[len(r.Input)-100:], all[n-2])
	}
}

// checkUse: the line names the declaration, whose head is in the prompt.
func checkUse(t *testing.T, root string, r *prompts.Row) {
	_, used, _ := strings.Cut(r.Substitute, "which uses ")
	used, _, _ = strings.Cut(used, ";")
	name := used[strings.LastIndex(used, ".")+1:]
	if !strings.Contains(r.Outputs[0], "."+name) {
		t.Errorf("%q does not use %s", r.Outputs[0], used)
	}
	head := regexp.MustCompile(`(?m)^(func|type|\t)?[ ]?` + regexp.QuoteMeta(name) + `\b`)
	if folder := used[:strings.LastIndex(used, ".")]; !head.MatchString(r.Input) || !strings.Contains(r.Input, "// Path: src/"+folder+"/") {
		t.Errorf("%s is not in the prompt", used)
	}
}

func checkAbsent(t *testing.T, r *prompts.Row) {
	for line := range strings.Lines(r.Outputs[0]) {
		if line = strings.TrimSpace(line); len(line) > 40 && strings.Contains(squeeze(strings.ReplaceAll(r.Input, "//", " ")), squeeze(line)) {
			t.Errorf("%q is in the prompt", line)
		}
	}
}

// checkRetrieval checks that abstract and paragraph together are the documentation of the row's
// name.
func checkRetrieval(t *testing.T, r *prompts.Row) {
	_, body, _ := strings.Cut(r.Input, "\n\nParagraph 1: ")
	body, after, _ := strings.Cut(body, "\n\nThe following is an abstract.\n\n")
	abstract, _, _ := strings.Cut(after, "\n\nPlease enter")
	k, _ := strconv.Atoi(strings.TrimPrefix(r.Outputs[0], "Paragraph "))
	passages := regexp.MustCompile(`\n\nParagraph \d+: `).Split(body, -1)
	if !strings.HasPrefix(r.Input, fmt.Sprintf("Here are %d paragraphs from", len(passages))) || k < 1 || k > len(passages) {
		t.Fatalf("%d paragraphs, answer %s, %.60q", len(passages), r.Outputs[0], r.Input)
	}
	_, name, _ := strings.Cut(r.Substitute, "documentation of ")
	name, _, _ = strings.Cut(name, ";")
	if doc := documentation(t, name); squeeze(doc) != abstract+" "+squeeze(passages[k-1]) {
		t.Errorf("%s: %q is not %q and %q", name, doc, abstract, passages[k-1])
	}
}

var parsed = sync.OnceValues(func() (*goTree, error) {
	t, err := newSources(context.Background(), Places{}).golang()
	if err == nil {
		err = t.parse()
	}
	return t, err
})

// documentation is that of a package or declaration of the machine's Go.
func documentation(t *testing.T, name string) string {
	tree, err := parsed()
	fatal.If(t, err)
	if p := tree.byPath[name]; p != nil {
		return p.doc
	}
	for _, p := range tree.packages {
		for _, d := range p.decls {
			if d.qualified() == name {
				return d.doc
			}
		}
	}
	t.Fatalf("no %s", name)
	return ""
}

func checkHops(t *testing.T, r *prompts.Row) {
	m := regexp.MustCompile(`documentation of (\S+) and (\S+);`).FindStringSubmatch(r.Substitute)
	if m == nil || !strings.Contains(r.Input, ":\n"+m[1]+"\n") || !strings.Contains(r.Input, ":\n"+m[2]+"\n") {
		t.Fatalf("%v: a passage is not there", m)
	}
	if !strings.Contains(squeeze(r.Input), r.Outputs[0]) || !strings.Contains(r.Input, "of "+m[1]+"? Give") {
		t.Errorf("answer %q is not in the prompt", r.Outputs[0])
	}
}

func checkExamples(t *testing.T, r *prompts.Row) {
	asked := r.Input[strings.LastIndex(r.Input, "Comment: "):]
	if n := strings.Count(r.Input, "\nPackage: "+r.Outputs[0]+"\n"); n < 2 {
		t.Errorf("%d examples of %s", n, r.Outputs[0])
	}
	if !strings.HasSuffix(asked, "\nPackage:") || strings.Count(r.Input, strings.TrimSuffix(asked, "\nPackage:")+"\n") != 1 {
		t.Errorf("the question %q is among the examples", asked)
	}
}

// checkFirst: the answer follows the heading, as a reader would find it.
func checkFirst(t *testing.T, r *prompts.Row) {
	m := regexp.MustCompile(`under the heading “(.*)”(?: where it occurs for time (\d+) of (\d+))?\?\nAnswer:$`).FindStringSubmatch(r.Input)
	if m == nil {
		t.Fatalf("question %q", r.Input[len(r.Input)-200:])
	}
	text := squeeze(plain(strings.ReplaceAll(r.Input, m[0], "")))
	follows := 0
	for rest := text; ; follows++ {
		_, after, ok := strings.Cut(rest, m[1]+".")
		if !ok {
			break
		}
		rest = after
		if strings.HasPrefix(strings.TrimSpace(after), r.Outputs[0]) {
			return
		}
	}
	if !strings.Contains(text, m[1]+" "+r.Outputs[0]) {
		t.Errorf("%q does not follow %q (%d places)", r.Outputs[0], m[1], follows)
	}
}

func checkExtract(t *testing.T, r *prompts.Row) {
	text := squeeze(plain(r.Input))
	for rest := r.Outputs[0]; rest != ""; {
		var sentence string
		sentence, rest = splitSentence(rest)
		if !strings.Contains(text, sentence) {
			t.Errorf("%q is not in the excerpt", sentence)
		}
	}
}

func checkCount(t *testing.T, r *prompts.Row) {
	_, body, _ := strings.Cut(r.Input, "\n\nParagraph 1: ")
	body, _, _ = strings.Cut(body, "\n\nPlease enter")
	different := map[string]bool{}
	for _, p := range regexp.MustCompile(`\n\nParagraph \d+: `).Split(body, -1) {
		different[p] = true
	}
	if fmt.Sprint(len(different)) != r.Outputs[0] {
		t.Errorf("%d different paragraphs, answer %s", len(different), r.Outputs[0])
	}
}

// A prompt depends neither on the number of samples nor on the other tasks.
func TestDeterminism(t *testing.T) {
	goroot(t)
	o := Options{Tasks: []string{"lcc_go", "qa_text"}, Samples: 3, Seed: 7, Length: 800, Tokenizer: tokenizer(t)}
	three, _, err := collect(o)
	fatal.If(t, err)
	o.Tasks, o.Samples = []string{"qa_text"}, 2
	two, _, err := collect(o)
	fatal.If(t, err)
	for i, r := range two {
		if s := three[3+i]; r.Input != s.Input || r.ID != s.ID || r.Outputs[0] != s.Outputs[0] {
			t.Errorf("prompt %d differs", i)
		}
	}
	o.Seed++
	if other, _, err := collect(o); err != nil || other[0].Input == two[0].Input && other[1].Input == two[1].Input {
		t.Errorf("another seed makes the same prompts, %v", err)
	}
}

func TestErrors(t *testing.T) {
	novel := filepath.Join(t.TempDir(), "novel.txt")
	fatal.If(t, os.WriteFile(novel, []byte("No heading here.\n\nNor here, in this second one.\n"), 0o666))
	latin := filepath.Join(t.TempDir(), "latin.txt")
	fatal.If(t, os.WriteFile(latin, []byte("CHAPTER I\n\nCaf\xe9\n"), 0o666))
	empty := t.TempDir()
	for want, o := range map[string]Options{
		`unknown task "lcc_gp", did you mean lcc_go`:     {Tasks: []string{"lcc_gp"}},
		"the Go distribution given has no sources":       {Tasks: []string{"lcc_go"}, Places: Places{GoRoot: empty}},
		"or a text with --text FILE":                     {Tasks: []string{"qa_text"}, Places: Places{GoRoot: empty}},
		"--python: no standard library of Python":        {Tasks: []string{"lcc_python"}, Places: Places{Python: empty}},
		"read text: open no.txt":                         {Tasks: []string{"qa_text"}, Places: Places{Texts: []string{"no.txt"}}},
		"latin.txt: not UTF-8":                           {Tasks: []string{"qa_text"}, Places: Places{Texts: []string{latin}}},
		"novel.txt: no heading with a sentence":          {Tasks: []string{"qa_text"}, Places: Places{Texts: []string{novel}}},
		"novel.txt: fewer than two different paragraphs": {Tasks: []string{"passage_count_text"}, Places: Places{Texts: []string{novel}}},
		"prompt 0: length too short":                     {Tasks: []string{"summary_text"}, Length: 520, Places: Places{Texts: []string{novel}}},
		"and may have 0":                                 {Tasks: []string{"summary_text"}, Length: 12, Places: Places{Texts: []string{novel}}},
		"samples 0":                                      {Samples: -1},
		"length 0":                                       {Length: -1},
	} {
		o.Tokenizer = tokenizer(t)
		o.Samples = max(0, o.Samples+1)
		if o.Length == 0 {
			o.Length = 1024
		}
		o.Length = max(0, o.Length)
		if _, _, err := collect(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// Without Python, all makes the other tasks and notes the absence. A task requested by name fails.
func TestNoPython(t *testing.T) {
	if testing.Short() {
		t.Skip("makes every task")
	}
	root := goroot(t)
	t.Setenv("PATH", t.TempDir())
	o := Options{Samples: 1, Length: 700, Tokenizer: tokenizer(t), Places: Places{GoRoot: root}}
	rows, result, err := collect(o)
	if err != nil || len(rows) != len(tasks)-1 || len(result.Notes) == 0 || !strings.Contains(result.Notes[0], "lcc_python left out: no standard library of Python") {
		t.Errorf("%d prompts, %+v, %v", len(rows), result, err)
	}
	o.Tasks = []string{"lcc_python"}
	if _, _, err := collect(o); !errors.Is(err, errNoPython) {
		t.Errorf("error %v", err)
	}
	t.Setenv("GOROOT", "")
	o.Tasks, o.Places = []string{"lcc_go"}, Places{}
	if _, _, err := collect(o); err == nil || !strings.Contains(err.Error(), "--goroot FOLDER") {
		t.Errorf("without Go: %v", err)
	}
}

func TestInterrupt(t *testing.T) {
	goroot(t)
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	_, err := Make(ctx, Options{Tasks: []string{"qa_text"}, Samples: 5, Length: 600, Tokenizer: tokenizer(t)}, func(*prompts.Row) error {
		n++
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || n != 1 {
		t.Errorf("%d prompts after the interrupt, %v", n, err)
	}
}

// Texts of the user's take turns.
func TestTexts(t *testing.T) {
	var paths []string
	for i := range 2 {
		path := filepath.Join(t.TempDir(), fmt.Sprintf("book%d.txt", i))
		text := fmt.Sprintf("*** START OF THE PROJECT ***\n\nCHAPTER I\n\nThis is how book %d begins, and well. More.\n\n*** END OF THE PROJECT ***\n\nLICENCE\n\nNot the book's own words at all.\n", i)
		fatal.If(t, os.WriteFile(path, []byte(text), 0o666))
		paths = append(paths, path)
	}
	rows, result, err := collect(Options{Tasks: []string{"qa_text"}, Samples: 2, Length: 300, Tokenizer: tokenizer(t), Places: Places{Texts: paths}})
	if err != nil || len(rows) != 2 || len(result.Manifest.Sources) != 2 {
		t.Fatal(rows, result, err)
	}
	for i, r := range rows {
		if want := fmt.Sprintf("This is how book %d begins, and well.", i); r.Outputs[0] != want || strings.Contains(r.Input, "LICENCE") {
			t.Errorf("prompt %d: %q, %v", i, r.Input, r.Outputs)
		}
		if name := fmt.Sprintf("book%d.txt", i); result.Manifest.Sources[i].Name != name {
			t.Errorf("source %+v", result.Manifest.Sources[i])
		}
	}
	if len(result.Notes) != 1 || !strings.Contains(result.Notes[0], "2 of 2 prompts do not fill half") {
		t.Errorf("notes %q", result.Notes)
	}
}

// Prompts of a task differ while the sources allow it. The notes state the number of repeats.
func TestPromptsDiffer(t *testing.T) {
	rows, result, err := collect(Options{Tasks: []string{"summary_go"}, Samples: 40, Length: 2048, Tokenizer: tokenizer(t)})
	if err != nil || len(result.Notes) > 0 {
		t.Fatal(err, result.Notes)
	}
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.Input] {
			t.Errorf("prompt %s is there already", r.ID)
		}
		seen[r.Input] = true
	}
	book := filepath.Join(t.TempDir(), "book.txt")
	fatal.If(t, os.WriteFile(book, []byte("CHAPTER I\n\nThis is how the book begins, and well.\n\nIt ends here.\n"), 0o644))
	_, result, err = collect(Options{Tasks: []string{"qa_text"}, Samples: 3, Length: 300, Tokenizer: tokenizer(t), Places: Places{Texts: []string{book}}})
	if err != nil || len(result.Notes) == 0 || !strings.Contains(strings.Join(result.Notes, "; "), "qa_text: 2 of 3 prompts repeat others") {
		t.Errorf("%v, notes %q", err, result.Notes)
	}
}
