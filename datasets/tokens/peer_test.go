package tokens

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace/tracetest"
)

// peers has the packages that are compared with.
var peers = tracetest.Environment{Name: "tokens", Requirements: "testdata/requirements.txt", Imports: "tiktoken, tokenizers"}

// TestPeers compares every token with those of two libraries: Hugging Face's tokenizers, for one
// tokenizer.json of each supported form, and OpenAI's tiktoken with the built-in vocabularies.
// Without Python the test is skipped, unless KVREPLAY_REQUIRE_PYTHON=1.
func TestPeers(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a virtual environment and trains tokenizers")
	}
	interpreter := tracetest.Python(t, peers)
	dir := t.TempDir()
	mine := make(map[string]Tokenizer)
	for _, name := range builtinNames {
		mine[name] = builtin(name)
		exportRanks(t, dir, name)
	}
	texts := peerTexts(t)
	for name, rows := range peer(t, interpreter, dir, texts) {
		tok := mine[name]
		if tok == nil {
			var err error
			if tok, err = Open(filepath.Join(dir, name+".json")); err != nil {
				t.Error(err)
				continue
			}
		}
		wrong := 0
		for i, row := range rows {
			got := tok.Encode(texts[i])
			if !slices.Equal(got, row.ids) || Count(tok, texts[i]) != len(row.ids) {
				if wrong++; wrong <= 3 {
					t.Errorf("%s: %.120q became %v, the peer has %v", name, texts[i], got, row.ids)
				}
				continue
			}
			text, err := tok.Decode(row.ids)
			if err != nil || strings.ToValidUTF8(text, "\uFFFD") != row.text && utf8.ValidString(text) {
				if wrong++; wrong <= 3 {
					t.Errorf("%s: %v decoded to %q, %v, the peer has %q", name, row.ids, text, err, row.text)
				}
			}
		}
		if wrong > 0 {
			t.Errorf("%s: %d of %d texts differ", name, wrong, len(rows))
		}
	}
}

// peerTexts are real, awkward and random texts.
func peerTexts(t *testing.T) []string {
	texts := []string{
		"", " ", "   ", "\n", "a", " a", "a ", "  a  b  ", "\t\n x\r\n\r\n  y\n", "don't I'LL WE'VE it'S",
		"1 12 123 1234 12345678", "x=1;y=22", "ÀÉîõü ñ ç", "e\u0301 vs \u00e9", "\u212b \ufb01", "中文字符和日本語のテキスト、한국어", "🙂👩‍👩‍👧 emoji",
		"<|end|>", "a<|endoftext|>b", "a <|pad|> b", "needles and needle", "<unk> <0x41>", "a\u00a0b\u2003c\u3000d", "\u200b\ufeff",
		"▁ under ▁▁score", "f(x)  =  y**2  // end\n\n\n\treturn", strings.Repeat("ab", 300), strings.Repeat(" ", 70) + "x", "\x00\x01\x7f\u0080\u0085",
		"0f8b1c2d-33aa-4e5f-9abc-def012345678", "hello!!!???...", "(a) [b] {c} \"d\" 'e'", "ǅ ǆ Ǆ ª º ⅷ ½ ٣",
	}
	for _, blanks := range []string{"\n \n", " \n\t\n", "\n    \n", "\r\n \r\n", "\n\u3000\n \n", " \n \n ", "\n\n", " \n", strings.Repeat("\n \t", 40) + "\n"} {
		for _, before := range []string{"", "a", "1", "};", "//", "e\u0301", "!\u0301", " !\u0301", "a!\u0301", "!!\u0301", "'s", "\x7f", "\u4e2d", "\u26a0\ufe0f", "\U0001F469\u200d\u2640\ufe0f"} {
			texts = append(texts, before+blanks, before+blanks+"b", before+blanks+" b "+before+blanks+"\tc")
		}
	}
	for _, path := range []string{"tokens.go", "bpe.go", "../../README.md", "../../LICENSE"} {
		text, err := os.ReadFile(path)
		fatal.If(t, err)
		texts = append(texts, string(text))
		for block := range strings.SplitSeq(string(text), "\n\n") {
			texts = append(texts, block)
		}
	}
	for first := rune(0); first < 0x3000; first += 0x100 { // every character by itself and between letters
		var text strings.Builder
		for c := first; c < first+0x100; c++ {
			if c >= 0x1c89 && c <= 0x1c8a || c >= 0x2427 && c <= 0x2429 || c >= 0x2ffc {
				continue // letters and symbols of Unicode 15.1 and 16, which not all peers have yet
			}
			fmt.Fprintf(&text, "%c a%cb %c%c1\n", c, c, c, c)
		}
		texts = append(texts, text.String())
	}
	const seed = 7
	r := rand.New(rand.NewPCG(seed, 0))
	alphabet := []rune("aeiou tnsr  \n\t.,'\"-_=0123456789AEZ\u00e9\u0301\u00df\u4e2d\u6587\u3042\uac00\U0001F642▁<|>\u00a0")
	for range 400 {
		text := make([]rune, r.IntN(40))
		for i := range text {
			text[i] = alphabet[r.IntN(len(alphabet))]
		}
		texts = append(texts, string(text))
	}
	return texts
}

// peerRow is a peer's result for a text.
type peerRow struct {
	ids  []int
	text string
}

func (r *peerRow) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&r.ids, &r.text})
}

// peer runs the script.
func peer(t *testing.T, interpreter, dir string, texts []string) (rows map[string][]peerRow) {
	t.Helper()
	given, err := json.Marshal(map[string]any{"texts": texts, "corpus": texts[:100]})
	fatal.If(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, "testdata/peer.py", dir)
	cmd.Stdin = bytes.NewReader(given)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	fatal.If(t, json.Unmarshal(out, &rows))
	if len(rows) < 15 {
		t.Fatalf("%d tokenizers, expected 15 or more", len(rows))
	}
	return rows
}

// exportRanks writes a vocabulary as tiktoken reads it.
func exportRanks(t *testing.T, dir, name string) {
	t.Helper()
	for ext, text := range map[string]string{".ranks": string(published(name)), ".split": expressions[name]} {
		fatal.If(t, os.WriteFile(filepath.Join(dir, name+ext), []byte(text), 0o644))
	}
}

// published is a built-in vocabulary in the form of tiktoken's own files.
func published(name string) (ranks []byte) {
	vocabulary := builtin(name)
	for id := 0; ; id++ {
		text, err := vocabulary.Decode([]int{id})
		if err != nil {
			return ranks
		}
		ranks = fmt.Appendf(ranks, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(text)), id)
	}
}

// expressions are those of tiktoken_ext/openai_public.py.
var expressions = map[string]string{
	"cl100k_base": `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s`,
	"o200k_base": `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
}

// TestPublished compares the vocabularies with the digests of tiktoken's own files, which
// openai_public.py states.
func TestPublished(t *testing.T) {
	for name, want := range map[string]string{
		"cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
		"o200k_base":  "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
	} {
		if got := fmt.Sprintf("%x", sha256.Sum256(published(name))); got != want {
			t.Errorf("%s has the digest %s, want %s", name, got, want)
		}
	}
}

// TestPieces compares the pieces of texts with those of regexp2, which has no possessive
// quantifiers. The older expression of cl100k_base that it reads gives the same tokens.
func TestPieces(t *testing.T) {
	for name, expression := range map[string]string{
		"cl100k_base": `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
		"o200k_base":  expressions["o200k_base"],
	} {
		find, err := finder(hfPattern{Regex: &expression})
		fatal.If(t, err)
		for _, text := range append(peerTexts(t), "'ſ 'LLa 'ree 'ı AǅbC ʰA\u0301 \u0301A ªº aªB") {
			var want []string
			for _, at := range find(text) {
				want = append(want, text[at[0]:at[1]])
			}
			if got := builtin(name).(*bpe).splitters[0]([]string{text}, true); !slices.Equal(got, want) {
				t.Errorf("%s: %.80q became %.200q, want %.200q", name, text, got, want)
			}
		}
	}
}
