package offline

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// abbreviations end in a full stop that ends no sentence.
var abbreviations = []string{"mr", "mrs", "dr", "st", "fig", "viz", "i.e", "e.g", "vs", "vol", "chap", "sect", "lect", "lib",
	"prop", "theor", "prob", "obs", "exper", "qu", "quest", "ax", "defin", "cor", "cap", "no", "sin", "etc", "cf", "pag", "p", "opt", "part"}

// splitSentence returns the first sentence of a text and the rest. White space, line
// breaks included, becomes one blank in the sentence.
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

// closing may stand between the mark that ends a sentence and the blank behind it.
const closing = `"')]_”’`

// endsSentence says whether the mark at the end of before ends a sentence.
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

// complete says whether a sentence has its end.
func complete(sentence string) bool {
	sentence = strings.TrimRight(sentence, closing)
	return sentence != "" && strings.ContainsAny(sentence[len(sentence)-1:], ".?!")
}

// squeeze makes white space single blanks.
func squeeze(text string) string { return strings.Join(strings.Fields(text), " ") }

// wordCount is the number of words.
func wordCount(text string) int { return len(strings.Fields(text)) }

// paragraphs splits a text at empty lines.
func paragraphs(text string) (list []string) {
	var current []string
	end := func() {
		if len(current) > 0 {
			list = append(list, strings.Join(current, "\n"))
		}
		current = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" {
			end()
			continue
		}
		current = append(current, line)
	}
	end()
	return list
}
