package ruler

import (
	"regexp"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/datasets/prompts/promptstest"
	"github.com/kvreplay/kvreplay/datasets/tokens"
)

// realRows are the first three rows of a file that RULER itself made: niah_multikey_3 at
// 4096 tokens, 500 samples, by one of its first releases (no answer_prefix yet). They are
// NVIDIA's, Apache-2.0.
func realRows(t *testing.T) []*prompts.Row {
	t.Helper()
	rows, _ := promptstest.Read(t, "testdata/niah_multikey_3_4096.jsonl.gz")
	if len(rows) != 3 {
		t.Fatalf("%d rows, want 3", len(rows))
	}
	return rows
}

// TestRealSchema: a file of RULER reads as it is.
func TestRealSchema(t *testing.T) {
	for i, r := range realRows(t) {
		if r.Index != i || len(r.Outputs) != 1 || r.AnswerPrefix != "" || r.TokenPositionAnswer != nil || r.ID != "" {
			t.Errorf("row %d: %+v", i, r)
		}
		if strings.Count(r.Input, r.Outputs[0]) != 1 {
			t.Errorf("row %d: the answer is there %d times", i, strings.Count(r.Input, r.Outputs[0]))
		}
	}
}

// TestRealLength compares RULER's length with ours: the prompt in cl100k_base and 128 tokens to
// generate. RULER's is at most three tokens smaller. 382 of the file's 500 rows agree to the token.
// 118 are one to three shorter, as with a vocabulary that extends cl100k. o200k_base is off in both
// directions.
func TestRealLength(t *testing.T) {
	tok := counter()
	exact := 0
	for i, r := range realRows(t) {
		got := tokens.Count(tok, r.Input) + niahTokens
		if got < r.Length || got > r.Length+3 {
			t.Errorf("row %d: %d tokens, its length is %d", i, got, r.Length)
		}
		if got == r.Length {
			exact++
		}
	}
	if exact == 0 {
		t.Error("no row agrees to the token")
	}
}

var (
	anyUUID    = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	anyNeedles = regexp.MustCompile(`(?:\nOne of the special magic uuids for UUID is: UUID\.)+`)
)

// skeleton returns a prompt with its answer's prefix, without the drawn parts.
func skeleton(r *prompts.Row) string {
	text := anyUUID.ReplaceAllString(r.Input+r.AnswerPrefix, "UUID")
	return anyNeedles.ReplaceAllString(text, "\nNEEDLES")
}

// TestRealStructure checks that our prompts and RULER's differ only in the drawn parts and in the
// number of needles. RULER's haystack grew in steps of 25 needles: 50, and 75 would have been too
// long. Ours grows by one.
func TestRealStructure(t *testing.T) {
	ours, _ := mustMake(t, options(4096, 2, "niah_multikey_3"))
	want := "A special magic uuid is hidden within the following text. Make sure to memorize it. I will quiz you about the uuid afterwards.\n" +
		"NEEDLES\n" +
		"What is the special magic uuid for UUID mentioned in the provided text? The special magic uuid for UUID mentioned in the provided text is"
	for i, r := range append(realRows(t), ours...) {
		if got := skeleton(r); got != want {
			t.Errorf("row %d: %q", i, got)
		}
		n := strings.Count(r.Input, "One of the special magic uuids")
		perNeedle := float64(r.Length-niahTokens) / float64(n)
		switch {
		case i < 3 && (n != 51 || float64(r.Length)+25*perNeedle <= 4096):
			t.Errorf("row %d: %d needles in %d tokens", i, n, r.Length)
		case i >= 3 && float64(r.Length)+2*perNeedle <= 4096:
			t.Errorf("row %d: %d needles in %d tokens", i, n, r.Length)
		}
	}
}

// needleLine is the line of the answer's needle among n.
func needleLine(r *prompts.Row) (line, n int) {
	lines := strings.Split(r.Input, "\n")
	lines = lines[1 : len(lines)-1]
	for i, l := range lines {
		if strings.Contains(l, r.Outputs[0]) {
			line = i
		}
	}
	return line, len(lines)
}

// TestNeedlePositions: RULER puts the needle before a line of the haystack, with equal chances, so
// never last. In the 500 rows of the real file it is in line 0 … 49 of 51. In ours every tenth of
// the lines has its share.
func TestNeedlePositions(t *testing.T) {
	for i, r := range realRows(t) {
		if line, n := needleLine(r); line == n-1 {
			t.Errorf("row %d: needle in line %d of %d", i, line, n)
		}
	}
	if testing.Short() {
		t.Skip("makes 600 samples")
	}
	rows, _ := mustMake(t, options(1024, 600, "niah_multikey_3"))
	var tenths [10]int
	for _, r := range rows {
		line, n := needleLine(r)
		if line == n-1 {
			t.Errorf("%s: needle in the last line, %d", r.ID, line)
		}
		tenths[line*10/(n-1)]++
	}
	for i, got := range tenths { // 60 each by expectation, standard deviation 7.3. Lines do not divide evenly
		if got < 25 || got > 110 {
			t.Errorf("%d of 600 needles in tenth %d: %v", got, i, tenths)
		}
	}
}

// TestEssayDepths: needles in essays are before a sentence at one of 40 depths of 0 … 100 %.
func TestEssayDepths(t *testing.T) {
	seen := make(map[int]bool)
	for i := range 400 {
		d := draws{name: "depths"}
		positions := essayPositions(d.stream("positions", i), 1000, 4)
		for _, p := range positions {
			seen[p] = true
		}
	}
	want := make(map[int]bool)
	for _, percent := range []int{0, 3, 5, 8, 10, 13, 15, 18, 21, 23, 26, 28, 31, 33, 36, 38, 41, 44, 46, 49, 51, 54, 56, 59, 62, 64, 67, 69, 72, 74, 77, 79, 82, 85, 87, 90, 92, 95, 97, 100} {
		want[percent*10] = true // numpy: round(linspace(0, 100, 40))
	}
	for p := range seen {
		if !want[p] && !want[p+1] { // 1000 × (29 / 100) may be a hair below in floats
			t.Errorf("a needle before sentence %d of 1000", p)
		}
	}
	if len(seen) != depths {
		t.Errorf("%d depths of %d", len(seen), depths)
	}
}
