package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/cmd/cli"
	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies/all"
)

var quoted = regexp.MustCompile("`kvreplay ([^`]+)`")

// The error for a file that is not a trace names its format, with a complete command that makes a
// trace from it. The command works as printed.
func TestForeignFiles(t *testing.T) {
	testdata, err := filepath.Abs("../../trace/importer/testdata")
	fatal.If(t, err)
	t.Chdir(t.TempDir())
	csv := "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
	fatal.If(t, os.WriteFile("azure.csv", []byte(csv), 0o600))
	for _, c := range []struct {
		file, want string
		commands   []string
	}{
		{filepath.Join(testdata, "niah.npz"), "is npz, not a trace: import it with", []string{"inspect", "validate", "replay"}},
		{filepath.Join(testdata, "news.jsonl.gz"), "is JSON lines (gzip), not a trace: import it with", []string{"inspect", "validate", "replay"}},
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
	says(t, 1, "is not text, expected rows", "leaderboard", filepath.Join(testdata, "niah.npz"))
}

// The error of an import lists all missing options at once, with a complete command that works.
func TestImportAsksOnce(t *testing.T) {
	npz, err := filepath.Abs("../../trace/importer/testdata/niah.npz")
	fatal.If(t, err)
	text, err := os.ReadFile(npz)
	fatal.If(t, err)
	t.Chdir(t.TempDir())
	fatal.If(t, os.WriteFile("request7.npz", text, 0o600))
	for _, c := range []struct {
		args  []string
		code  int
		words []string
	}{
		{[]string{"request7.npz"}, 2, []string{"-o TRACE", "--request-id", "--order rank"}},
		{[]string{"request7.npz", "-o", "a.parquet"}, 2, []string{"--request-id", "--order rank"}},
		{[]string{"request7.npz", "-o", "a.parquet", "--request-id", "r"}, 2, []string{"--order rank"}},
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

// An import prints its summary only to stderr. A wrong command line has exit code 2, and wrong data
// 1. Neither leaves a file.
func TestImport(t *testing.T) {
	testdata := filepath.Join("..", "..", "trace", "importer", "testdata")
	news, npz := filepath.Join(testdata, "news.jsonl.gz"), filepath.Join(testdata, "niah.npz")
	for _, c := range []struct {
		args  []string
		code  int
		words []string
	}{
		{[]string{news, "--topk", "256", "--sink", "0", "--local", "1", "--note", "a=b"}, 0, []string{"K 256, M 320, order rank", "bytes    30152 in", "digest   sha256:"}},
		{[]string{news}, 0, []string{"warning: sink and local"}},
		{[]string{news, "--order", "index"}, 1, []string{"news.jsonl.gz: line 1", "has scores"}},
		{[]string{npz, "--order", "rank"}, 2, []string{"--request-id"}},
		{[]string{news, "--order", "best"}, 2, []string{`"best"`}},
		{[]string{news, "--memory", "much"}, 2, []string{"--memory"}},
		{[]string{news, "--note", "x"}, 2, []string{"KEY=VALUE"}},
		{[]string{news, "--note", "x=1", "--note", "x=2"}, 2, []string{"stated twice"}},
		{[]string{news, "--local", "0"}, 2, []string{"local 0"}},
		{[]string{news, "--windows", "-1"}, 2, []string{"-1 windows"}},
		{[]string{news, "--layers", "61"}, 2, []string{"--layers needs an SGLang source"}},
		{[]string{npz, "--index-topk", "2048"}, 2, []string{"--index-topk needs an SGLang source"}},
		{nil, 2, []string{"source missing"}},
	} {
		out := filepath.Join(t.TempDir(), "t.parquet")
		var stdout, stderr bytes.Buffer
		code := cli.Main(all.Table(), append([]string{"import", "-o", out}, c.args...), &stdout, &stderr)
		if code != c.code || stdout.Len() > 0 {
			t.Errorf("%v: exit code %d, want %d; stdout %q, stderr %s", c.args, code, c.code, &stdout, &stderr)
		}
		for _, word := range c.words {
			if !strings.Contains(stderr.String(), word) {
				t.Errorf("%v: stderr lacks %q: %s", c.args, word, &stderr)
			}
		}
		if _, err := os.Stat(out); (err == nil) != (c.code == 0) {
			t.Errorf("%v: output: %v", c.args, err)
		}
	}
	var stderr bytes.Buffer
	if code := cli.Main(all.Table(), []string{"import", news}, &stderr, &stderr); code != 2 || !strings.Contains(stderr.String(), "-o") {
		t.Errorf("without -o: exit code %d, %s", code, &stderr)
	}
}

// The example of an import that lacks facts names the source that needs them.
func TestMissingFactsOfSecondSource(t *testing.T) {
	sglang, npz := "../../trace/importer/testdata/sglang.json.gz", "../../trace/importer/testdata/niah.npz"
	says(t, 2, "`kvreplay import "+npz+" -o niah.parquet --request-id niah --order rank`", "import", sglang, npz, "-o", filepath.Join(t.TempDir(), "t.parquet"))
}
