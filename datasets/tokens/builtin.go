package tokens

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/andybalholm/brotli"
)

// The vocabularies of OpenAI's tiktoken (MIT), packed by `brotli -q 11 -w 24`, which reading
// Parquet links anyway. Each token is its length as a varint and its bytes. Its place is its id.
var (
	//go:embed data/cl100k_base.br
	cl100kFile []byte
	//go:embed data/o200k_base.br
	o200kFile []byte
)

// builtinNames are the vocabularies in the program.
var builtinNames = []string{"cl100k_base", "o200k_base"}

var (
	cl100kBase = sync.OnceValue(func() *bpe { return unpack("cl100k_base", cl100kFile, cl100kPiece) })
	o200kBase  = sync.OnceValue(func() *bpe { return unpack("o200k_base", o200kFile, o200kPiece) })
)

// builtin returns a built-in tokenizer, nil if the name is not in builtinNames. Special tokens
// are read as text.
func builtin(name string) Tokenizer {
	switch name {
	case "cl100k_base":
		return cl100kBase()
	case "o200k_base":
		return o200kBase()
	}
	return nil
}

// unpack makes a tokenizer from a packed vocabulary and a function that returns the length of
// a text's first piece. It panics if the embedded file is damaged.
func unpack(name string, packed []byte, first func(string) int) *bpe {
	raw, err := io.ReadAll(brotli.NewReader(bytes.NewReader(packed)))
	must(err)
	t := &bpe{name: name, byteLevel: true, ignoreMerges: true, unknown: -1}
	t.ids, t.texts = make(map[string]int, 1<<17), make(map[int]string, 1<<17)
	text := string(raw)
	for at, id := 0, 0; at < len(text); id++ {
		length, size := binary.Uvarint(raw[at:])
		at += size
		token := text[at : at+int(length)]
		at += int(length)
		t.ids[token], t.texts[id] = id, token
	}
	t.splitters = []splitter{func(texts []string, _ bool) (pieces []string) {
		for _, s := range texts {
			for s != "" {
				n := first(s)
				pieces, s = append(pieces, s[:n]), s[n:]
			}
		}
		return pieces
	}}
	return t
}

// cl100kPiece follows the expression of cl100k_base (tiktoken_ext/openai_public.py):
//
//	'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func cl100kPiece(s string) int {
	if n := contraction(s); n > 0 {
		return n
	}
	start := leading(s)
	if n := run(s[start:], unicode.IsLetter); n > 0 {
		return start + n
	}
	return otherPiece(s, "\r\n")
}

// o200kPiece follows the expression of o200k_base, in which C is a contraction:
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+C?|
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*C?|
//	\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
func o200kPiece(s string) int {
	start := leading(s)
	for _, word := range []func(string) int{lowerWord, upperWord} {
		for _, from := range []int{start, 0} {
			if n := word(s[from:]); n > 0 {
				return from + n + contraction(s[from+n:])
			}
		}
	}
	return otherPiece(s, "\r\n/")
}

// lowerWord returns the length of a word that ends in small letters, 0 if there is none. Letters
// without case and marks count as both.
func lowerWord(s string) int {
	upper := run(s, notLower)
	if n := run(s[upper:], notUpper); n > 0 {
		return upper + n
	}
	last := strings.LastIndexFunc(s[:upper], notUpper)
	if last < 0 {
		return 0
	}
	_, size := utf8.DecodeRuneInString(s[last:])
	return last + size
}

// upperWord returns the length of a word of capital letters. No small letter follows it, because
// lowerWord has then matched.
func upperWord(s string) int { return run(s, notLower) }

// notLower is \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}, notUpper \p{Ll}\p{Lm}\p{Lo}\p{M}.
func notLower(c rune) bool { return unicode.IsLetter(c) && !unicode.IsLower(c) || unicode.IsMark(c) }
func notUpper(c rune) bool {
	return unicode.IsLetter(c) && !unicode.IsUpper(c) && !unicode.IsTitle(c) || unicode.IsMark(c)
}

// contraction returns the length of 's, 't, 're, 've, 'm, 'll or 'd at the beginning of s, in any
// case. It is 0 if there is none. The long s is an s, as in Unicode's case folding.
func contraction(s string) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	switch s[1] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	}
	for _, end := range []string{"re", "ve", "ll", "ſ"} {
		if len(s) > 2 && strings.EqualFold(s[1:3], end) {
			return 3
		}
	}
	return 0
}

// leading returns the size of a first character that is no letter, number or newline.
func leading(s string) int {
	c, size := utf8.DecodeRuneInString(s)
	if c == '\r' || c == '\n' || isWord(c) {
		return 0
	}
	return size
}

func isWord(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }

// otherPiece returns the length of a first piece of numbers, of marks, or of white space.
// Characters of behind may follow the marks.
func otherPiece(s, behind string) int {
	digits := 0
	for range 3 {
		c, size := utf8.DecodeRuneInString(s[digits:])
		if !unicode.IsNumber(c) {
			break
		}
		digits += size
	}
	if digits > 0 {
		return digits
	}
	space := len(s) - len(strings.TrimPrefix(s, " "))
	if n := run(s[space:], func(c rune) bool { return !isWord(c) && !unicode.IsSpace(c) }); n > 0 {
		end := space + n
		return len(s) - len(strings.TrimLeft(s[end:], behind))
	}
	blank := run(s, unicode.IsSpace)
	if newline := strings.LastIndexAny(s[:blank], "\r\n"); newline >= 0 {
		return newline + 1
	}
	_, last := utf8.DecodeLastRuneInString(s[:blank])
	if blank == len(s) || blank == last {
		return blank
	}
	return blank - last // the last one belongs to the next piece
}

// run returns the length of the longest beginning of s whose characters are all in a class.
func run(s string, in func(rune) bool) int {
	for i, c := range s {
		if !in(c) {
			return i
		}
	}
	return len(s)
}

// must panics on an error that only damage to the program could cause.
func must(err error) {
	if err != nil {
		panic("tokens: " + err.Error())
	}
}
