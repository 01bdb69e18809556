package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/bundled"
)

// The card names its command, and its plots lie beside it.
func TestDatasetsCard(t *testing.T) {
	out := filepath.Join(t.TempDir(), "CARD.md")
	trace := filepath.Join("..", "..", bundled.Folder, bundled.EmbeddedFile)
	_, stderr := made(t, "datasets", "card", trace, "-o", out)
	text := content(t, out)
	for _, want := range []string{"kvreplay datasets card " + filepath.ToSlash(trace) + " -o " + filepath.ToSlash(out), "smollm2_niah_1k_sglang", "](card/lru-capacity.svg)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the card", want)
		}
	}
	if !strings.HasPrefix(content(t, filepath.Join(filepath.Dir(out), "card", "lru-capacity.svg")), "<svg") || !strings.Contains(stderr, "wrote "+out) {
		t.Errorf("no plot, or not said where: %s", stderr)
	}
}

// What cannot be done says why, and leaves nothing.
func TestDatasetsCardRefused(t *testing.T) {
	trace, err := filepath.Abs(filepath.Join("..", "..", bundled.Folder, bundled.EmbeddedFile))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	t.Chdir(folder)
	for want, c := range map[string]struct {
		code int
		args []string
	}{
		"trace or folder of traces":          {2, []string{"-o", "CARD.md"}},
		"output missing: -o CARD.md":         {2, []string{trace}},
		"expected at least 1":                {2, []string{trace, "-o", "CARD.md", "--parallel", "0"}},
		"no *.parquet in folder .":           {1, []string{".", "-o", "CARD.md"}},
		"no such file":                       {1, []string{"nowhere.parquet", "-o", "CARD.md"}},
		"have one name":                      {1, []string{trace, trace, "-o", "CARD.md"}},
		folder + " is a directory, expected": {2, []string{trace, "-o", folder}},
	} {
		code, _, stderr := run(append([]string{"datasets", "card"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %q, expected %d and %q", c.args, code, stderr, c.code, want)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
