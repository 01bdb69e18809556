package ruler

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/andybalholm/brotli"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/internal/bom"
	"github.com/kvreplay/kvreplay/internal/files"
)

// Roles of texts in a manifest.
const (
	roleWords    = "words"
	roleEssays   = "essays"
	roleSquad    = "squad"
	roleHotpotQA = "hotpotqa"
)

// originals are the texts of the roles in RULER, with their addresses.
var originals = map[string]struct{ title, origin string }{
	roleEssays:   {"Paul Graham's essays", "NVIDIA/RULER, scripts/data/synthetic/json/download_paulgraham_essay.py"},
	roleSquad:    {"SQuAD 2.0, development set", "rajpurkar.github.io/SQuAD-explorer, dev-v2.0.json"},
	roleHotpotQA: {"HotpotQA, development set, distractor setting", "hotpotqa.github.io, hotpot_dev_distractor_v1.json"},
}

// load reads the texts that the tasks need and lists them. A file that no task needs must still
// exist.
func (m *maker) load(ctx context.Context, tasks []task) error {
	m.qa, m.stands = make(map[string]*questions), make(map[string]string)
	for _, text := range []struct{ role, path string }{
		{roleWords, ""}, {roleEssays, m.options.Essays}, {roleSquad, m.options.Squad}, {roleHotpotQA, m.options.HotpotQA},
	} {
		needed := slices.ContainsFunc(tasks, func(t task) bool { return slices.Contains(t.texts, text.role) })
		var err error
		switch {
		case needed && text.path == "":
			m.loadBuiltin(text.role)
		case needed:
			err = m.loadFile(ctx, text.role, text.path)
		case text.path != "":
			if _, err = os.Stat(text.path); err != nil {
				err = fmt.Errorf("read %s: %w", text.role, err)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// title returns the name of a role's text for messages.
func (m *maker) title(role string) string {
	for _, s := range m.Sources {
		if s.Role == role {
			return s.Name
		}
	}
	return role
}

// loadBuiltin loads a built-in text and lists it.
func (m *maker) loadBuiltin(role string) {
	original := originals[role].title
	source := prompts.Source{Role: role, Substitute: original}
	var text []byte
	switch role {
	case roleWords:
		m.words, text = loadWords()
		source.Name, source.Licence, source.Origin = "wonderwords 3.0.1: nouns, adjectives, verbs", "MIT", "pypi.org/project/wonderwords"
	case roleEssays:
		text = unpack(opticksFile)
		m.essay = newEssay(string(text[bytes.Index(text, []byte("OPTICKS:")):])) // after the names of its transcribers
		source.Name, source.Licence, source.Origin = "Isaac Newton, Opticks (1730)", "public domain", "the Go distribution, src/testdata/Isaac.Newton-Opticks.txt"
	default:
		var set *goSet
		set, text = loadGo()
		if role == roleSquad {
			m.qa[role] = set.single()
		} else {
			m.qa[role] = set.double()
		}
		source.Name, source.Licence, source.Origin = "documentation of Go's standard library (go1.26.8), questions made by rule", "BSD-3-Clause", "go.dev"
	}
	if original != "" {
		m.stands[role] = fmt.Sprintf("%s, in place of %s", source.Name, original)
	}
	source.Digest = prompts.Digest(text)
	m.Sources = append(m.Sources, source)
}

// loadFile reads a file of the user and lists it.
func (m *maker) loadFile(ctx context.Context, role, path string) error {
	var content []byte
	var err error
	if role == roleEssays {
		var text string
		if text, content, err = readEssays(ctx, path); err == nil {
			m.essay = newEssay(text)
		}
	} else {
		m.qa[role], content, err = readQuestions(ctx, role, path)
	}
	if err != nil {
		return err
	}
	m.Sources = append(m.Sources, prompts.Source{
		Role: role, Name: filepath.Base(path), Digest: prompts.Digest(content), Licence: "as its owner states", Origin: "file of the user",
	})
	return nil
}

func readQuestions(ctx context.Context, role, path string) (set *questions, content []byte, err error) {
	if content, err = files.Read(ctx, path); err != nil {
		return nil, nil, fmt.Errorf("read %s: %w (the original is %s, %s)", role, err, originals[role].title, originals[role].origin)
	}
	text, err := bom.Bytes(content)
	if err == nil {
		set, err = map[string]func([]byte) (*questions, error){roleSquad: parseSquad, roleHotpotQA: parseHotpotQA}[role](text)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %s: %w", role, path, err)
	}
	return set, content, nil
}

// The built-in texts. data/README.md states their origin.
var (
	//go:embed data/nounlist.txt.br
	nounsFile []byte
	//go:embed data/adjectivelist.txt.br
	adjectivesFile []byte
	//go:embed data/verblist.txt.br
	verbsFile []byte
	//go:embed data/opticks.txt.br
	opticksFile []byte
	//go:embed data/godoc.jsonl.br
	godocFile []byte
)

// unpack returns an embedded file. It panics if the file does not unpack.
func unpack(file []byte) []byte {
	text, err := io.ReadAll(brotli.NewReader(bytes.NewReader(file)))
	if err != nil {
		panic("ruler: " + err.Error())
	}
	return text
}

// wordLists are the words of the wonderwords package, as RULER uses them.
type wordLists struct {
	nouns, adjectives []string // as in the files
	all               []string // with verbs, sorted, without spaces. Two appear twice
}

func loadWords() (*wordLists, []byte) {
	nouns, adjectives, verbs := unpack(nounsFile), unpack(adjectivesFile), unpack(verbsFile)
	w := &wordLists{nouns: lines(nouns), adjectives: lines(adjectives)}
	w.all = slices.Concat(lines(nouns), lines(adjectives), lines(verbs))
	slices.Sort(w.all)
	w.all = slices.Compact(w.all)
	for i, word := range w.all { // three adjectives end with a space, which wonderwords drops
		w.all[i] = strings.TrimRight(word, " ")
	}
	return w, slices.Concat(nouns, adjectives, verbs)
}

func lines(text []byte) []string { return strings.Split(strings.TrimSpace(string(text)), "\n") }

// essay is running text in which needles are hidden.
type essay struct {
	words []string // split at white space
	ends  []bool   // the word ends a sentence
}

func newEssay(text string) *essay {
	e := &essay{words: strings.Fields(text)}
	e.ends = make([]bool, len(e.words))
	for i, w := range e.words {
		e.ends[i] = i+1 == len(e.words) || endsSentence(w, e.words[i+1])
	}
	return e
}

// sentences returns the sentences of the first n words. After the last word the text begins again.
// A sentence that is cut counts too.
func (e *essay) sentences(n int) []string {
	var list []string
	for start := 0; start < n; {
		first := start % len(e.words)
		last := first
		for !e.ends[last] && start+last-first+1 < n {
			last++
		}
		list = append(list, strings.Join(e.words[first:last+1], " "))
		start += last - first + 1
	}
	return list
}

// abbreviations are words that end with a full stop and seldom end a sentence.
var abbreviations = map[string]bool{
	"mr": true, "mrs": true, "ms": true, "dr": true, "st": true, "prof": true, "vs": true, "etc": true,
	"e.g": true, "i.e": true, "fig": true, "prop": true, "exper": true, "obs": true, "p": true, "pp": true, "vol": true, "no": true,
}

// endsSentence reports whether a sentence ends between two words. The first ends with . ? or !,
// perhaps in quotes or brackets, and is no abbreviation or initial. The next does not begin with a
// small letter.
func endsSentence(word, next string) bool {
	word = strings.TrimRight(word, `"')]}_*”’`)
	if word == "" || !strings.ContainsRune(".?!", rune(word[len(word)-1])) {
		return false
	}
	if stem := strings.TrimLeft(word[:len(word)-1], `"'([{_*“‘`); word[len(word)-1] == '.' &&
		(abbreviations[strings.ToLower(stem)] || utf8.RuneCountInString(stem) == 1 && stem != "I" && unicode.IsUpper(rune(stem[0]))) {
		return false
	}
	r, _ := utf8.DecodeRuneInString(strings.TrimLeft(next, `"'([{_*“‘`))
	return !unicode.IsLower(r)
}

// readEssays reads the user's essays from one of three sources. It is RULER's PaulGrahamEssays.json
// (an object with all of them as text), a text file, or a folder. The .txt and .md files of a
// folder are joined in the order of their names.
func readEssays(ctx context.Context, path string) (text string, raw []byte, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", nil, fmt.Errorf("read essays: %w", err)
	}
	named := []string{path}
	if info.IsDir() {
		if named, err = textFiles(path); err != nil {
			return "", nil, err
		}
	}
	var all strings.Builder
	for _, file := range named {
		content, err := files.Read(ctx, file)
		if err != nil {
			return "", nil, fmt.Errorf("read essays: %w", err)
		}
		part, err := essayText(content)
		if err != nil {
			return "", nil, fmt.Errorf("read essays: %s: %w", file, err)
		}
		all.WriteString(part)
		all.WriteByte('\n')
		raw = append(raw, content...)
	}
	if len(strings.Fields(all.String())) == 0 {
		return "", nil, fmt.Errorf("read essays: %s: no words in it", path)
	}
	return all.String(), raw, nil
}

func textFiles(dir string) (found []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); err == nil && !d.IsDir() && (ext == ".txt" || ext == ".md") {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read essays: %w", err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("read essays: %s: no .txt or .md file in it", dir)
	}
	return found, nil
}

// essayText returns the text of one file. A brace marks an object.
func essayText(content []byte) (string, error) {
	content, err := bom.Bytes(content)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(content) {
		return "", fmt.Errorf("not UTF-8 text")
	}
	trimmed := bytes.TrimSpace(content)
	if bytes.HasPrefix(trimmed, []byte("[")) && json.Valid(trimmed) {
		return "", fmt.Errorf("is a JSON list, expected text or an object with the key text")
	}
	if !bytes.HasPrefix(trimmed, []byte("{")) {
		return string(content), nil
	}
	var object struct {
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(content, &object); err != nil {
		return "", jsonCause(err, "text, or an object with the key text")
	}
	if object.Text == nil {
		return "", fmt.Errorf("no key \"text\" in the object, expected one as in PaulGrahamEssays.json")
	}
	return *object.Text, nil
}
