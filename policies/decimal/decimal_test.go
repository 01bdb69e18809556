package decimal

import (
	"math"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// Products and quotients are computed from the decimals as typed and rounded down.
func TestTimesAndOver(t *testing.T) {
	for _, c := range []struct {
		text        string
		k           int
		times, over int64
	}{
		{"2.3", 100, 230, 0}, {"1.15", 100, 115, 0}, {"0.29", 100, 29, 0}, {".29", 100, 29, 0}, {"4.35", 100, 435, 0},
		{"2.299", 100, 229, 0}, {"1.5", 3, 4, 0}, {"64.", 3, 192, 21}, {"0064", 3, 192, 21}, {"0", 5, 0, 0}, {"0.0", 5, 0, 0},
		{"0.29999999999999999999", 10, 2, 0}, {strings.Repeat("9", 40), 2, math.MaxInt64, math.MaxInt64},
	} {
		n, err := Parse(c.text)
		fatal.If(t, err)
		if times, over := n.Times(c.k), n.Over(c.k); times != c.times || over != c.over {
			t.Errorf("%s times %d is %d, want %d; over it %d, want %d", c.text, c.k, times, c.times, over, c.over)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", ".", "1.2.3", "-1", "+1", "1e3", "0x10", "0x1p4", "1_000", "1,000", "1/3", "Inf", "NaN", " 1", "١"} {
		if n, err := Parse(text); err == nil {
			t.Errorf("%q is read as %v", text, n.rat)
		}
	}
}

func TestCompare(t *testing.T) {
	var zero Number
	half, err := Parse("0.50")
	fatal.If(t, err)
	if !zero.IsZero() || half.IsZero() || zero.Compare(half) >= 0 || half.Compare(zero) <= 0 || half.Compare(half) != 0 || Int(1).Compare(half) <= 0 {
		t.Error("0, 0.5 and 1 are out of order")
	}
	if n := Int(math.MaxUint64); n.Over(1) != math.MaxInt64 || n.Over(1<<60) != 15 {
		t.Errorf("2⁶⁴-1 over 2⁶⁰ is %d", n.Over(1<<60))
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{"0B": 0, "89B": 89, "1KB": 1000, "64MiB": 64 << 20, "1023PiB": 1023 << 50} {
		if n, err := ParseBytes(text); err != nil || n.Times(1) != want {
			t.Errorf("%s is %d, %v; want %d", text, n.Times(1), err, want)
		}
	}
	for _, text := range []string{"1EiB", "99999999TiB"} {
		if _, err := ParseBytes(text); err != ErrTooManyBytes {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", "B", "-1B", "1x"} {
		if n, err := ParseBytes(text); err == nil || err == ErrTooManyBytes {
			t.Errorf("%q is read as %v, %v", text, n, err)
		}
	}
}
