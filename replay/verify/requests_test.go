package verify

import (
	"errors"
	"slices"
	"testing"
)

func TestSplit(t *testing.T) {
	known := map[string]bool{"a": true, "a,b": true, "b": true, "c,": true, "d,e": true}
	for text, want := range map[string][]string{
		"a": {"a"}, "b,a": {"b", "a"}, "c,,a": {"c,", "a"}, "d,e": {"d,e"}, "d,e,d,e,b": {"d,e", "d,e", "b"},
		"a,x": nil, "x": nil, ",a": nil, "a,": nil, "d": nil, "e,d": nil,
	} {
		got, err := split(text, known)
		if !slices.Equal(got, want) || (err != nil) != (want == nil) || errors.Is(err, errAmbiguous) {
			t.Errorf("%q: %q, %v, expected %q", text, got, err, want)
		}
	}
	for _, text := range []string{"a,b", "b,a,b,a"} {
		if _, err := split(text, known); !errors.Is(err, errAmbiguous) {
			t.Errorf("%q: %v, expected it to be ambiguous", text, err)
		}
	}
}
