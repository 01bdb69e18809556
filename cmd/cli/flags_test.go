package cli_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/synthetic"
	"github.com/kvreplay/kvreplay/internal/fatal"
)

// Flags without effect in the given combination are refused, not ignored.
func TestFlagsWithoutEffect(t *testing.T) {
	path, out := smallTrace(t, small), t.TempDir()
	kvreplay(t, 0, "replay", path, "--policy", "lru", "--policy", "opt", "--capacity", "1x,2x", "--per", "stream", "--profile", "--out", out)
	price := []string{"hardware", "price", "--hardware", "l40s", "--entry-bytes", "4", "--blocks", "4"}
	priced := []string{"time", out, "--policy", "lru", "--capacity", "2x", "--model", "smollm2-135m", "--layer-map", "nearest"}
	for _, c := range []struct {
		command []string
		flags   string
		code    int
		want    string
	}{
		{price, "--merge", 2, "--merge needs --runs"},
		{price, "--gpudirect", 2, "--gpudirect needs --from-ssd"},
		{[]string{"hardware", "fit", points}, "--path kernel", 2, "--path needs --link"},
		{[]string{"hardware", "fit", points}, "--direction d2h", 2, "--direction needs --link"},
		{[]string{"hardware", "fit", points}, "--source mine", 2, "--source needs --format yaml"},
		{[]string{"hardware", "extents", path}, "--format json --entry-bytes 8", 2, "--entry-bytes has no effect with --format json, which has no times"},
		{[]string{"hardware", "extents", path}, "--format json --hardware h100", 2, "--hardware has no effect"},
		{priced, "--schedule all,gpu", 2, "--schedule all includes the others: remove them"},
		{priced, "--hardware h100,all", 2, "--hardware all includes the others"},
		{[]string{"leaderboard", out}, "--format csv --per-trace", 2, "--per-trace has no effect with --format csv"},
		{[]string{"allocate", out, "--policy", "lru", "--memory", "1.5x"}, "--cost peak", 1, "--cost peak needs rows of windows"},
		{[]string{"datasets", "make", "offline", "-o", filepath.Join(out, "p.jsonl")}, "--task lcc_go --text x", 2, "--text needs a task that ends in _text"},
		{[]string{"datasets", "make", "ruler", "-o", filepath.Join(out, "p.jsonl")}, "--task vt --squad x", 2, "--squad needs the task qa_1"},
		{[]string{"datasets", "make", "ruler", "-o", filepath.Join(out, "p.jsonl")}, "--task qa_1 --hotpotqa x", 2, "--hotpotqa needs the task qa_2"},
		{[]string{"datasets", "make", "ruler", "-o", filepath.Join(out, "p.jsonl")}, "--task vt,qa_1 --essays x", 2, "--essays needs the task niah_single_2 or niah_single_3 or niah_multikey_1 or niah_multivalue or niah_multiquery: add it to --task"},
		{[]string{"replay", path, "--policy", "window:1,none"}, "--capacity 2x", 2, "--capacity has no effect, because window:1 has no capacity"},
		{[]string{"replay", path, "--profile", "--out", filepath.Join(out, "r")}, "--checkpoint 1s", 2, "--checkpoint and --profile do not combine"},
		{[]string{"replay", path, "--referee", "--out", filepath.Join(out, "r")}, "--checkpoint 1s", 2, "--checkpoint and --referee do not combine"},
		{[]string{"compare", "--all"}, "--format json", 2, "--all has no value: --format, the next word, is a flag"},
		{[]string{"replay", path, "--policy"}, "--capacity 2x", 2, "--policy has no value: --capacity, the next word, is a flag"},
		{[]string{"leaderboard", "nowhere"}, "--out " + path, 2, "is a file, expected a folder or a new name"},
	} {
		args := append(append([]string{}, c.command...), strings.Fields(c.flags)...)
		fails(t, c.code, c.want, args...)
	}
}

// A message about a name that is one of many lists some, and stays short.
func TestMessagesAreShort(t *testing.T) {
	path, out := smallTrace(t, small), t.TempDir()
	kvreplay(t, 0, "replay", path, "--per", "layer", "--out", out)
	for line, want := range map[string]string{
		"replay TRACE --policy zzz":                "more (`kvreplay policies`)",
		"sweep-options zzz:a=1..2 TRACE":           "more (`kvreplay policies`)",
		"replay TRACE --capacity peak:zzz":         "more (`kvreplay policies`)",
		"compare lru zzz ROWS":                     "and ",
		"leaderboard ROWS --where zzz=1":           "more (metrics/ROWS.md)",
		"leaderboard ROWS --where policy=zzz":      "and ",
		"leaderboard ROWS --hardware zzz":          "more (`kvreplay hardware list`)",
		"leaderboard ROWS --model zzz":             "more (`kvreplay hardware list`)",
		"leaderboard ROWS --schedule zzz":          "more (`kvreplay time --help-all`)",
		"systems TRACE --hardware h100":            "`kvreplay hardware list --kind model`",
		"advise":                                   "`kvreplay hardware list --kind model`",
		"plot heatmap ROWS -o x.svg":               "choose with --policy and --capacity, as in 2q",
		"plot heatmap ROWS -o x.svg --policy lru":  "a map shows one of 9 cells",
		"plot heatmap ROWS -o x.svg --policy zzz":  "no cell of zzz; known: ",
		"plot heatmap ROWS -o x.svg --capacity 9x": "no cell with capacity 9x; known: ",
		"inspect nowhere.parquet":                  "inspect: stat nowhere.parquet: no such file",
		"inspect flags_test.go":                    "flags_test.go is neither a trace, which `kvreplay import` makes, nor requests, such as CSV with the header arrival_s,input_tokens,output_tokens",
	} {
		_, stdout, stderr := run(strings.Fields(strings.NewReplacer("TRACE", path, "ROWS", out).Replace(line))...)
		if message := strings.ReplaceAll(stderr, path, "t.parquet"); stdout != "" || !strings.Contains(message, want) || len(message) > 220 {
			t.Errorf("%s: %d characters: %s", line, len(message), message)
		}
	}
}

// A dash does not mean stdin. It is a file only if one has that name.
func TestDashIsNoInput(t *testing.T) {
	path := smallTrace(t, small)
	t.Chdir(t.TempDir())
	for _, command := range []string{"replay -", "validate -", "leaderboard -", "compare lru opt -", "import - -o t.parquet", "hardware fit -", "time -"} {
		says(t, 2, "- does not mean stdin: name a file", strings.Fields(command)...)
	}
	says(t, 2, `unknown policy "-"`, "policies", "describe", "-")
	fatal.If(t, os.Link(path, "-"))
	kvreplay(t, 0, "validate", "-")
	fatal.If(t, os.Link(path, "-trace.parquet"))
	says(t, 2, "-trace.parquet looks like flags: name the file ./-trace.parquet", "validate", "-trace.parquet")
	kvreplay(t, 0, "validate", "./-trace.parquet")
	says(t, 2, "unknown shorthand flag", "validate", "-x.parquet")
	says(t, 1, "not readable: 1 of 2 files, not valid: 0", "validate", "./-trace.parquet", "nowhere")
}

// If a file that a flag names is empty or missing, the error is not one of the command line. It
// states the expected content. A path that is not a file is an error of the command line.
func TestFilesOfFlags(t *testing.T) {
	path, dir := smallTrace(t, small), t.TempDir()
	t.Chdir(dir)
	fatal.If(t, errors.Join(os.WriteFile("empty", nil, 0o600), os.WriteFile("card", nil, 0o600), os.WriteFile("rows.jsonl.gz", []byte("\x1f\x8b\x08"), 0o600)))
	kvreplay(t, 0, "replay", path, "--policy", "lru", "--capacity", "1x", "--profile", "--out", "results")
	profile, err := filepath.Glob("results/*.parquet")
	if err != nil || len(profile) != 1 {
		t.Fatal(profile, err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"replay TRACE --clusters empty", 1, "clusters empty: the file is empty. `kvreplay clusters` writes one"},
		{"replay TRACE --clusters nowhere", 1, "expected lists, or a file of clusters"},
		{"replay TRACE --clusters lists,page=0", 2, "expected a page of 1 to"},
		{"replay TRACE --allocation empty", 1, "read plan empty: the file is empty: write one with `kvreplay allocate -o`"},
		{"replay TRACE --allocation PROFILE", 1, "write one with `kvreplay allocate -o`"},
		{"datasets make synthetic --dials PROFILE -o x.parquet", 1, "not a text, expected dials (`kvreplay datasets fit -o` writes them)"},
		{"replay PROFILE", 1, "is a replay profile, expected a trace. `kvreplay time` and `kvreplay plan` read profiles"},
		{"datasets fit PROFILE", 1, "is a replay profile, expected a trace"},
		{"leaderboard rows.jsonl.gz", 1, "rows.jsonl.gz: the gzip data ends too early"},
		{"datasets card TRACE nowhere.parquet -o CARD.md", 1, "nowhere.parquet"},
		{"policies new mine --dir card", 2, "card is a file, expected a folder or a new name"},
		{"replay TRACE --policy lru --out card", 2, "card is a file, expected a folder or a new name"},
		{"replay TRACE --policy lru --out s3://b/x", 2, "s3://b/x is an address, expected a local folder"},
		{"leaderboard results --out s3://b/x", 2, "s3://b/x is an address, expected a local folder"},
		{"leaderboard results --format html --out s3://b/x.html", 2, "s3://b/x.html is an address, expected a local file"},
		{"plot ranking results --out s3://b/x.svg", 2, "s3://b/x.svg is an address, expected a local file"},
		{"derive TRACE --out s3://b/t.parquet", 2, "s3://b/t.parquet is an address, expected a local file"},
		{"datasets card TRACE --out s3://b/CARD.md", 2, "s3://b/CARD.md is an address, expected a local file"},
		{"policies new mine --dir s3://b/x", 2, "s3://b/x is an address, expected a local folder"},
		{"datasets card TRACE -o CARD.md", 2, "card: card is a file, expected a folder or a new name"},
		{"completion bash extra", 2, `completion bash: unexpected argument "extra"`},
	} {
		fails(t, c.code, c.want, strings.Fields(strings.NewReplacer("TRACE", path, "PROFILE", profile[0]).Replace(c.args))...)
	}
	if _, err := os.Stat("s3:"); err == nil {
		t.Error("made a folder with the name s3:")
	}
}

// An unexpected argument is an error of the command line that names the command.
func TestUnexpectedArguments(t *testing.T) {
	for line, want := range map[string]string{
		"version x":               "kvreplay: version: unexpected argument \"x\"; usage: kvreplay version [flags]",
		"datasets list x":         "kvreplay: datasets list: unexpected argument",
		"datasets make offline x": "kvreplay: datasets make offline: unexpected argument",
		"hardware list x":         "kvreplay: hardware list: unexpected argument",
		"hardware points x":       "kvreplay: hardware points: unexpected argument",
		"hardware price x":        "kvreplay: hardware price: unexpected argument",
		"replya":                  "unknown command \"replya\", did you mean replay?; `kvreplay --help` lists them",
		"help replya":             "unknown command \"replya\", did you mean replay?; `kvreplay --help` lists them",
		"help hardware nope":      "`kvreplay hardware --help` lists them",
		"hardware nope":           "unknown command \"nope\", expected list, show, check, fit, points, price and 2 more; `kvreplay hardware --help` lists them",
		"datasets x":              "`kvreplay datasets --help` lists them",
		"datasets make x":         "`kvreplay datasets make --help` lists them",
		"policies x":              "`kvreplay policies --help` lists them",
		"completion bas":          "unknown command \"bas\", did you mean bash?; `kvreplay completion --help` lists them",
		"replay EMPTY":            "kvreplay: replay: an argument is empty (an unset variable?); usage: kvreplay replay",
		"leaderboard EMPTY":       "leaderboard: an argument is empty",
		"replay t --out EMPTY":    "kvreplay: --out is empty (an unset variable?): give a value or remove the flag",
		"allocate t -o EMPTY":     "--out is empty",
		"time t --timeline EMPTY": "--timeline is empty",
		"replay t --layers 0,":    "--layers has an empty item: [\"0\" \"\"]",
		"replay --polcy lru":      "unknown flag --polcy, did you mean --policy?; `kvreplay replay --help` lists them",
	} {
		args := strings.Fields(line)
		for i := range args {
			args[i] = strings.TrimPrefix(args[i], "EMPTY")
		}
		fails(t, 2, want, args...)
	}
}

// `kvreplay completion` scripts may complete an empty word.
func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"__complete EMPTY":               "replay\tReplay traces",
		"__completeNoDesc EMPTY":         "replay\n",
		"__complete policies EMPTY":      "describe\t",
		"__complete datasets make EMPTY": "ruler\t",
		"__complete replay EMPTY":        ":0\n", // file names
		"completion bash":                "__start_kvreplay",
		"completion":                     "\nCommands:\n",
	} {
		args := strings.Fields(line)
		for i := range args {
			args[i] = strings.TrimPrefix(args[i], "EMPTY")
		}
		if code, stdout, stderr := run(args...); code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q; want %q", line, code, stdout, stderr, want)
		}
	}
}

func TestHelpOfACommand(t *testing.T) {
	_, want, _ := run("hardware", "price", "--help")
	code, stdout, stderr := run("help", "hardware", "price")
	if code != 0 || stdout != want || stderr != "" || !strings.Contains(stdout, "--entry-bytes") {
		t.Errorf("exit %d, stderr %q, stdout:\n%s\nwant\n%s", code, stderr, stdout, want)
	}
	if code, stdout, _ := run("help"); code != 0 || !strings.Contains(stdout, "\nTraces and workloads:\n") {
		t.Errorf("exit %d, stdout %q", code, stdout)
	}
}

// Advice fits the command that prints it.
func TestAdvice(t *testing.T) {
	out := profiled(t)
	short := filepath.Join(t.TempDir(), "short.parquet")
	fatal.If(t, os.WriteFile(short, []byte("PAR1xxxxPAR1"), 0o644))
	for want, line := range map[string]string{
		"those of retroinfer and kvdrive do\n": "clusters " + newsTrace + " -o " + filepath.Join(t.TempDir(), "c"),
		"do. Name a file of clusters\n":        "replay " + newsTrace + " --clusters lists",
		"traces: stat nosuch":                  "reproduce kvdrive --traces nosuch",
		"the profile has no cell at 9x; ":      "time " + out + " --capacity 9x",
		"is Parquet (a trace, a profile":       "leaderboard " + newsTrace,
		"no Parquet file, or truncated":        "time " + short,
	} {
		if code, stdout, stderr := run(strings.Fields(line)...); code == 0 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q, want %q", line, code, stdout, stderr, want)
		}
	}
}

// A number that is invalid for any input is an error of the command line. An explicit 0 does not
// mean the default.
func TestNumbersOutOfRange(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	for want, lines := range map[string][]string{
		"expected at least 1": {
			"replay TRACE --topk 0", "replay TRACE --candidates 0", "replay TRACE --block-tokens 0", "replay TRACE --mtp 0", "replay TRACE --local 0",
			"replay TRACE --entry-bytes 0", "replay TRACE --parallel 0", "serial TRACE --topk 0", "inspect TRACE --topk 0",
			"derive TRACE -o OUT --topk 0", "derive TRACE -o OUT --topk -1", "derive TRACE -o OUT --candidates 0", "derive TRACE -o OUT --block-tokens 0",
			"import TRACE -o OUT --topk 0", "import TRACE -o OUT --topk -1", "import TRACE -o OUT --entry-bytes 0", "import TRACE -o OUT --block-tokens 0",
			"hardware extents TRACE --topk 0", "hardware extents TRACE --entry-bytes 0", "hardware extents TRACE --extent 0",
			"hardware price --entry-bytes 1 --blocks 2 --runs 0", "leaderboard --context 0",
			"time PROFILE --steps 0", "time PROFILE --accept 0", "time PROFILE --positions 0", "time PROFILE --topk 0", "time PROFILE --context 0",
		},
		"NaN: expected a number":               {"time PROFILE --accept nan", "time PROFILE --reserve NaN", "plan PROFILE --read-ahead NaN"},
		"expected more than 0":                 {"plan PROFILE --slo 0s"},
		`--memory "abc": expected whole bytes`: {"import TRACE -o OUT --memory abc"},
		"expected at least 0":                  {"replay TRACE --sink -1", "hardware extents TRACE --history -1"},
		"0 to below 1":                         {"time PROFILE --reserve 1"},
		"a share above 0":                      {"time PROFILE --reserve 0", "plan PROFILE --reserve 0"},
		"share of the reads":                   {"time PROFILE --read-ahead 2"},
		"path \"x\", expected":                 {"time PROFILE --path x"},
		"unknown task \"nope\"":                {"datasets make offline --task nope -o OUT"},
	} {
		for _, line := range lines {
			fails(t, 2, want, strings.Fields(strings.NewReplacer("TRACE", newsTrace, "OUT", out).Replace(line))...)
		}
	}
}

// Bytes are accepted with and without a unit, and policies as a list or one by one.
func TestUnitsAndLists(t *testing.T) {
	trace := smallTrace(t, small)
	for one, other := range map[string]string{
		"--policy lru --entry-bytes 4096":                              "--policy lru --entry-bytes 4KiB",
		"--policy lru --policy 2q:kin=0.5,kout=0.25 --policy window:2": "--policy lru,2q:kin=0.5,kout=0.25,window:2",
	} {
		_, want, stderr := run(append([]string{"replay", trace, "--format", "csv"}, strings.Fields(one)...)...)
		if code, got, _ := run(append([]string{"replay", trace, "--format", "csv"}, strings.Fields(other)...)...); code != 0 || got != want || got == "" {
			t.Errorf("%s: exit %d, other rows than %s: %s", other, code, one, stderr)
		}
	}
	for size, bytes := range map[string]string{"1KiB": " 3072 ", "1Ki": " 3072 ", "1K": " 3000 ", "1KB": " 3000 ", "1 kB": " 3000 "} {
		if stdout := must(t, "hardware", "price", "--entry-bytes", size, "--blocks", "3"); !strings.Contains(stdout, bytes) {
			t.Errorf("--entry-bytes %s: no %s in\n%s", size, bytes, stdout)
		}
	}
	record := filepath.Join(t.TempDir(), "r.jsonl")
	line := `{"request_id":"r","layer_id":0,"step_idx":0,"seq_len_current":101,"selected_token_pos":[93,4]}`
	fatal.If(t, os.WriteFile(record, []byte(line), 0o600))
	for _, size := range []string{"4G", "4GB", "4GiB", "4g", "512M"} {
		must(t, "import", record, "-o", record+size+".parquet", "--order", "rank", "--memory", size)
	}
}

// The help of a flag states its default, even if the default is not a number of the flag itself.
func TestHelpSaysDefaults(t *testing.T) {
	d := synthetic.Default()
	for command, flags := range map[string]map[string]string{
		"replay":         {"local": "(default: the trace's, or 1)", "topk": "(default: the trace's)", "pool": "(default: each has its own)", "seed": "(default 0)"},
		"derive":         {"topk": "(default: the source's)", "layers": "(default: all)"},
		"hardware price": {"runs": "(default: each block is one)"},
		"datasets make synthetic": {"seed": fmt.Sprintf("(default %d)", d.Seed), "layers": fmt.Sprintf("(default %d)", d.Layers), "topk": fmt.Sprintf("(default %d)", d.TopK),
			"overlap": fmt.Sprintf("(default %g)", d.Overlap), "gap-median": fmt.Sprintf("(default %g)", d.GapMedian)},
	} {
		texts := helpFlags(must(t, append(strings.Fields(command), "--help-all")...))
		for flag, want := range flags {
			if !strings.HasSuffix(texts[flag], want) {
				t.Errorf("%s: --%s: %s, expected it to end in %q", command, flag, texts[flag], want)
			}
		}
	}
}
