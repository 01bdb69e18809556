package render

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

func mustCompare(t *testing.T, rows []result.Row, a, b string) *board.Comparison {
	t.Helper()
	c, err := board.Compare(rows, a, b, board.Options{})
	fatal.If(t, err)
	return c
}

// TestCompareIsSymmetricWithoutMisses: if resamples of one side have no miss, the ratio is 0 or
// infinite. The two orders agree then too.
func TestCompareIsSymmetricWithoutMisses(t *testing.T) {
	check := func(a, b []int64) *board.Comparison {
		t.Helper()
		rows := append(rowstest.ByRequest("p", a), rowstest.ByRequest("q", b)...)
		c := mustCompare(t, rows, "p", "q")
		d, e := c.Groups[0].Pooled, mustCompare(t, rows, "q", "p").Groups[0].Pooled
		if (d.Better == nil) != (e.Better == nil) || d.Better != nil && *d.Better != *e.Better {
			t.Errorf("%v and %v: better %v and, the other way, %v", a, b, d.Better, e.Better)
		}
		inverse := func(low, high *float64) bool {
			return low == nil && high == nil || low != nil && *low == 0 && high == nil || low != nil && high != nil && math.Abs(*low**high-1) < 1e-8
		}
		if d.Ratio != nil && e.Ratio != nil && !(inverse(d.Ratio.Low, e.Ratio.High) && inverse(e.Ratio.Low, d.Ratio.High)) {
			t.Errorf("%v and %v: %s and, the other way, %s", a, b, ratioUnit.interval(d.Ratio), ratioUnit.interval(e.Ratio))
		}
		return c
	}
	c := check([]int64{10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, []int64{5, 6, 4, 6, 5, 7, 3, 3, 3, 3, 3, 7})
	if better := c.Groups[0].Pooled.Better; better == nil || *better != "p" {
		t.Errorf("better %v, want p", better)
	}
	c = check([]int64{0, 0, 0, 0, 0, 0, 0, 0}, []int64{13, 14, 15, 16, 17, 18, 19, 20})
	if better := c.Groups[0].Pooled.Better; better == nil || *better != "p" {
		t.Errorf("never a miss against always some: better %v, want p", better)
	}
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 8))
		n := 5 + rng.IntN(8)
		a, b := make([]int64, n), make([]int64, n)
		for i := range a {
			if a[i] = 0; rng.IntN(3) == 0 {
				a[i] = rng.Int64N(30)
			}
			b[i] = rng.Int64N(9) * rng.Int64N(2)
		}
		check(a, b)
	}
}

// TestCompareWithoutMissesSays: a ratio to no miss is shown as such. A p is explained wherever it
// is shown.
func TestCompareWithoutMissesSays(t *testing.T) {
	none, some := make([]int64, 8), []int64{13, 14, 15, 16, 17, 18, 19, 20}
	for _, c := range []struct {
		a    []int64
		want string
	}{{some, "∞  [∞, ∞]"}, {none, "n/a   n/a           0:0:8  1"}} {
		var out bytes.Buffer
		fatal.If(t, Comparison(mustCompare(t, append(rowstest.ByRequest("p", c.a), rowstest.ByRequest("q", none)...), "p", "q"), Whole).Text(&out))
		for _, text := range []string{c.want, "p: two-sided permutation test"} {
			if !strings.Contains(out.String(), text) {
				t.Errorf("misses %v against none: no %q in\n%s", c.a, text, &out)
			}
		}
	}
}

func TestCompareRenderings(t *testing.T) {
	c := mustCompare(t, rowstest.Synthetic(), "s3fifo", "lru")
	for name, render := range map[string]func(io.Writer) error{"compare.txt": Comparison(c, View{}).Text, "compare.md": Comparison(c, Whole).Markdown} {
		var out bytes.Buffer
		fatal.If(t, render(&out))
		rowstest.Golden(t, name, out.Bytes())
	}
	var out bytes.Buffer
	fatal.If(t, text.WriteJSON(&out, c))
	var back board.Comparison
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || !reflect.DeepEqual(&back, c) {
		t.Errorf("JSON does not read back: %v", err)
	}
}
