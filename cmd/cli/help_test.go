package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// helpCommands returns the words of every command that help lists, with kvreplay itself.
func helpCommands(t *testing.T, command ...string) [][]string {
	t.Helper()
	list := [][]string{command}
	inside := false
	for _, line := range strings.Split(must(t, append(command, "--help")...), "\n") {
		switch {
		case regexp.MustCompile(`^(Run|Look|Traces and workloads|Time|Check|Commands):$`).MatchString(line):
			inside = true
		case !strings.HasPrefix(line, "  "):
			inside = false
		case inside:
			list = append(list, helpCommands(t, append(command[:len(command):len(command)], strings.Fields(line)[0])...)...)
		}
	}
	return list
}

// flagText finds the flags of a help page. Its groups are the name and the text.
var flagText = regexp.MustCompile(`^ +(?:-., )?--([a-z-]+)(?: [^ ]+)? {2,}(.*)$`)

// A help page fits a screen of 40 lines and 100 columns. A flag is described in one sentence that
// begins in lower case.
func TestHelpFitsAScreen(t *testing.T) {
	commands := helpCommands(t)
	if len(commands) < 35 {
		t.Fatalf("%d commands, expected more: %q", len(commands), commands)
	}
	for _, command := range commands {
		page := must(t, append(command, "--help")...)
		name := "kvreplay " + strings.Join(command, " ")
		if lines := strings.Count(page, "\n"); lines > 40 {
			t.Errorf("%s: %d lines, expected at most 40", name, lines)
		}
		if about, _, _ := strings.Cut(page, "\n\n"); strings.Count(about, "\n") > 4 {
			t.Errorf("%s: the description has more than 5 lines:\n%s", name, about)
		}
		all := must(t, append(command, "--help-all")...)
		if strings.Contains(page, "\nMore: ") == (page == all) {
			t.Errorf("%s: --help says \"More:\" if and only if --help-all has more:\n%s", name, page)
		}
		for _, line := range strings.Split(page+all, "\n") {
			if utf8.RuneCountInString(line) > 100 || strings.Contains(line, ";") {
				t.Errorf("%s: more than 100 columns, or a semicolon: %s", name, line)
			}
		}
		if regexp.MustCompile(`--(policies|output)\b`).MatchString(all) {
			t.Errorf("%s: a flag has two names", name)
		}
		if list := regexp.MustCompile(`(?m)^  .*\n[A-Z][^\n]*:$`).FindString(all); list != "" {
			t.Errorf("%s: no blank line between two lists: %s", name, list)
		}
		if rest := regexp.MustCompile(`(?m)^[A-Z][^\n]*[^:\n]\n    [a-z]`).FindString(all); rest != "" {
			t.Errorf("%s: a sentence continues indented: %s", name, rest)
		}
		for flag, text := range helpFlags(all) {
			first, _ := utf8.DecodeRuneInString(text)
			sentence := strings.TrimSuffix(regexp.MustCompile(` \(default[^)]*\)`).ReplaceAllString(text, ""), ".")
			if !unicode.IsLower(first) && !regexp.MustCompile(`^[KM],`).MatchString(text) || strings.Contains(sentence, ". ") {
				t.Errorf("%s --%s: %q is not one sentence that begins in lower case", name, flag, text)
			}
		}
	}
}

// The topic of combinations fits a screen and names every mechanism of the table.
func TestCombinationsFitAScreen(t *testing.T) {
	page := must(t, "help", "combinations")
	if lines := strings.Count(page, "\n"); lines > 40 {
		t.Errorf("%d lines, expected at most 40", lines)
	}
	for _, line := range strings.Split(page, "\n") {
		if utf8.RuneCountInString(line) > 100 {
			t.Errorf("more than 100 columns: %s", line)
		}
	}
	for _, c := range setting.Conflicts() {
		for _, m := range append(c.With, c.A) {
			if !strings.Contains(page, string(m)) {
				t.Errorf("%q is missing", m)
			}
		}
	}
}

// helpFlags returns the texts of the flags on a help page.
func helpFlags(page string) map[string]string {
	flags, last := map[string]string{}, ""
	_, page, _ = strings.Cut(page, "\nFlags:\n") // examples name flags too
	for _, line := range strings.Split(page, "\n") {
		if m := flagText.FindStringSubmatch(line); m != nil {
			last = m[1]
			flags[last] = m[2]
		} else if strings.HasPrefix(line, "        ") && last != "" {
			flags[last] += " " + strings.TrimSpace(line)
		} else {
			last = ""
		}
	}
	return flags
}

// The examples of help run on real traces. Those that need files from elsewhere, or much time, are
// only read.
func TestHelpExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the examples of every command")
	}
	onlyRead := regexp.MustCompile("make (longbench|ruler|offline|synthetic)|reproduce|" + // downloads and minutes
		"policies new|exec:|submit|hardware check|datasets (card|verify)|import |clusters|" + // a checkout, files of one's own, captures
		"--judge|--heads|--from 28KiB|fit real|sel_") // several requests or heads, points of a link, traces of selectors
	commands := helpCommands(t)
	copies := map[string]string{"t.parquet": newsTrace, "a.parquet": newsTrace, "b.parquet": newsTrace, "traces/t.parquet": newsTrace, "points.csv": points,
		"conversation_trace.jsonl": "../../datasets/requests/testdata/mooncake_conversation_300.jsonl.gz",
		"azure.csv":                classes, "recorded.csv": "../../replay/serving/data/vllm-rtx4090.csv"}
	for name, path := range copies {
		copies[name] = content(t, path)
	}
	t.Chdir(t.TempDir())
	for name, text := range copies {
		fatal.If(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)))
	}
	must(t, "replay", "t.parquet", "--policy", "lru,fifo,lfu,lookahead,opt", "--capacity", "1x,1.5x,2x", "--topk", "256", "--per", "request", "--out", "results")
	rows, err := filepath.Glob("results/*.jsonl")
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	csv := must(t, "replay", "t.parquet", "--policy", "lru", "--capacity", "1x", "--format", "csv")
	fatal.If(t, errors.Join(os.Rename(rows[0], "rows.jsonl"), os.WriteFile("rows.csv", []byte(csv), 0o600), os.WriteFile(rows[0], []byte(content(t, "rows.jsonl")), 0o600)))
	for _, command := range commands {
		_, rest, _ := strings.Cut(must(t, append(command, "--help")...), "\nExamples:\n")
		examples, _, _ := strings.Cut(rest, "\n\n")
		for _, line := range strings.Split(examples, "\n") {
			line, _, _ = strings.Cut(strings.ReplaceAll(line, "traces/*", "traces/t"), " > ")
			args, err := words(line, "")
			if err != nil || len(args) == 0 {
				continue
			}
			if onlyRead.MatchString(line) {
				args = append(args, "--help")
			}
			if code, _, stderr := run(args[1:]...); code != 0 {
				t.Errorf("%s: exit %d: %s", line, code, stderr)
			}
		}
	}
}
