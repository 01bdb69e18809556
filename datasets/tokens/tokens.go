// Package tokens counts and cuts text in tokens.
//
// Two vocabularies are built in: cl100k_base (the default) and o200k_base of OpenAI's
// tiktoken. The tokenizer of a model is read from its tokenizer.json. Another vocabulary
// than the model's gives approximate lengths, so lengths are stored with Name.
package tokens

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
)

// Default is the default tokenizer. RULER's scripts use it for OpenAI's models, and Llama 3's
// vocabulary extends it.
const Default = "cl100k_base"

// Tokenizer turns text into tokens and back. It may be used by several goroutines.
type Tokenizer interface {
	// Name identifies vocabulary and rules: two tokenizers of one name give the same tokens. It
	// contains no path.
	Name() string

	// Encode returns the tokens of text, without adding a token before or after it. Bytes that are not
	// UTF-8 count as U+FFFD.
	Encode(text string) []int

	// Decode returns the text of tokens. If they begin or end inside a character, the text has only
	// part of its bytes. An id that the vocabulary lacks is an error.
	Decode(ids []int) (string, error)
}

// Open returns the tokenizer of a name: "" for Default, a built-in vocabulary, or the path of a
// tokenizer.json or of its folder.
func Open(name string) (Tokenizer, error) {
	name = cmp.Or(name, Default)
	if t := builtin(name); t != nil {
		return t, nil
	}
	if _, err := os.Stat(name); err != nil {
		if found, err := names.Find("tokenizer", name, names.Of(builtinNames...)); err == nil {
			return builtin(found), nil
		}
		return nil, fmt.Errorf("open tokenizer %q: no such file, and not built in%s (built in: %s)", name, names.Nearest(name, builtinNames), strings.Join(builtinNames, ", "))
	}
	return openFile(name)
}

// counter is an optional method of a tokenizer: Encode's length without the ids.
type counter interface{ count(text string) int }

// Count returns the number of tokens of text.
func Count(t Tokenizer, text string) int {
	if c, ok := t.(counter); ok {
		return c.count(text)
	}
	return len(t.Encode(text))
}
