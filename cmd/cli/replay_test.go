package cli_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/tracetest"
)

// smallTrace writes a valid trace of two layers.
func smallTrace(t *testing.T, o replaytest.Options) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "small.parquet")
	r := rand.New(rand.NewPCG(1, 1))
	w, err := trace.Create(path, o.Meta(8))
	fatal.If(t, err)
	for layer := range int32(2) {
		s := replaytest.Stream(r, o)
		s.Layer = layer
		fatal.If(t, w.Write(s))
	}
	fatal.If(t, w.Close())
	return path
}

var small = replaytest.Options{Prompt: 100, Steps: 30, Windows: 8, M: 16, Locality: 0.9, Scores: true, Sink: 2, Local: 3}

// scoreless returns small without scores and ranks.
func scoreless() replaytest.Options {
	o := small
	o.Scores, o.Ascending = false, true
	return o
}

// alter copies a trace with some bytes changed.
func alter(t *testing.T, path string, change func([]byte) []byte) string {
	t.Helper()
	text, err := os.ReadFile(path)
	fatal.If(t, err)
	altered := filepath.Join(t.TempDir(), "altered.parquet")
	fatal.If(t, os.WriteFile(altered, change(bytes.Clone(text)), 0o644))
	return altered
}

// foreignRow lets a test write rows that trace.Writer refuses.
type foreignRow struct {
	RequestID string    `parquet:"request_id"`
	LayerID   int32     `parquet:"layer_id"`
	PromptLen int32     `parquet:"prompt_len"`
	Step      int32     `parquet:"step"`
	SeqLen    int32     `parquet:"seq_len"`
	Indices   []int32   `parquet:"topk_indices,list"`
	Scores    []float32 `parquet:"scores,optional,list"`
}

func foreign(t *testing.T, meta string, change func([]foreignRow)) string {
	t.Helper()
	rows := make([]foreignRow, 6)
	for i := range rows {
		rows[i] = foreignRow{"r", 0, 50, int32(i), int32(51 + i), []int32{7, 5, 20, 21}, []float32{4, 3, 2, 1}}
	}
	change(rows)
	path := filepath.Join(t.TempDir(), "foreign.parquet")
	f, err := os.Create(path)
	fatal.If(t, err)
	w := parquet.NewGenericWriter[foreignRow](f, parquet.KeyValueMetadata("kvreplay", meta))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, w.Close())
	fatal.If(t, f.Close())
	return path
}

const foreignMeta = `{"version":1,"order":"rank","topk":3,"candidates":4,"block_tokens":1}`

// Bad input never yields a score. It gives a clear error with the place, the right exit code,
// nothing on stdout, and no kept rows.
func TestBadInput(t *testing.T) {
	good, noRanks := smallTrace(t, small), smallTrace(t, scoreless())
	nan := float32(0)
	nan /= nan
	row := func(i int, change func(*foreignRow)) func([]foreignRow) {
		return func(rows []foreignRow) { change(&rows[i]) }
	}
	cases := map[string]struct {
		args []string
		code int
		want []string // texts expected in stderr
	}{
		"no trace":              {[]string{}, 2, []string{"kvreplay: replay: trace missing", "usage"}},
		"no such file":          {[]string{"nowhere.parquet"}, 1, []string{"nowhere.parquet", "no such file"}},
		"folder":                {[]string{t.TempDir()}, 1, []string{"is a folder"}},
		"empty":                 {[]string{alter(t, good, func([]byte) []byte { return nil })}, 1, []string{"is empty"}},
		"not Parquet":           {[]string{alter(t, good, func([]byte) []byte { return []byte("request_id,layer\n") })}, 1, []string{"not a Parquet file", "kvreplay import"}},
		"truncated":             {[]string{alter(t, good, func(b []byte) []byte { return b[:len(b)*2/3] })}, 1, []string{"truncated or corrupt Parquet file, copy or make it again: "}},
		"flipped page bit":      {[]string{alter(t, good, func(b []byte) []byte { b[900] ^= 4; return b })}, 1, []string{"altered.parquet"}},
		"altered metadata":      {[]string{alter(t, good, func(b []byte) []byte { return bytes.Replace(b, []byte(`"sink":2`), []byte(`"sink":1`), 1) })}, 1, []string{"altered.parquet", "seal"}},
		"wrong version":         {[]string{foreign(t, strings.Replace(foreignMeta, `n":1`, `n":2`, 1), row(0, func(*foreignRow) {}))}, 1, []string{"format version 2", "reads version 1"}},
		"K > M":                 {[]string{foreign(t, strings.Replace(foreignMeta, `"topk":3`, `"topk":9`, 1), row(0, func(*foreignRow) {}))}, 1, []string{"K = 9", "M = 4"}},
		"step twice":            {[]string{foreign(t, foreignMeta, row(3, func(r *foreignRow) { r.Step, r.SeqLen = 2, 53 }))}, 1, []string{"row 3", `request "r" layer 0`, "step 2 appears twice"}},
		"steps out of order":    {[]string{foreign(t, foreignMeta, row(3, func(r *foreignRow) { r.Step, r.SeqLen = 0, 51 }))}, 1, []string{"row 3", "step 0 after step 2"}},
		"seq_len":               {[]string{foreign(t, foreignMeta, row(4, func(r *foreignRow) { r.SeqLen = 99 }))}, 1, []string{"row 4", "seq_len 99", "55"}},
		"index past context":    {[]string{foreign(t, foreignMeta, row(2, func(r *foreignRow) { r.Indices = []int32{7, 5, 53, 1} }))}, 1, []string{"row 2", "step 2", "topk_indices[2] = 53", "< 53"}},
		"candidate past it":     {[]string{foreign(t, foreignMeta, row(2, func(r *foreignRow) { r.Indices = []int32{7, 5, 2, 53} }))}, 1, []string{"row 2", "topk_indices[3] = 53"}},
		"negative index":        {[]string{foreign(t, foreignMeta, row(2, func(r *foreignRow) { r.Indices = []int32{7, -5, 3, 1} }))}, 1, []string{"row 2", "topk_indices[1] = -5"}},
		"duplicate index":       {[]string{foreign(t, foreignMeta, row(5, func(r *foreignRow) { r.Indices = []int32{7, 5, 7, 1} }))}, 1, []string{"row 5", "7 appears twice"}},
		"duplicate candidate":   {[]string{foreign(t, foreignMeta, row(5, func(r *foreignRow) { r.Indices = []int32{7, 5, 1, 5} }))}, 1, []string{"row 5", "5 appears twice"}},
		"NaN score":             {[]string{foreign(t, foreignMeta, row(1, func(r *foreignRow) { r.Scores = []float32{4, nan, 2, 1} }))}, 1, []string{"row 1", "scores[1] = NaN"}},
		"rising score":          {[]string{foreign(t, foreignMeta, row(1, func(r *foreignRow) { r.Scores = []float32{4, 3, 3.5, 1} }))}, 1, []string{"row 1", "scores[2] = 3.5 rises"}},
		"empty list":            {[]string{foreign(t, foreignMeta, row(1, func(r *foreignRow) { r.Indices, r.Scores = []int32{}, []float32{} }))}, 1, []string{"row 1", "empty"}},
		"ranks absent":          {[]string{noRanks, "--policy", "lookahead"}, 1, []string{"lookahead", "needs ranks", "order=index"}},
		"K without ranks":       {[]string{noRanks, "--topk", "4"}, 1, []string{"no ranks", "K = 16"}},
		"--topk > M":            {[]string{good, "--topk", "17"}, 1, []string{"K = 17", "M = 16"}},
		"--candidates > M":      {[]string{good, "--candidates", "99"}, 1, []string{"M = 99", "16"}},
		"capacity 0":            {[]string{good, "--capacity", "0"}, 2, []string{"capacity \"0\"", "keeps nothing"}},
		"capacity 0x":           {[]string{good, "--capacity", "2x,0x"}, 2, []string{"0x", "keeps nothing"}},
		"capacity nonsense":     {[]string{good, "--capacity", "big"}, 2, []string{`capacity "big"`, "1.5x"}},
		"peak of nothing":       {[]string{good, "--capacity", "peak:"}, 2, []string{`capacity "peak:"`, "peak:POLICY"}},
		"peak of no policy":     {[]string{good, "--capacity", "peak:window:-1"}, 2, []string{"capacity peak:window:-1", "window:N, N from 0"}},
		"peak of a cache":       {[]string{good, "--policy", "lru", "--capacity", "peak:lru"}, 2, []string{"lru has a capacity: expected a policy without one"}},
		"peak spelled anew":     {[]string{good, "--policy", "window:2", "--capacity", "peak:window:02"}, 2, []string{"write peak:window:2"}},
		"peak beside the run":   {[]string{good, "--policy", "lru", "--capacity", "peak:window:2"}, 2, []string{"the run has no policy window:2: add --policy window:2"}},
		"peak left out":         {[]string{good, "--warmup", "staging", "--capacity", "peak:window:2"}, 1, []string{"capacity peak:window:2: this run has no policy window:2"}},
		"bytes without size":    {[]string{good, "--capacity", "1MiB"}, 1, []string{"--entry-bytes"}},
		"too many windows":      {[]string{good, "--warmup", "lru:9"}, 1, []string{"9 prompt windows", "has 8"}},
		"warm-up nonsense":      {[]string{good, "--warmup", "hot"}, 2, []string{`warm-up "hot"`, "staging"}},
		"options of a group":    {[]string{good, "--policy", "all:kin=0.1"}, 2, []string{`policy "all:kin=0.1"`, "all takes no options"}},
		"unknown group":         {[]string{good, "--policy", "lossi"}, 2, []string{"unknown policy", "among the groups, did you mean lossy?"}},
		"file as a policy":      {[]string{good, "--policy", "mine.py:Mine"}, 2, []string{`"mine.py:Mine" is a file`, "exec:python3 FILE"}},
		"unknown policy":        {[]string{good, "--policy", "lookahed"}, 2, []string{"unknown policy", "did you mean lookahead?", "known: "}},
		"policy options":        {[]string{good, "--policy", "window:many"}, 2, []string{"window:N"}},
		"policy misspelt":       {[]string{good, "--policy", "LRUU"}, 2, []string{`unknown policy "LRUU", did you mean lrfu or lru?`}},
		"policies with a typo":  {[]string{good, "--policy", "fifo,lur"}, 2, []string{`unknown policy "lur"`}},
		"output to stdout":      {[]string{good, "--out", "-"}, 2, []string{"--out - does not mean stdout"}},
		"no number":             {[]string{good, "--mtp", "two"}, 2, []string{`--mtp "two": expected a whole number; see`}},
		"no seed":               {[]string{good, "--seed", "-1"}, 2, []string{`--seed "-1": expected a whole number of at least 0`}},
		"no bytes":              {[]string{good, "--entry-bytes", "4KB2"}, 2, []string{`--entry-bytes "4KB2": expected whole bytes, as in 656, 4GB`}},
		"bits":                  {[]string{good, "--entry-bytes", "656Kb"}, 2, []string{`--entry-bytes "656Kb": a final b means bits, did you mean 656KB?`}},
		"half a byte":           {[]string{good, "--entry-bytes", "1.5"}, 2, []string{`--entry-bytes "1.5": expected whole bytes`}},
		"half a byte, unit":     {[]string{good, "--entry-bytes", "1.5 B"}, 2, []string{`--entry-bytes "1.5 B": expected whole bytes`}},
		"too many bytes":        {[]string{good, "--entry-bytes", "9000000000000000000"}, 2, []string{"--entry-bytes", "expected at most 1GiB"}},
		"far too many bytes":    {[]string{good, "--entry-bytes", "90000TB"}, 2, []string{"--entry-bytes", "expected at most 1GiB"}},
		"no time":               {[]string{good, "--checkpoint", "5"}, 2, []string{`--checkpoint "5": expected a time with its unit`}},
		"beyond a number":       {[]string{good, "--mtp", "99999999999999999999"}, 2, []string{"out of range"}},
		"unknown flag":          {[]string{good, "--capasity", "2x"}, 2, []string{"--capasity", "did you mean --capacity?"}},
		"unknown layer":         {[]string{good, "--layers", "7"}, 1, []string{"layer 7", "0, 1"}},
		"unknown request":       {[]string{good, "--requests", "q"}, 1, []string{`request "q" is not in the trace`, "(it has r)"}},
		"unknown detail":        {[]string{good, "--per", "head"}, 2, []string{"cell, request, layer or stream"}},
		"no layers":             {[]string{good, "--layers", ""}, 2, []string{"--layers is empty"}},
		"no requests":           {[]string{good, "--requests="}, 2, []string{"--requests is empty"}},
		"no capacities":         {[]string{good, "--capacity", ""}, 2, []string{"--capacity is empty"}},
		"fresh without --out":   {[]string{good, "--fresh"}, 2, []string{"--fresh needs --out"}},
		"keeps without --out":   {[]string{good, "--checkpoint", "1s"}, 2, []string{"--checkpoint needs --out"}},
		"profile without --out": {[]string{good, "--profile"}, 2, []string{"--profile needs --out"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"replay"}, c.args...)
			code, stdout, stderr := run(args...)
			if code != c.code || stdout != "" {
				t.Errorf("exit %d, expected %d; stdout %q", code, c.code, stdout)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr lacks %q:\n%s", want, stderr)
				}
			}
			if strings.Count(stderr, "\n") > 4 {
				t.Errorf("the error takes more than a screen line or two:\n%s", stderr)
			}
			if len(c.args) == 0 || c.code == 2 {
				return
			}
			out := t.TempDir()
			if code, _, _ := run(append(args, "--out", out)...); code != c.code {
				t.Errorf("with --out: exit %d", code)
			}
			if rows, _ := filepath.Glob(filepath.Join(out, "*.jsonl")); len(rows) > 0 {
				t.Errorf("rows were kept: %v", rows)
			}
			if cells, _ := filepath.Glob(filepath.Join(out, "cells", "*")); len(cells) > 0 {
				t.Errorf("cells were kept: %v", cells)
			}
		})
	}
}

// A file without read permission is an error, not an empty trace.
func TestNoPermission(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	path := smallTrace(t, small)
	fatal.If(t, os.Chmod(path, 0))
	fails(t, 1, "permission", "replay", path)
}

// For any flipped bit of a trace, replay gives the rows of the valid trace or an error, never other
// rows.
func TestFlippedBits(t *testing.T) {
	good := smallTrace(t, small)
	args := []string{"--policy", "lru", "--policy", "lookahead", "--capacity", "1.5x", "--per", "stream", "--format", "csv"}
	want := must(t, append([]string{"replay", alter(t, good, func(b []byte) []byte { return b })}, args...)...)
	text, err := os.ReadFile(good)
	fatal.If(t, err)
	r := rand.New(rand.NewPCG(5, 6))
	flips, silent := 1500, 0
	if testing.Short() {
		flips = 200
	}
	for range flips {
		bit := r.IntN(8 * len(text))
		flipped := bytes.Clone(text)
		flipped[bit/8] ^= 1 << (bit % 8)
		path := filepath.Join(t.TempDir(), "altered.parquet")
		fatal.If(t, os.WriteFile(path, flipped, 0o644))
		code, got, _ := run(append([]string{"replay", path}, args...)...)
		if code == 0 && got != want {
			t.Fatalf("bit %d of byte %d: other rows:\n%s", bit%8, bit/8, got)
		}
		if code == 0 {
			silent++
		}
	}
	if silent > flips/4 {
		t.Errorf("%d of %d flips went unseen", silent, flips)
	}
	t.Logf("%d flips: %d errors, %d that change nothing that is read", flips, flips-silent, silent)
}

// Traces whose rows would be indistinguishable, or that rows cannot name, are refused before any
// replay.
func TestTraceNames(t *testing.T) {
	good := smallTrace(t, small)
	other := small
	other.Prompt = 90
	for name, c := range map[string]struct {
		paths []string
		code  int
		want  string
	}{
		"twice":        {[]string{good, filepath.Dir(good) + "/./small.parquet"}, 2, "is named twice"},
		"one name":     {[]string{good, smallTrace(t, other)}, 2, "have the same file name"},
		"one digest":   {[]string{good, tracetest.Copy(t, good, "b.parquet")}, 2, "are the same trace (digest "},
		"escape":       {[]string{tracetest.Copy(t, good, "a\x1b[1m.parquet")}, 1, "is not printable UTF-8"},
		"two lines":    {[]string{tracetest.Copy(t, good, "a\nb.parquet")}, 1, "is not printable UTF-8"},
		"no UTF-8":     {[]string{tracetest.Copy(t, good, "a\xff.parquet")}, 1, "is not printable UTF-8"},
		"long names":   {[]string{tracetest.Copy(t, good, strings.Repeat("x", 245)+".parquet")}, 0, "4 rows"},
		"long letters": {[]string{tracetest.Copy(t, good, "a"+strings.Repeat("é", 122)+".parquet")}, 0, "4 rows"},
	} {
		out := t.TempDir()
		says(t, c.code, c.want, append([]string{"replay", "--policy", "lru", "--policy", "opt", "--capacity", "1x,2x", "--out", out, "--profile"}, c.paths...)...)
		if cells, _ := filepath.Glob(filepath.Join(out, "cells", "*")); c.code != 0 && len(cells) > 0 {
			t.Errorf("%s: cells were kept", name)
		}
		if c.code == 0 {
			if code, _, stderr := run("leaderboard", out, "--out", t.TempDir()); code != 0 {
				t.Errorf("%s: the board of it: %s", name, stderr)
			}
		}
	}
}

// Without --out a replay prints at most ten lines, for any number of policies: hit rates and × OPT
// of the rows. --format prints the rows.
func TestReplaySummary(t *testing.T) {
	const path = "../../datasets/bundled/smollm2_niah_multikey_3_4k.parquet"
	for _, args := range [][]string{nil, {"--policy", "lossy,lru,opt"}, {"--policy", "window:1-8"}, {"--capacity", "sweep:16", "--policy", "lru,opt"},
		{"--policy", "lru", "--capacity", "1x", "--tier", "dram=lru@4x"}, {"../../datasets/corpus/wide_questions.parquet", "--warmup", "cold"}} {
		text := must(t, append([]string{"replay", path}, args...)...)
		if lines := strings.Split(strings.TrimSpace(text), "\n"); len(lines) > 10 {
			t.Errorf("%v prints %d lines:\n%s", args, len(lines), text)
		}
	}
	// 137125 misses of 979200 are 86.0 % hits, and 137125 ÷ 91492 is 1.50.
	text := must(t, "replay", path, "--policy", "lru,opt,fifo", "--capacity", "1x,2x")
	for _, want := range []string{" lru ", "86.0 %  1.50×", "72.8 %  1.01×", "all 6 rows", "\nwarning: cold start: the trace has no prompt windows"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	perStream := must(t, "replay", path, "--policy", "lru,opt,fifo", "--capacity", "1x,2x", "--format", "summary", "--per", "stream", "--parallel", "1")
	if before, _, _ := strings.Cut(text, "all 6 rows"); !strings.HasPrefix(perStream, before) {
		t.Errorf("the figures depend on --per:\n%s", perStream)
	}
	if table := must(t, "replay", path, "--policy", "lru,opt,fifo", "--capacity", "1x,2x", "--format", "table"); strings.Count(table, "  all  ") != 6 || !strings.Contains(table, "137125") {
		t.Errorf("--format table:\n%s", table)
	}
}

// Policies that a group leaves out take one line, and the same line of several traces is printed
// once. --explain states the reason for each.
func TestLeftOutIsOneLine(t *testing.T) {
	const path, other = "../../datasets/bundled/smollm2_niah_multikey_3_4k.parquet", "../../datasets/corpus/wide_questions.parquet"
	_, _, stderr := run("replay", path, "--policy", "all,lossy", "--capacity", "2x")
	if n := strings.Count(stderr, "left out"); n != 1 || !strings.Contains(stderr, "7 policies left out: needs blocks of several entries (block-lfu), needs scores (score-ewma), needs prompt_mass (adakv, pyramidkv, snapkv)") {
		t.Errorf("%d lines about policies left out:\n%s", n, stderr)
	}
	_, _, stderr = run("replay", path, "--policy", "all,lossy", "--capacity", "2x", "--explain")
	if n := strings.Count(stderr, "left out"); n != 7 || !strings.Contains(stderr, "score-ewma:decay=0.8 left out: it needs scores, the trace has none\n") {
		t.Errorf("%d explanations:\n%s", n, stderr)
	}
	_, _, stderr = run("replay", path, other, "--policy", "block-lfu,lru", "--capacity", "2x")
	if !strings.Contains(stderr, "policy block-lfu:admit=0 cannot run:") {
		t.Errorf("a policy that is named must run: %s", stderr)
	}
	_, _, stderr = run("replay", other, "../../datasets/corpus/wide_retrieval.parquet", "--policy", "all", "--capacity", "2x", "--layers", "5")
	if want := "all 2 traces: 1 policy left out: needs blocks of several entries (block-lfu)"; strings.Count(stderr, want) != 1 || strings.Count(stderr, "left out") != 1 {
		t.Errorf("%s\nexpected once: %s", stderr, want)
	}
}

// Errors about pools and changing budgets state a remedy.
func TestPoolFlags(t *testing.T) {
	good := smallTrace(t, small)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--pool reqest", 2, "did you mean request"},
		{"--pool layer", 1, "only stream of its layer"},
		{"--pool request --prefetch candidates:4 --topk 8 --policy lru", 1, "do not combine"},
		{"--reallocate 8", 2, "--allocation"},
		{"--reallocate x --allocation plan.yaml", 2, "expected decode steps, at least 1"},
		{"--warmup importance:4,scope=layer", 2, "scope=request"},
		{"--warmup lru:4,scope=request", 2, "importance:W[,scope=request]"},
		{"--pool request --policy lru --capacity 2x --warmup importance:4,scope=request --referee", 0, ""},
	} {
		says(t, c.code, c.want, append([]string{"replay", good}, strings.Fields(c.args)...)...)
	}
}

// In a folder with results of another engine version, none of them is reused. The board refuses to
// pool them and states how to choose.
func TestFolderOfAnotherEngine(t *testing.T) {
	path, out := smallTrace(t, small), t.TempDir()
	args := []string{"replay", path, "--policy", "lru", "--policy", "opt", "--capacity", "2x", "--out", out}
	must(t, args...)
	makeOld(t, out)
	code, _, stderr := run(args...)
	if code != 0 || !strings.Contains(stderr, "(0 cells were already in it)") {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	code, stdout, stderr := run("leaderboard", out)
	if code == 0 || stdout != "" || !strings.Contains(stderr, "engine") || !strings.Contains(stderr, "--where") {
		t.Errorf("exit %d, %q: %s", code, stdout, stderr)
	}
	if code, _, stderr := run("leaderboard", out, "--where", "engine="+replay.EngineVersion); code != 0 {
		t.Errorf("with --where engine=%s: %s", replay.EngineVersion, stderr)
	}
}

// makeOld turns the results of a folder into those of engine 0, under other names.
func makeOld(t *testing.T, out string) {
	t.Helper()
	for _, pattern := range []string{"*.jsonl", "cells/*/*.jsonl"} {
		files, err := filepath.Glob(filepath.Join(out, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			fatal.If(t, err)
			text = bytes.ReplaceAll(text, []byte(`"engine":"`+replay.EngineVersion+`"`), []byte(`"engine":"0"`))
			name := strings.TrimSuffix(f, ".jsonl") + "0.jsonl"
			if strings.Contains(pattern, "cells") {
				name = f // even under the name of the new engine's cell
			}
			fatal.If(t, os.WriteFile(name, text, 0o644))
		}
	}
}

// Memory does not grow with the trace: a trace four times as large is replayed in the same memory. In 20
// runs, two at a time on two loaded cores, it took 4 to 10 MiB more, and the limit is 40.
// scripts/flatmem.sh tests it with 10 GB.
func TestFlatMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 100 MB")
	}
	bin := program(t)
	peak := func(layers int) int64 { // 256 rows of 2560 indices each: 1.4 MB per layer
		path := filepath.Join(t.TempDir(), "synthetic.parquet")
		if out, err := exec.Command(bin, "datasets", "make", "synthetic", "--preset", "deepseek-v3.2-32k", "--steps", "224", "--layers", strconv.Itoa(layers), "-o", path).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cmd := exec.Command(bin, "replay", path, "--policy", "lru", "--policy", "opt", "--capacity", "2x", "--parallel", "2")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
	}
	small, large := peak(15), peak(60)
	t.Logf("20 MB: %d MiB resident, 81 MB: %d MiB", small, large)
	if large > small+40 {
		t.Errorf("replaying 20 MB takes %d MiB, 81 MB takes %d MiB, expected about the same", small, large)
	}
}

// A failed clusters command states the reason, does not change the trace and leaves nothing.
func TestClustersRefuses(t *testing.T) {
	folder := t.TempDir()
	ranked, out := filepath.Join(folder, "t.parquet"), filepath.Join(folder, "clusters.jsonl")
	text, err := os.ReadFile("../../datasets/corpus/selectors_qa_text.retroinfer.parquet")
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(ranked, text, 0o644))
	for want, args := range map[string][]string{
		"name it with -o": {ranked},
		"also an input":   {ranked, "-o", ranked},
		"lists of the selector exact show no clusters, those of retroinfer and kvdrive do": {"../../datasets/corpus/selectors_qa_text.exact.parquet", "-o", out},
		"write " + folder: {ranked, "-o", filepath.Join(folder, "no", "clusters.jsonl")},
	} {
		if code, _, stderr := run(append([]string{"clusters"}, args...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("clusters %v: exit %d, %q, want %q", args, code, stderr, want)
		}
	}
	if after, err := os.ReadFile(ranked); err != nil || !bytes.Equal(after, text) {
		t.Errorf("the trace has changed: %v", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A replay that cannot open or plan all its traces leaves no results folder.
func TestWrongTraceLeavesNoFolder(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	for _, args := range [][]string{{"nofile.parquet"}, {newsTrace, "nofile.parquet", "--profile"}, {newsTrace, "--layers", "99"}} {
		says(t, 1, "", append([]string{"replay", "--policy", "lru", "--capacity", "2x", "--out", out}, args...)...)
		if _, err := os.Lstat(out); err == nil {
			t.Errorf("%q: folder %s is left", args, out)
		}
	}
	fatal.If(t, os.WriteFile(out, nil, 0o600))
	says(t, 2, "is a file, expected a folder or a new name", "replay", newsTrace, "--policy", "lru", "--out", out)
}
