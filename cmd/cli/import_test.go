package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/cmd/cli"
	"github.com/kvreplay/kvreplay/policies/all"
)

// An import prints its summary to stderr only; a wrong command line is exit code 2,
// wrong data 1, and neither leaves a file.
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
		{[]string{npz, "--order", "rank"}, 1, []string{"--request-id"}},
		{[]string{news, "--order", "best"}, 2, []string{`"best"`}},
		{[]string{news, "--memory", "much"}, 2, []string{"--memory"}},
		{[]string{news, "--note", "x"}, 2, []string{"key=value"}},
		{[]string{news, "--note", "x=1", "--note", "x=2"}, 2, []string{"stated twice"}},
		{[]string{news, "--local", "0"}, 2, []string{"local 0"}},
		{[]string{news, "--windows", "-1"}, 2, []string{"-1 windows"}},
		{[]string{news, "--layers", "61"}, 2, []string{"--layers is of SGLang sources"}},
		{[]string{npz, "--index-topk", "2048"}, 2, []string{"--index-topk is of SGLang sources"}},
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
