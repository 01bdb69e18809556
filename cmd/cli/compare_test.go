package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

const exampleRows = "../../metrics/testdata/rows.jsonl"

// The example has two traces of five requests. s3fifo has fewer misses in each.
func TestCompare(t *testing.T) {
	for format, want := range map[string]string{
		"table": "10:0:0  0.0020  s3fifo", "markdown": "| pooled | 8 cells | 66694 | 72083 |", "json": `"better": "s3fifo"`,
	} {
		code, out, errs := run("compare", "s3fifo", "lru", exampleRows, "--format", format)
		if code != 0 || !strings.Contains(out, want) || errs != "" {
			t.Errorf("%s: exit %d, stderr %q; want %q in\n%s", format, code, errs, want, out)
		}
	}
	for format, want := range map[string]string{"table": "admit           8  0.866", "markdown": "| s3fifo | 8 | 0.920 |", "json": `"p_holm": 0.0078125`} {
		code, out, errs := run("compare", "--all", "lru", exampleRows, "--format", format)
		if code != 0 || !strings.Contains(out, want) || errs != "" {
			t.Errorf("--all as %s: exit %d, stderr %q; want %q in\n%s", format, code, errs, want, out)
		}
	}
	_, one, _ := run("compare", "s3fifo", "lru", exampleRows, "--where", "capacity=2x", "--where", "trace=synthetic-qa.parquet")
	if !strings.Contains(one, "pooled                1 cell") || strings.Contains(one, "1.5x") {
		t.Errorf("--where has no effect:\n%s", one)
	}
	_, seeded, _ := run("compare", "s3fifo", "lru", exampleRows, "--seed", "5", "--notes")
	if !strings.Contains(seeded, "2000 resamples, seed 5") {
		t.Errorf("--seed has no effect:\n%s", seeded)
	}
}

func TestCompareErrors(t *testing.T) {
	rows, err := filepath.Abs(exampleRows)
	fatal.If(t, err)
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"lru", 2, "policy A or B missing; usage: kvreplay compare A B [ROWS...]"},
		{"lru opt", 1, "no folder results here"},
		{"lru lru " + rows, 2, "lru and lru are the same policy: name two policies"},
		{"lru s3-fifoo " + rows, 1, `no rows of policy "s3-fifoo", did you mean s3fifo?; the rows have: admit, fifo,`},
		{"lru opt " + rows + " --format csv", 2, `--format "csv": expected table, json, markdown, latex or html`},
		{"lru opt " + rows + " --where polcy=lru", 2, `unknown field "polcy"`},
		{"--all", 2, "flag needs an argument: --all"},
		{"--all s3-fifoo " + rows, 1, `no rows of policy "s3-fifoo", did you mean s3fifo?; the rows have: admit, fifo,`},
		{"--all lru", 1, "no folder results here"},
		{"--all lru opt", 1, "opt: no such file"},
		{"--all lru " + rows + " --where policy=lru", 1, "no other policy has the same traces and capacities"},
		{"window:2 fifo " + rows, 1, "no trace and capacity has rows of both"},
	} {
		code, out, errs := run(append([]string{"compare"}, strings.Fields(c.args)...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: exit %d, stdout %q, stderr %q; want exit %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
}
