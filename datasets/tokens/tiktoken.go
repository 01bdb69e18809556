package tokens

import (
	"fmt"
	"strings"
	"sync"

	"github.com/tiktoken-go/tokenizer/codec"
)

// builtinNames are the vocabularies that the program holds.
var builtinNames = []string{"cl100k_base", "o200k_base"}

// builtin returns a built-in tokenizer, nil where there is none of that name.
func builtin(name string) Tokenizer {
	switch name {
	case "cl100k_base":
		return newTiktoken(codec.NewCl100kBase(), false)
	case "o200k_base":
		return newTiktoken(codec.NewO200kBase(), true)
	}
	return nil
}

// tiktoken is a built-in vocabulary. Its special tokens are read as text.
type tiktoken struct {
	codec       *codec.Codec
	markedWords bool        // words have marks in them
	blanks      func() *bpe // made when it is needed first
}

func newTiktoken(c *codec.Codec, markedWords bool) tiktoken {
	t := tiktoken{codec: c, markedWords: markedWords}
	t.blanks = sync.OnceValue(t.blankTokens)
	return t
}

// Name is that of the encoding in tiktoken.
func (t tiktoken) Name() string { return t.codec.GetName() }

// Encode implements Tokenizer.
func (t tiktoken) Encode(text string) (ids []int) {
	t.each(text, func(part string) {
		list, _, err := t.codec.Encode(part)
		must(err)
		for _, id := range list {
			ids = append(ids, int(id))
		}
	}, func(list ...int32) {
		for _, id := range list {
			ids = append(ids, int(id))
		}
	})
	return ids
}

func (t tiktoken) count(text string) (total int) {
	t.each(text, func(part string) {
		n, err := t.codec.Count(part)
		must(err)
		total += n
	}, func(list ...int32) { total += len(list) })
	return total
}

// deleted is the token of U+007F in both vocabularies.
const deleted = 221

// each yields the text in parts, and the tokens of those that the library (0.10.0) gets
// wrong: it loses U+007F, as its generated matcher ends a class one character early, and
// splits what blank finds. No longer token has U+007F.
func (t tiktoken) each(text string, yield func(part string), tokens func(ids ...int32)) {
	part := func(text string) {
		if text != "" {
			yield(text)
		}
	}
	for i, text := range strings.Split(strings.ToValidUTF8(text, "\uFFFD"), "\x7f") {
		at := 0
		if i > 0 {
			tokens(deleted)
			at = len(text) - len(strings.TrimLeft(text, "\r\n")) // of its piece
			part(text[:at])
		}
		for start, to := t.blank(text, at); to >= 0; start, to = t.blank(text, at) {
			part(text[at:start])
			tokens(t.blanks().piece(text[start:to])...)
			at = to
		}
		part(text[at:])
	}
}

// Decode implements Tokenizer.
func (t tiktoken) Decode(ids []int) (string, error) {
	list := make([]uint, len(ids))
	for i, id := range ids {
		if id < 0 {
			return "", fmt.Errorf("decode by %s: token %d, expected 0 or more", t.Name(), id)
		}
		list[i] = uint(id)
	}
	text, err := t.codec.Decode(list)
	if err != nil {
		return "", fmt.Errorf("decode by %s: %w", t.Name(), err)
	}
	return text, nil
}

// must panics on an error that only a time limit on matching could cause; none is set.
func must(err error) {
	if err != nil {
		panic("tokens: " + err.Error())
	}
}
