package offline

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// text is a book. Its lines make paragraphs. Some paragraphs are headings or begin with one.
type text struct {
	name, licence, origin, digest string

	lines      []string // with their newlines
	paragraphs []paragraph
	sections   []section
}

// paragraph is the text between empty lines.
type paragraph struct {
	text string // unchanged
	at   int    // its first line
}

// section is the text under one heading.
type section struct {
	heading string
	first   string // first sentence under the heading, "" if there is none
	from    int    // line of the heading
	to      int    // line after the sentence
}

// source returns the text's entry in the manifest.
func (t *text) source() prompts.Source {
	return prompts.Source{Role: "text", Name: t.name, Digest: t.digest, Licence: t.licence, Origin: t.origin}
}

// opticks are the paths of Newton's book in Go distributions.
var opticks = []string{"src/testdata/Isaac.Newton-Opticks.txt", "src/compress/testdata/Isaac.Newton-Opticks.txt"}

// readOpticks reads Newton's book from a Go distribution.
func readOpticks(fsys fs.FS) (*text, error) {
	for _, path := range opticks {
		content, err := fs.ReadFile(fsys, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		t, err := parseText(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		t.name = "Isaac Newton, Opticks, 4th edition, 1730"
		t.licence = "public domain"
		t.origin = "Go distribution, " + path + ", of Project Gutenberg"
		return t, nil
	}
	return nil, fmt.Errorf("the Go distribution has no %s. Name a text with --text FILE", opticks[0])
}

// marks are the lines around the book, which exclude Project Gutenberg's own words.
var (
	markStart = regexp.MustCompile(`(?m)^\*\*\* ?START OF .*$`)
	markEnd   = regexp.MustCompile(`(?m)^\*\*\* ?END OF .*$`)
)

func parseText(content []byte) (*text, error) {
	if !utf8.Valid(content) {
		return nil, errors.New("not UTF-8")
	}
	t := &text{digest: prompts.Digest(content)}
	body := bytes.TrimPrefix(content, []byte("\ufeff"))
	if at := markStart.FindIndex(body); at != nil {
		body = body[at[1]:]
	}
	if at := markEnd.FindIndex(body); at != nil {
		body = body[:at[0]]
	}
	t.lines = trimmed(string(body))
	for _, p := range split(t.lines) {
		t.add(p)
	}
	if len(t.paragraphs) == 0 {
		return nil, errors.New("no text")
	}
	return t, nil
}

// split returns the paragraphs of lines.
func split(lines []string) []paragraph {
	full := slice.Filter(slice.Indices(len(lines)), func(i int) bool { return lines[i] != "\n" })
	return slice.Map(slice.Runs(full, func(a, b int) bool { return b == a+1 }), func(run []int) paragraph {
		return paragraph{strings.TrimSuffix(strings.Join(lines[run[0]:run[0]+len(run)], ""), "\n"), run[0]}
	})
}

// trimmed returns the lines of a text without white space at their ends.
func trimmed(text string) []string {
	return slice.Map(lines(text), func(line string) string { return codeLine(line) + "\n" })
}

func paragraphs(doc string) []string {
	return slice.Map(split(trimmed(doc)), func(p paragraph) string { return p.text })
}

// add appends a paragraph. The first sentence after a heading belongs to its section.
func (t *text) add(p paragraph) {
	t.paragraphs = append(t.paragraphs, p)
	heading, rest := splitHeading(p.text)
	if heading != "" {
		t.sections = append(t.sections, section{heading: heading, from: p.at})
	}
	if n := len(t.sections); n > 0 && rest != "" && t.sections[n-1].first == "" {
		x := &t.sections[n-1]
		whole, rest := plain(p.text), plain(rest)
		x.first, _ = splitSentence(rest)
		x.to = p.at + linesOf(whole, wordCount(whole)-wordCount(rest)+wordCount(x.first))
	}
}

// linesOf returns the number of lines with the given number of words of a text.
func linesOf(text string, words int) (n int) {
	for line := range strings.Lines(text) {
		if words <= 0 {
			break
		}
		words -= wordCount(line)
		n++
	}
	return n
}

var (
	// runIn begins a paragraph: "_Obs._ 7. By looking".
	runIn = regexp.MustCompile(`^_([A-Z][a-z]+\.?)_ ([0-9]+|[IVXLC]+)\.?(\s+|$)`)
	// named begins a heading in small letters: "Chapter 12".
	named = regexp.MustCompile(`(?i)^(chapter|book|part|section|act|scene|canto|volume|letter|preface|introduction|prologue|epilogue|appendix|advertisement)\b`)
	// capital is a word of a heading in capitals.
	capital = regexp.MustCompile(`\p{Lu}{2,}`)
	lower   = regexp.MustCompile(`\p{Ll}`)
)

// splitHeading returns the heading that a paragraph is or begins with, and the rest.
func splitHeading(p string) (heading, rest string) {
	if m := runIn.FindStringSubmatch(p); m != nil {
		return m[1] + " " + m[2], p[len(m[0]):]
	}
	short := strings.Count(p, "\n") < 3 && len(p) <= 100
	line := strings.TrimRight(squeeze(plain(p)), ".")
	first, _ := utf8.DecodeRuneInString(line)
	switch {
	case !short || line == "" || !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZ", first):
	case capital.MatchString(line) && !lower.MatchString(line),
		named.MatchString(line) && !strings.ContainsAny(line, "?!;:") && wordCount(line) <= 8:
		return line, ""
	}
	return "", p
}

// plain removes the underscores that mark italics.
func plain(text string) string { return strings.ReplaceAll(text, "_", "") }

// abbreviations end in a full stop that does not end a sentence.
var abbreviations = []string{"mr", "mrs", "dr", "st", "fig", "viz", "i.e", "e.g", "vs", "vol", "chap", "sect", "lect", "lib",
	"prop", "theor", "prob", "obs", "exper", "qu", "quest", "ax", "defin", "cor", "cap", "no", "sin", "etc", "cf", "pag", "p", "opt", "part"}

// splitSentence returns the first sentence of a text and the rest. White space in the sentence,
// line breaks included, becomes one blank.
func splitSentence(text string) (sentence, rest string) {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		i += n
		if (r == '.' || r == '?' || r == '!') && endsSentence(text[:i], text[i:]) {
			after := len(text[i:]) - len(strings.TrimLeft(text[i:], closing))
			return squeeze(text[:i+after]), strings.TrimSpace(text[i+after:])
		}
		if r == '\n' && strings.HasPrefix(text[i:], "\n") { // the paragraph ends
			return squeeze(text[:i]), strings.TrimSpace(text[i:])
		}
	}
	return squeeze(text), ""
}

// closing are the characters that may follow the mark that ends a sentence.
const closing = `"')]_”’`

// endsSentence reports whether the mark at the end of before ends a sentence.
func endsSentence(before, after string) bool {
	after = strings.TrimLeft(after, closing)
	next := strings.TrimLeftFunc(after, unicode.IsSpace)
	if next == "" {
		return true
	}
	if len(next) == len(after) {
		return false
	}
	if r, _ := utf8.DecodeRuneInString(strings.TrimLeft(next, `"'([_“‘`)); unicode.IsLower(r) {
		return false
	}
	if !strings.HasSuffix(before, ".") {
		return true
	}
	at := strings.LastIndexFunc(before[:len(before)-1], func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("([_“\"", r) })
	word := strings.ToLower(before[at+1 : len(before)-1])
	return utf8.RuneCountInString(word) != 1 && !slices.Contains(abbreviations, word)
}

func complete(sentence string) bool {
	sentence = strings.TrimRight(sentence, closing)
	return sentence != "" && strings.ContainsAny(sentence[len(sentence)-1:], ".?!")
}

// squeeze replaces white space by single blanks.
func squeeze(text string) string { return strings.Join(strings.Fields(text), " ") }

func wordCount(text string) int { return len(strings.Fields(text)) }
