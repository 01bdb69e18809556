package tokens_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/tokens"
	"github.com/kvreplay/kvreplay/internal/fatal"
)

// TestBuiltin compares ids with tiktoken's documentation and tests (openai/tiktoken,
// tests/test_encoding.py).
func TestBuiltin(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		ids  []int
	}{
		"":            {"hello world", []int{15339, 1917}},
		"cl100k_base": {"rer", []int{38149}},
		"o200k_base":  {"hello world", []int{24912, 2375}},
	} {
		tok, err := tokens.Open(name)
		fatal.If(t, err)
		if got := tok.Encode(c.text); !slices.Equal(got, c.ids) {
			t.Errorf("%s: %v, want %v", tok.Name(), got, c.ids)
		}
		if tokens.Count(tok, c.text) != len(c.ids) {
			t.Errorf("%s: counted %d, want %d", tok.Name(), tokens.Count(tok, c.text), len(c.ids))
		}
		for _, text := range []string{"", c.text, "a\u00e9\u4e2d\U0001F600 \n\n\tb  ", "<|endoftext|>", strings.Repeat("x", 300), "\x7f a\x7f\x7f"} {
			if got, err := tok.Decode(tok.Encode(text)); err != nil || got != text {
				t.Errorf("%s: %q became %q, %v", tok.Name(), text, got, err)
			}
		}
		if got, _ := tok.Decode(tok.Encode("a\xffb")); got != "a\uFFFDb" {
			t.Errorf("%s: bytes that are not UTF-8 became %q", tok.Name(), got)
		}
		for _, id := range []int{-1, 1 << 40} {
			if _, err := tok.Decode([]int{id}); err == nil {
				t.Errorf("%s: decoded %d", tok.Name(), id)
			}
		}
	}
}

// TestBlankLines: white space up to its last newline is one piece, ids by tiktoken 0.14.
func TestBlankLines(t *testing.T) {
	tok, err := tokens.Open("cl100k_base")
	fatal.If(t, err)
	for text, ids := range map[string][]int{
		"a\n \nb":      {64, 27907, 65},
		"};\n  \n \nx": {2499, 2355, 720, 87},
	} {
		if got := tok.Encode(text); !slices.Equal(got, ids) || tokens.Count(tok, text) != len(ids) {
			t.Errorf("%q became %v, counted %d, want %v", text, got, tokens.Count(tok, text), ids)
		}
	}
}

func TestUnknown(t *testing.T) {
	_, err := tokens.Open("cl100k_bas")
	if err == nil || !strings.Contains(err.Error(), "cl100k_base?") {
		t.Errorf("%v, want the nearest name", err)
	}
}
