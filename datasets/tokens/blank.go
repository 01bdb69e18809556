package tokens

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// blank finds the first white space from a position on that is one piece and has
// newlines with other white space between them, as between paragraphs whose empty lines
// are not quite empty. \s*[\r\n]+ takes it up to its last newline; the library's
// generated matcher (0.10.0) stops at the first. Where there is none, to is −1.
func (t tiktoken) blank(text string, from int) (start, to int) {
	for at := from; ; {
		newline := strings.IndexAny(text[at:], "\r\n")
		if newline < 0 {
			return 0, -1
		}
		at += newline
		start := from + len(strings.TrimRightFunc(text[from:at], unicode.IsSpace))
		end := len(text) - len(strings.TrimLeftFunc(text[at:], unicode.IsSpace))
		if start == at && t.takesNewlines(text[from:at]) {
			start = end - len(strings.TrimLeft(text[at:end], "\r\n"))
		}
		if start < end {
			piece := text[start : start+1+strings.LastIndexAny(text[start:end], "\r\n")]
			if inner := strings.TrimLeft(strings.TrimLeftFunc(piece, isBlank), "\r\n"); inner != "" {
				return start, start + len(piece)
			}
		}
		at = end
	}
}

// isBlank says that a character of white space is not a newline.
func isBlank(c rune) bool { return c != '\r' && c != '\n' }

// takesNewlines says whether newlines behind text belong to its last piece: they do where
// that is of characters that are neither letters nor numbers. In o200k_base a mark goes
// with the character before it, and ends such a piece only where that one is inside it.
func (t tiktoken) takesNewlines(text string) bool {
	last, size := utf8.DecodeLastRuneInString(text)
	if !t.markedWords || !unicode.IsMark(last) {
		return size > 0 && !isWord(last)
	}
	text = strings.TrimRightFunc(text, unicode.IsMark)
	bearer, size := utf8.DecodeLastRuneInString(text)
	before, _ := utf8.DecodeLastRuneInString(text[:len(text)-size])
	return size > 0 && size < len(text) && !isWord(bearer) && !unicode.IsSpace(bearer) &&
		(before == ' ' || !isWord(before) && !unicode.IsSpace(before) && !unicode.IsMark(before))
}

func isWord(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }

// blankTokens are the tokens of white space by themselves: a pair becomes one where the
// vocabulary has it, the one of the lowest id first.
func (t tiktoken) blankTokens() *bpe {
	b := &bpe{name: t.Name(), byteLevel: true, ignoreMerges: true, unknown: -1, ids: make(map[string]int), merges: make(map[[2]int32]merge)}
	var bytes strings.Builder
	for c := range rune(unicode.MaxRune) {
		if unicode.IsSpace(c) {
			bytes.WriteRune(c)
		}
	}
	isOf := func(text, set string) bool {
		for i := range len(text) {
			if strings.IndexByte(set, text[i]) < 0 {
				return false
			}
		}
		return true
	}
	for id := uint(0); ; id++ {
		text, err := t.codec.Decode([]uint{id})
		if err != nil {
			break
		}
		if isOf(text, bytes.String()) {
			b.ids[text] = int(id)
		}
	}
	for text, id := range b.ids {
		for i := 1; i < len(text); i++ {
			left, ok := b.ids[text[:i]]
			if right, both := b.ids[text[i:]]; ok && both {
				b.merges[[2]int32{int32(left), int32(right)}] = merge{int32(id), int32(id)}
			}
		}
	}
	return b
}
