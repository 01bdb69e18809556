package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var quoted = regexp.MustCompile("`kvreplay ([^`]+)`")

// A source that is no trace is named for what it is, with a complete command that makes a
// trace of it. The command works as it stands.
func TestForeignFiles(t *testing.T) {
	testdata, err := filepath.Abs("../../trace/importer/testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	csv := "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
	if err := os.WriteFile("azure.csv", []byte(csv), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file, want string
		commands   []string
	}{
		{filepath.Join(testdata, "niah.npz"), "is npz, not a trace; make a trace of it", []string{"inspect", "validate", "replay"}},
		{filepath.Join(testdata, "news.jsonl.gz"), "is JSON lines (gzip), not a trace; make a trace of it", []string{"inspect", "validate", "replay"}},
		{filepath.Join(testdata, "sglang.json.gz"), "is SGLang JSON (gzip), not a trace", []string{"inspect", "replay"}},
		{filepath.Join(testdata, "pyarrow.parquet"), `column "layer_id" is INT64`, []string{"inspect", "validate", "replay"}},
		{"azure.csv", "is a trace of requests (azure-csv), not of selections", []string{"validate", "replay"}},
	} {
		for _, name := range c.commands {
			code, stdout, stderr := run(name, c.file)
			text := stdout + stderr
			found := quoted.FindAllStringSubmatch(text, -1)
			if code != 1 || !strings.Contains(text, c.want) || found == nil {
				t.Errorf("%s %s: exit %d, %s\nexpected %q and a command", name, c.file, code, text, c.want)
				continue
			}
			if next := strings.Fields(found[len(found)-1][1]); slices.Contains(next, c.file) {
				must(t, next...)
			} else {
				t.Errorf("%s %s: the last command is %v", name, c.file, next)
			}
		}
	}
	if code, _, stderr := run("leaderboard", filepath.Join(testdata, "niah.npz")); code != 1 || !strings.Contains(stderr, "is not text; expected rows") {
		t.Errorf("leaderboard: exit %d, %s", code, stderr)
	}
}

// An import says at once everything that is missing, with a complete command that works.
func TestImportAsksOnce(t *testing.T) {
	npz, err := filepath.Abs("../../trace/importer/testdata/niah.npz")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(npz)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("request7.npz", text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  []string
		code  int
		words []string
	}{
		{[]string{"request7.npz"}, 2, []string{"-o TRACE", "--request-id", "--order rank"}},
		{[]string{"request7.npz", "-o", "a.parquet"}, 1, []string{"--request-id", "--order rank"}},
		{[]string{"request7.npz", "-o", "a.parquet", "--request-id", "r"}, 1, []string{"--order rank"}},
	} {
		code, _, stderr := run(append([]string{"import"}, c.args...)...)
		found := quoted.FindStringSubmatch(stderr)
		if code != c.code || found == nil {
			t.Fatalf("import %v: exit %d, %s", c.args, code, stderr)
		}
		for _, word := range c.words {
			if !strings.Contains(strings.Split(stderr, "for example")[0], word) {
				t.Errorf("import %v: %s\nlacks %s", c.args, stderr, word)
			}
		}
		must(t, strings.Fields(found[1])...)
	}
}
