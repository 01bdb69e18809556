package cli_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/cmd/cli"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// run is the command line as a user calls it.
func run(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = cli.Main(all.Table(), args, &out, &err)
	return code, out.String(), err.String()
}

// smallTrace writes a sound trace of two layers.
func smallTrace(t *testing.T, o replaytest.Options) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "small.parquet")
	r := rand.New(rand.NewPCG(1, 1))
	w, err := trace.Create(path, o.Meta(8))
	if err != nil {
		t.Fatal(err)
	}
	for layer := range int32(2) {
		s := replaytest.Stream(r, o)
		s.Layer = layer
		if err := w.Write(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

var small = replaytest.Options{Prompt: 100, Steps: 30, Windows: 8, M: 16, Locality: 0.9, Scores: true, Sink: 2, Local: 3}

// scoreless is small without scores and without ranks.
func scoreless() replaytest.Options {
	o := small
	o.Scores, o.Ascending = false, true
	return o
}

// alter copies a trace with some bytes changed.
func alter(t *testing.T, path string, change func([]byte) []byte) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	altered := filepath.Join(t.TempDir(), "altered.parquet")
	if err := os.WriteFile(altered, change(bytes.Clone(text)), 0o644); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	w := parquet.NewGenericWriter[foreignRow](f, parquet.KeyValueMetadata("kvreplay", meta))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

const foreignMeta = `{"version":1,"order":"rank","topk":3,"candidates":4,"block_tokens":1}`

// Bad input never yields a score: a clear error with the place, the right exit code,
// nothing on stdout, no rows kept.
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
		want []string // all in stderr
	}{
		"no trace":              {[]string{}, 2, []string{"kvreplay: replay: trace missing", "usage"}},
		"no such file":          {[]string{"nowhere.parquet"}, 1, []string{"nowhere.parquet", "no such file"}},
		"directory":             {[]string{t.TempDir()}, 1, []string{"is a directory"}},
		"empty":                 {[]string{alter(t, good, func([]byte) []byte { return nil })}, 1, []string{"is empty"}},
		"not Parquet":           {[]string{alter(t, good, func([]byte) []byte { return []byte("request_id,layer\n") })}, 1, []string{"not a Parquet file", "kvreplay import"}},
		"truncated":             {[]string{alter(t, good, func(b []byte) []byte { return b[:len(b)*2/3] })}, 1, []string{"truncated or corrupt"}},
		"flipped page bit":      {[]string{alter(t, good, func(b []byte) []byte { b[900] ^= 4; return b })}, 1, []string{"altered.parquet"}},
		"altered metadata":      {[]string{alter(t, good, func(b []byte) []byte { return bytes.Replace(b, []byte(`"sink":2`), []byte(`"sink":1`), 1) })}, 1, []string{"altered.parquet", "seal"}},
		"wrong version":         {[]string{foreign(t, strings.Replace(foreignMeta, `n":1`, `n":2`, 1), row(0, func(*foreignRow) {}))}, 1, []string{"format version 2", "reads version 1"}},
		"K > M":                 {[]string{foreign(t, strings.Replace(foreignMeta, `"topk":3`, `"topk":9`, 1), row(0, func(*foreignRow) {}))}, 1, []string{"K = 9", "M = 4"}},
		"step twice":            {[]string{foreign(t, foreignMeta, row(3, func(r *foreignRow) { r.Step, r.SeqLen = 2, 53 }))}, 1, []string{"row 3", `request "r" layer 0`, "step 2 stands twice"}},
		"steps out of order":    {[]string{foreign(t, foreignMeta, row(3, func(r *foreignRow) { r.Step, r.SeqLen = 0, 51 }))}, 1, []string{"row 3", "step 0 after step 2"}},
		"seq_len":               {[]string{foreign(t, foreignMeta, row(4, func(r *foreignRow) { r.SeqLen = 99 }))}, 1, []string{"row 4", "seq_len 99", "55"}},
		"index past context":    {[]string{foreign(t, foreignMeta, row(2, func(r *foreignRow) { r.Indices = []int32{7, 5, 53, 1} }))}, 1, []string{"row 2", "step 2", "topk_indices[2] = 53", "< 53"}},
		"candidate past it":     {[]string{foreign(t, foreignMeta, row(2, func(r *foreignRow) { r.Indices = []int32{7, 5, 2, 53} }))}, 1, []string{"row 2", "topk_indices[3] = 53"}},
		"negative index":        {[]string{foreign(t, foreignMeta, row(2, func(r *foreignRow) { r.Indices = []int32{7, -5, 3, 1} }))}, 1, []string{"row 2", "topk_indices[1] = -5"}},
		"duplicate index":       {[]string{foreign(t, foreignMeta, row(5, func(r *foreignRow) { r.Indices = []int32{7, 5, 7, 1} }))}, 1, []string{"row 5", "7 stands twice"}},
		"duplicate candidate":   {[]string{foreign(t, foreignMeta, row(5, func(r *foreignRow) { r.Indices = []int32{7, 5, 1, 5} }))}, 1, []string{"row 5", "5 stands twice"}},
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
		"peak of no policy":     {[]string{good, "--capacity", "peak:window:-1"}, 2, []string{"capacity peak:window:-1", "window:N with N steps"}},
		"peak of a cache":       {[]string{good, "--policy", "lru", "--capacity", "peak:lru"}, 2, []string{"lru has a capacity itself"}},
		"peak spelled anew":     {[]string{good, "--policy", "window:2", "--capacity", "peak:window:02"}, 2, []string{"write it peak:window:2"}},
		"peak beside the run":   {[]string{good, "--policy", "lru", "--capacity", "peak:window:2"}, 2, []string{"the run has no policy window:2; add --policy window:2"}},
		"peak left out":         {[]string{good, "--warmup", "staging", "--capacity", "peak:window:2"}, 1, []string{"capacity peak:window:2: policy window:2 is not part of this run"}},
		"bytes without size":    {[]string{good, "--capacity", "1MiB"}, 1, []string{"--entry-bytes"}},
		"too many windows":      {[]string{good, "--warmup", "lru:9"}, 1, []string{"9 windows", "8 recorded"}},
		"warm-up nonsense":      {[]string{good, "--warmup", "hot"}, 2, []string{`warm-up "hot"`, "staging"}},
		"options of a group":    {[]string{good, "--policy", "all:kin=0.1"}, 2, []string{`policy "all:kin=0.1"`, "all takes no options"}},
		"unknown group":         {[]string{good, "--policy", "lossi"}, 2, []string{"unknown policy", "of the groups, did you mean lossy?"}},
		"unknown policy":        {[]string{good, "--policy", "lookahed"}, 2, []string{"unknown policy", "did you mean lookahead?", "known: "}},
		"policy options":        {[]string{good, "--policy", "window:many"}, 2, []string{"window:N"}},
		"policy misspelt":       {[]string{good, "--policy", "LRUU"}, 2, []string{`unknown policy "LRUU", did you mean lrfu or lru?`}},
		"policies with a typo":  {[]string{good, "--policy", "fifo,lur"}, 2, []string{`unknown policy "lur"`}},
		"output to stdout":      {[]string{good, "--out", "-"}, 2, []string{"--out - is not stdout"}},
		"no number":             {[]string{good, "--mtp", "two"}, 2, []string{`--mtp "two": expected a whole number; see`}},
		"no seed":               {[]string{good, "--seed", "-1"}, 2, []string{`--seed "-1": expected a whole number of at least 0`}},
		"no bytes":              {[]string{good, "--entry-bytes", "4KB2"}, 2, []string{`--entry-bytes "4KB2": expected whole bytes, as in 656 or 4KiB`}},
		"bits":                  {[]string{good, "--entry-bytes", "656Kb"}, 2, []string{`--entry-bytes "656Kb": expected whole bytes`}},
		"a unit of nothing":     {[]string{good, "--entry-bytes", "4K"}, 2, []string{`--entry-bytes "4K": expected whole bytes`}},
		"half a byte":           {[]string{good, "--entry-bytes", "1.5"}, 2, []string{`--entry-bytes "1.5": expected whole bytes`}},
		"half a byte, unit":     {[]string{good, "--entry-bytes", "1.5 B"}, 2, []string{`--entry-bytes "1.5 B": expected whole bytes`}},
		"too many bytes":        {[]string{good, "--entry-bytes", "9000000000000000000"}, 2, []string{"--entry-bytes", "expected at most 1GiB"}},
		"far too many bytes":    {[]string{good, "--entry-bytes", "90000TB"}, 2, []string{"--entry-bytes", "expected at most 1GiB"}},
		"no time":               {[]string{good, "--checkpoint", "5"}, 2, []string{`--checkpoint "5": expected a time with its unit`}},
		"beyond a number":       {[]string{good, "--mtp", "99999999999999999999"}, 2, []string{"out of range"}},
		"unknown flag":          {[]string{good, "--capasity", "2x"}, 2, []string{"--capasity", "did you mean --capacity?"}},
		"unknown layer":         {[]string{good, "--layers", "7"}, 1, []string{"layer 7", "0, 1"}},
		"unknown request":       {[]string{good, "--requests", "q"}, 1, []string{`request "q" is not in the trace`, "; it has r"}},
		"unknown detail":        {[]string{good, "--per", "head"}, 2, []string{"cell, request, layer or stream"}},
		"no layers":             {[]string{good, "--layers", ""}, 2, []string{"--layers is empty"}},
		"no requests":           {[]string{good, "--requests="}, 2, []string{"--requests is empty"}},
		"no capacities":         {[]string{good, "--capacity", ""}, 2, []string{"--capacity is empty"}},
		"fresh without --out":   {[]string{good, "--fresh"}, 2, []string{"--fresh goes with --out"}},
		"keeps without --out":   {[]string{good, "--checkpoint", "1s"}, 2, []string{"--checkpoint goes with --out"}},
		"profile without --out": {[]string{good, "--profile"}, 2, []string{"--out DIR"}},
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

// A file that nobody may read is an error, not an empty trace.
func TestNoPermission(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	path := smallTrace(t, small)
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := run("replay", path); code != 1 || stdout != "" || !strings.Contains(stderr, "permission") {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
}

// Whatever bit of a trace is flipped, replay gives the rows of the sound trace or an
// error, never other rows.
func TestFlippedBits(t *testing.T) {
	good := smallTrace(t, small)
	args := []string{"--policy", "lru", "--policy", "lookahead", "--capacity", "1.5x", "--per", "stream", "--format", "csv"}
	code, want, stderr := run(append([]string{"replay", alter(t, good, func(b []byte) []byte { return b })}, args...)...)
	if code != 0 {
		t.Fatal(stderr)
	}
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
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
		if err := os.WriteFile(path, flipped, 0o644); err != nil {
			t.Fatal(err)
		}
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
