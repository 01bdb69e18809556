package longbench

import (
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// Lengths are worked by hand from pred.py: v1 keeps int(n/2) on both sides, v2 n//2 and
// -(-n//2).
func TestCut(t *testing.T) {
	for _, c := range []struct {
		length  int
		v1, v2  string
		because string
	}{
		{0, "abcdefghij", "abcdefghij", "uncut"},
		{10, "abcdefghij", "abcdefghij", "fits"},
		{6, "abchij", "abchij", "halves"},
		{7, "abchij", "abcghij", "odd"},
		{1, "", "j", "one"},
	} {
		for name, f := range map[string]struct {
			cut  cut
			want string
		}{"v1": {cutHalves, c.v1}, "v2": {cutMiddle, c.v2}} {
			if got, err := f.cut(runes{}, "abcdefghij", c.length); err != nil || got != f.want {
				t.Errorf("%s to %d (%s): %q, %v, want %q", name, c.length, c.because, got, err, f.want)
			}
		}
	}
}

// A cut inside a character leaves a replacement character, not broken UTF-8.
func TestCutCharacter(t *testing.T) {
	tok := builtin(t)
	text := "龘靐齉爩龘靐齉爩龘靐齉爩" // several tokens a character
	if len(tok.Encode(text)) <= 12 {
		t.Fatal("expected characters of several tokens")
	}
	for n := 2; n < 30; n++ {
		for _, f := range []cut{cutHalves, cutMiddle} {
			got, err := f(tok, text, n)
			fatal.If(t, err)
			if decoded := []rune(got); string(decoded) != got {
				t.Errorf("cut to %d: %q is not UTF-8", n, got)
			}
		}
	}
}

// U+1F469 is three tokens, of two, one and one bytes. Python writes its bytes 1 to 3 as one U+FFFD
// and its bytes 3 and 4 as two. Decoded together, some of them make another character.
func TestCutCharacterAsPython(t *testing.T) {
	tok := builtin(t)
	text := "\U0001F469\U0001F469\U0001F469\U0001F469"
	if n := len(tok.Encode(text)); n != 12 {
		t.Fatalf("%d tokens, expected 12", n)
	}
	for name, c := range map[string]struct {
		cut  cut
		want string
	}{
		"v1": {cutHalves, "\U0001F469\uFFFD\uFFFD\uFFFD\U0001F469"},
		"v2": {cutMiddle, "\U0001F469\U0001F451\uFFFD\U0001F469"},
	} {
		if got, err := c.cut(tok, text, 10); err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}
