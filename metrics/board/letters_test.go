package board

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

func TestLetters(t *testing.T) {
	table := mustBoard(t, rowstest.LetteredRows()).Tables[0]
	for i, want := range []string{"best a", "close a", "worse b"} {
		if got := fmt.Sprint(table.Ranked[i].Policy, " ", table.Ranked[i].Letters); got != want {
			t.Errorf("line %d: %s, want %s", i+1, got, want)
		}
	}
	rowstest.WantNote(t, table.Notes, "Permutation test over 7 requests, Holm for 3 pairs, p < 0.05")
	// All seven requests are worse than both others: 2 ÷ 2⁷, times 3 and times 2.
	for _, pair := range table.Pairs {
		if pair.B == "worse" && (pair.P != 2./128 || math.Abs(pair.Holm-3*2./128) > 1e-9) || pair.B == "close" && pair.Holm < 0.5 {
			t.Errorf("%+v", pair)
		}
	}
	if len(table.Pairs) != 3 {
		t.Errorf("%d pairs", len(table.Pairs))
	}
}

// TestLettersOfALossyBoard: six requests can decide one pair.
func TestLettersOfALossyBoard(t *testing.T) {
	for gap, want := range map[int64]string{30: "a b", 0: "a a"} {
		var rows []result.Row
		for i := range int64(6) {
			rows = append(rows, rowstest.ForRequest(rowstest.LossyRow("a", "h2o", "1x", 10+3*i, 0.5), fmt.Sprint(i)), rowstest.ForRequest(rowstest.LossyRow("a", "snapkv", "1x", 11+gap+(7*i)%13, 0.4), fmt.Sprint(i)))
		}
		ranked := mustBoard(t, rows).Lossy.Ranked
		if got := ranked[0].Letters + " " + ranked[1].Letters; got != want {
			t.Errorf("%d more lost: letters %s, want %s", gap, got, want)
		}
	}
}

// By hand: sorted 0.005 × 4, 0.01 × 3, 0.03 × 2, 0.04 × 1, each at least the one before.
func TestHolm(t *testing.T) {
	for i, got := range holm([]float64{0.01, 0.04, 0.03, 0.005}) {
		if want := []float64{0.03, 0.06, 0.06, 0.02}[i]; math.Abs(got-want) > 1e-12 {
			t.Errorf("p %d: %v, want %v", i, got, want)
		}
	}
	if got := holm([]float64{0.9, 0.8}); got[0] != 1 || got[1] != 1 {
		t.Errorf("%v, want at most 1", got)
	}
}

func TestLettersByHand(t *testing.T) {
	for _, c := range []struct {
		n         int
		different [][2]int
		want      string
	}{
		{3, nil, "a a a"},
		{3, [][2]int{{0, 2}}, "a ab b"},
		{3, [][2]int{{0, 1}, {0, 2}, {1, 2}}, "a b c"},
		{4, [][2]int{{0, 2}, {0, 3}, {1, 3}}, "a ab bc c"},
		{4, [][2]int{{0, 1}, {2, 3}}, "ab cd ac bd"},
		{1, nil, "a"},
	} {
		if got := strings.Join(lettersOf(c.n, c.different), " "); got != c.want {
			t.Errorf("%d items, %v different: %s, want %s", c.n, c.different, got, c.want)
		}
	}
	var pairs [][2]int // 2¹⁰ groups: more than there are letters
	for i := range 10 {
		pairs = append(pairs, [2]int{2 * i, 2*i + 1})
	}
	if got := lettersOf(20, pairs); got != nil {
		t.Errorf("letters %q of a thousand groups", got)
	}
}

// TestLettersSayWhatDiffers: two items share a letter if and only if they do not differ. No
// letter's group is part of another's.
func TestLettersSayWhatDiffers(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 4))
		n := 1 + rng.IntN(9)
		differ := map[[2]int]bool{}
		var pairs [][2]int
		for i := range n {
			for j := i + 1; j < n; j++ {
				if rng.IntN(3) > 0 {
					differ[[2]int{i, j}] = true
					pairs = append(pairs, [2]int{i, j})
				}
			}
		}
		letters := lettersOf(n, pairs)
		for i := range n {
			for j := i + 1; j < n; j++ {
				if share := strings.ContainsAny(letters[i], letters[j]); share == differ[[2]int{i, j}] {
					t.Fatalf("seed %d: %q, different %v", seed, letters, pairs)
				}
			}
		}
		for _, one := range alphabet {
			for _, other := range alphabet {
				inOne, inBoth := 0, 0
				for _, l := range letters {
					if strings.ContainsRune(l, one) {
						inOne++
						if strings.ContainsRune(l, other) {
							inBoth++
						}
					}
				}
				if one != other && inOne > 0 && inOne == inBoth {
					t.Fatalf("seed %d: %q: %c is part of %c", seed, letters, one, other)
				}
			}
		}
	}
}
