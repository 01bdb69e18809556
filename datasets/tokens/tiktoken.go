package tokens

import (
	"fmt"
	"strings"

	"github.com/tiktoken-go/tokenizer/codec"
)

// builtinNames are the vocabularies that the program holds.
var builtinNames = []string{"cl100k_base", "o200k_base"}

// builtin returns a built-in tokenizer, nil where there is none of that name.
func builtin(name string) Tokenizer {
	switch name {
	case "cl100k_base":
		return tiktoken{codec.NewCl100kBase()}
	case "o200k_base":
		return tiktoken{codec.NewO200kBase()}
	}
	return nil
}

// tiktoken is a built-in vocabulary. Its special tokens are read as text.
type tiktoken struct{ codec *codec.Codec }

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
	}, func(id int) { ids = append(ids, id) })
	return ids
}

func (t tiktoken) count(text string) (total int) {
	t.each(text, func(part string) {
		n, err := t.codec.Count(part)
		must(err)
		total += n
	}, func(int) { total++ })
	return total
}

// deleted is the token of U+007F in both vocabularies.
const deleted = 221

// each yields the text in parts. The library (0.10.0) loses U+007F, as its generated
// matcher ends a class one character early; no longer token has that character.
func (t tiktoken) each(text string, yield func(part string), del func(id int)) {
	for i, part := range strings.Split(strings.ToValidUTF8(text, "\uFFFD"), "\x7f") {
		if i > 0 {
			del(deleted)
		}
		if part != "" {
			yield(part)
		}
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
