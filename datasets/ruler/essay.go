package ruler

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/datasets/bom"
	"github.com/kvreplay/kvreplay/internal/files"
)

// essay is running text that needles are hidden in.
type essay struct {
	words []string // split at white space
	ends  []bool   // the word ends a sentence
}

// newEssay splits text into words and sentences.
func newEssay(text string) *essay {
	e := &essay{words: strings.Fields(text)}
	e.ends = make([]bool, len(e.words))
	for i, w := range e.words {
		e.ends[i] = i+1 == len(e.words) || endsSentence(w, e.words[i+1])
	}
	return e
}

// sentences returns the sentences of the first n words; after the last word the text
// begins again, and what is cut is a sentence too.
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

// abbreviations are words that end with a full stop and seldom a sentence.
var abbreviations = map[string]bool{
	"mr": true, "mrs": true, "ms": true, "dr": true, "st": true, "prof": true, "vs": true, "etc": true,
	"e.g": true, "i.e": true, "fig": true, "prop": true, "exper": true, "obs": true, "p": true, "pp": true, "vol": true, "no": true,
}

// endsSentence says whether a sentence ends between two words: the first ends with . ? or
// !, maybe in quotes or brackets, and is no abbreviation or initial; the next does not
// begin with a small letter.
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

// readEssays reads the user's essays: RULER's PaulGrahamEssays.json, an object whose text
// is all of them, a text file, or a folder whose .txt and .md files are joined in the
// order of their names.
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

// essayText is the text of one file; an object is told by its brace.
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
		return "", fmt.Errorf("is a JSON list; expected text, or an object with the key text")
	}
	if !bytes.HasPrefix(trimmed, []byte("{")) {
		return string(content), nil
	}
	var object struct {
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(content, &object); err != nil {
		return "", fmt.Errorf("expected text, or an object with the key text: %w", err)
	}
	if object.Text == nil {
		return "", fmt.Errorf("no key \"text\" in the object; PaulGrahamEssays.json has all essays under it")
	}
	return *object.Text, nil
}
