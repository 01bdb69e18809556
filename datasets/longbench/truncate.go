package longbench

import (
	"fmt"
	"slices"

	"golang.org/x/text/encoding/unicode"

	"github.com/kvreplay/kvreplay/datasets/tokens"
)

// cut shortens a prompt to so many tokens; 0 leaves it as it is.
type cut func(t tokens.Tokenizer, prompt string, length int) (string, error)

// cutHalves keeps the first and the last half of the tokens, as pred.py of v1: both
// halves are length/2 rounded down, decoded each on its own and joined. It counts the
// tokenizer's special tokens, which ours does not add: one more token of text fits.
func cutHalves(t tokens.Tokenizer, prompt string, length int) (string, error) {
	ids, err := excess(t, prompt, length)
	if ids == nil || err != nil {
		return prompt, err
	}
	half := length / 2
	first, err := decode(t, ids[:half])
	if err != nil {
		return "", err
	}
	last, err := decode(t, ids[len(ids)-half:])
	return first + last, err
}

// cutMiddle is pred.py of v2: the halves are decoded together, and an odd length gives
// its last token to the second.
func cutMiddle(t tokens.Tokenizer, prompt string, length int) (string, error) {
	ids, err := excess(t, prompt, length)
	if ids == nil || err != nil {
		return prompt, err
	}
	return decode(t, slices.Concat(ids[:length/2], ids[len(ids)-(length+1)/2:]))
}

// excess returns the tokens of a prompt that is too long, else nil.
func excess(t tokens.Tokenizer, prompt string, length int) ([]int, error) {
	if length == 0 {
		return nil, nil
	}
	ids := t.Encode(prompt)
	if len(ids) <= length {
		return nil, nil
	}
	return ids, nil
}

// decode writes what is left of cut characters as U+FFFD, as many as Python's decoders
// do: one for the beginning of a character, one for each byte that continues none.
func decode(t tokens.Tokenizer, ids []int) (string, error) {
	text, err := t.Decode(ids)
	if err != nil {
		return "", fmt.Errorf("cut prompt: %w", err)
	}
	text, err = unicode.UTF8.NewDecoder().String(text)
	if err != nil {
		return "", fmt.Errorf("cut prompt: %w", err)
	}
	return text, nil
}

// checkLength refuses a length that would cut into the instructions themselves.
func checkLength(t tokens.Tokenizer, task, empty string, length int) error {
	if own := tokens.Count(t, empty); length != 0 && length <= own {
		return fmt.Errorf("length %d is too short for %s: its instructions alone are %d tokens", length, task, own)
	}
	return nil
}
