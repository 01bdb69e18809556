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
func (t tiktoken) Encode(text string) []int {
	ids, _, err := t.codec.Encode(strings.ToValidUTF8(text, "\uFFFD"))
	must(err)
	out := make([]int, len(ids))
	for i, id := range ids {
		out[i] = int(id)
	}
	return out
}

func (t tiktoken) count(text string) int {
	n, err := t.codec.Count(strings.ToValidUTF8(text, "\uFFFD"))
	must(err)
	return n
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
