package trace_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// rawRow is a row of the format that a test can spoil.
type rawRow struct {
	RequestID     string    `parquet:"request_id,dict"`
	LayerID       int32     `parquet:"layer_id"`
	Head          *int32    `parquet:"head,optional"`
	PromptLen     int32     `parquet:"prompt_len"`
	Step          int32     `parquet:"step"`
	SeqLen        int32     `parquet:"seq_len"`
	TopKIndices   []int32   `parquet:"topk_indices,list"`
	Scores        []float32 `parquet:"scores,optional,list"`
	CoveredMass   *float32  `parquet:"covered_mass,optional"`
	AttentionMass []float32 `parquet:"attention_mass,optional,list"`
	Predicted     []int32   `parquet:"predicted_indices,optional,list"`
	PromptMass    []float32 `parquet:"prompt_mass,optional,list"`
}

const rawMeta = `{"block_tokens":1,"candidates":3,"order":"rank","topk":2,"version":1}`

// goodRows are two streams of three steps, every column filled.
func goodRows() []rawRow {
	var rows []rawRow
	for layer := range int32(2) {
		for step := range int32(3) {
			mass := float32(0.5)
			rows = append(rows, rawRow{RequestID: "a", LayerID: layer, PromptLen: 10, Step: step, SeqLen: 11 + step,
				TopKIndices: []int32{4, 1, 9}, Scores: []float32{3, 2, 2}, CoveredMass: &mass,
				AttentionMass: []float32{0.25, 0, 1}, Predicted: []int32{5, 0}})
		}
		rows[3*layer].PromptMass = []float32{1, 0, 0.5, 2, 0, 0, 0, 0, 0.25, 3}
	}
	return rows
}

// writeRaw writes groups of rows of any struct as a Parquet file with metadata.
func writeRaw[T any](t testing.TB, keyValues map[string]string, groups ...[]T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "raw.parquet")
	file, err := os.Create(path)
	fatal.If(t, err)
	var options []parquet.WriterOption
	for k, v := range keyValues {
		options = append(options, parquet.KeyValueMetadata(k, v))
	}
	w := parquet.NewGenericWriter[T](file, options...)
	for _, rows := range groups {
		if _, err := w.Write(rows); err != nil {
			t.Fatal(err)
		}
		fatal.If(t, w.Flush())
	}
	fatal.If(t, w.Close())
	fatal.If(t, file.Close())
	return path
}

// violated returns the rules that Validate reports, each once, and the messages.
func violated(t *testing.T, path string) (rules []string, messages string) {
	t.Helper()
	_, err := trace.Validate(t.Context(), path, func(e *trace.Error) bool {
		if !slices.Contains(rules, e.Rule) {
			rules = append(rules, e.Rule)
		}
		messages += e.Error() + "\n"
		return true
	})
	if err != nil {
		t.Fatalf("validate: %v", err)
	}
	return rules, messages
}

// expectRule checks that Validate reports exactly this rule with this text. Reading the file must
// end in an error of the same rule.
func expectRule(t *testing.T, path, rule, text string) {
	t.Helper()
	rules, messages := violated(t, path)
	if !slices.Equal(rules, []string{rule}) || !strings.Contains(messages, text) {
		t.Errorf("validate reports %q, expected rule %q with %q:\n%s", rules, rule, text, messages)
	}
	_, err := contents(path, nil)
	if e := trace.AsError(err); e == nil || e.Rule != rule {
		t.Errorf("reading ends in %v, expected an error of rule %q", err, rule)
	}
}

func ptr[T any](v T) *T { return &v }

// Each case breaks one thing in a valid file.
func TestViolations(t *testing.T) {
	meta := func(text string) map[string]string { return map[string]string{"kvreplay": text} }
	replaced := func(old, new string) map[string]string { return meta(strings.Replace(rawMeta, old, new, 1)) }
	index := replaced(`"rank","topk":2`, `"index","topk":3`)
	cases := []struct {
		name, rule, text string
		spoil            func(rows []rawRow)
		meta             map[string]string
	}{
		{name: "step twice", rule: trace.RuleKey, text: `request "a" layer 0 step 0: step 0 appears twice`, spoil: func(r []rawRow) { r[1].Step, r[1].SeqLen = 0, 11 }},
		{name: "steps out of order", rule: trace.RuleKey, text: "row 2: request \"a\" layer 0 step 1: step 1 after step 2", spoil: func(r []rawRow) { r[1].Step, r[1].SeqLen, r[2].Step, r[2].SeqLen = 2, 13, 1, 12 }},
		{name: "streams out of order", rule: trace.RuleKey, text: "comes after request \"a\" layer 3", spoil: func(r []rawRow) { r[0].LayerID, r[1].LayerID, r[2].LayerID = 3, 3, 3 }},
		{name: "prompt_len changes", rule: trace.RuleKey, text: "prompt_len 11, but 10 at the stream's first row", spoil: func(r []rawRow) { r[2].PromptLen, r[2].SeqLen = 11, 14 }},
		{name: "negative layer", rule: trace.RuleKey, text: "expected none below 0", spoil: func(r []rawRow) { r[0].LayerID, r[1].LayerID, r[2].LayerID = -1, -1, -1 }},
		{name: "negative prompt_len", rule: trace.RuleKey, text: "prompt_len -1, expected none below 0", spoil: func(r []rawRow) {
			for i := range r[:3] {
				r[i].PromptLen, r[i].SeqLen, r[i].Step, r[i].TopKIndices = -1, int32(1+i), int32(1+i), []int32{0}
				r[i].Scores, r[i].AttentionMass, r[i].Predicted = []float32{1}, []float32{1}, []int32{}
			}
			r[0].PromptMass, r[3].PromptMass = nil, nil
		}},
		{name: "request_id in Latin-1", rule: trace.RuleKey, text: `row 3: request "\xe9" layer 1 step 0: request_id "\xe9", expected UTF-8 text`, spoil: func(r []rawRow) { r[3].RequestID, r[4].RequestID, r[5].RequestID = "\xe9", "\xe9", "\xe9" }},
		{name: "head -1", rule: trace.RuleKey, text: "row 0: request \"a\" layer 0 step 0: head -1, expected 0 or more, or null", spoil: func(r []rawRow) {
			for i := range r {
				r[i].Head = ptr(int32(-1))
			}
		}},
		{name: "head -1 after null", rule: trace.RuleKey, text: "row 2: request \"a\" layer 0 step 2: head -1", spoil: func(r []rawRow) { r[2].Head = ptr(int32(-1)) }},
		{name: "head -2", rule: trace.RuleKey, text: "head -2, expected 0 or more", spoil: func(r []rawRow) {
			for i := range r {
				r[i].Head = ptr(int32(-2))
			}
		}},
		{name: "least head", rule: trace.RuleKey, text: "head: -2147483648, expected 0 or more", spoil: func(r []rawRow) {
			for i := range r[3:] {
				r[3+i].Head = ptr(int32(math.MinInt32))
			}
		}},
		{name: "seq_len", rule: trace.RuleSeqLen, text: "seq_len 12, expected prompt_len + step + 1 = 11", spoil: func(r []rawRow) { r[0].SeqLen = 12 }},
		{name: "index past the context", rule: trace.RuleIndex, text: "topk_indices[1] = 11, expected 0 ≤ index < 11", spoil: func(r []rawRow) { r[0].TopKIndices = []int32{1, 11, 2} }},
		{name: "negative index", rule: trace.RuleIndex, text: "topk_indices[0] = -1", spoil: func(r []rawRow) { r[0].TopKIndices = []int32{-1, 1, 2} }},
		{name: "index twice", rule: trace.RuleDistinct, text: "topk_indices[2] = 4 appears twice", spoil: func(r []rawRow) { r[5].TopKIndices = []int32{4, 1, 4} }},
		{name: "NaN", rule: trace.RuleScore, text: "scores[0] = NaN", spoil: func(r []rawRow) { r[0].Scores[0] = float32(math.NaN()) }},
		{name: "infinite score", rule: trace.RuleScore, text: "+Inf", spoil: func(r []rawRow) { r[0].Scores[0] = float32(math.Inf(1)) }},
		{name: "negative infinite score", rule: trace.RuleScore, text: "scores[2] = -Inf", spoil: func(r []rawRow) { r[0].Scores[2] = float32(math.Inf(-1)) }},
		{name: "infinite prompt mass", rule: trace.RulePromptMass, text: "prompt_mass[9] = +Inf", spoil: func(r []rawRow) { r[3].PromptMass[9] = float32(math.Inf(1)) }},
		{name: "rising scores", rule: trace.RuleScore, text: "scores[1] = 4 rises above scores[0] = 3", spoil: func(r []rawRow) { r[0].Scores[1] = 4 }},
		{name: "scores of another length", rule: trace.RuleScore, text: "differ in length", spoil: func(r []rawRow) { r[1].Scores = []float32{1, 1} }},
		{name: "scores null in a row", rule: trace.RuleScore, text: "row 4: request \"a\" layer 1 step 1: scores is null in 1 of the stream's 3 rows", spoil: func(r []rawRow) { r[4].Scores = nil }},
		{name: "scores null in a stream", rule: trace.RuleScore, text: "null in 3 of the stream's 3 rows, but has a value in the file's first row", spoil: func(r []rawRow) { r[3].Scores, r[4].Scores, r[5].Scores = nil, nil, nil }},
		{name: "attention mass", rule: trace.RuleMass, text: "attention_mass[1] = 1.5", spoil: func(r []rawRow) { r[0].AttentionMass[1] = 1.5 }},
		{name: "NaN mass", rule: trace.RuleMass, text: "attention_mass[0] = NaN", spoil: func(r []rawRow) { r[0].AttentionMass[0] = float32(math.NaN()) }},
		{name: "covered mass", rule: trace.RuleMass, text: "covered_mass = -0.5", spoil: func(r []rawRow) { r[0].CoveredMass = ptr(float32(-0.5)) }},
		{name: "covered mass null in a row", rule: trace.RuleMass, text: "covered_mass is null in 1", spoil: func(r []rawRow) {
			r[0].CoveredMass = nil
			r[1].CoveredMass = nil
			r[2].CoveredMass = nil
			r[4].CoveredMass = nil
		}},
		{name: "predicted past the context", rule: trace.RulePredict, text: "predicted_indices[0] = 11", spoil: func(r []rawRow) { r[0].Predicted[0] = 11 }},
		{name: "predicted twice", rule: trace.RulePredict, text: "predicted_indices[1] = 5 appears twice", spoil: func(r []rawRow) { r[0].Predicted[1] = 5 }},
		{name: "predicted null in a row", rule: trace.RulePredict, text: "null in 1", spoil: func(r []rawRow) { r[1].Predicted = nil }},
		{name: "prompt mass below 0", rule: trace.RulePromptMass, text: "prompt_mass[3] = -1, expected a finite number, 0 or more", spoil: func(r []rawRow) { r[0].PromptMass[3] = -1 }},
		{name: "NaN prompt mass", rule: trace.RulePromptMass, text: "prompt_mass[0] = NaN", spoil: func(r []rawRow) { r[3].PromptMass[0] = float32(math.NaN()) }},
		{name: "short prompt mass", rule: trace.RulePromptMass, text: "prompt_mass has 9 values, expected 10", spoil: func(r []rawRow) { r[0].PromptMass = r[0].PromptMass[:9] }},
		{name: "empty prompt mass", rule: trace.RulePromptMass, text: "prompt_mass has 0 values, expected 10", spoil: func(r []rawRow) { r[0].PromptMass, r[3].PromptMass = []float32{}, []float32{} }},
		{name: "prompt mass in a second row", rule: trace.RulePromptMass, text: "row 1: request \"a\" layer 0 step 1: prompt_mass has 2 lists in the stream's 3 rows, but has a list in the file's first row", spoil: func(r []rawRow) { r[1].PromptMass = r[0].PromptMass }},
		{name: "prompt mass in another row", rule: trace.RulePromptMass, text: "expected one in the first row of each stream", spoil: func(r []rawRow) { r[3].PromptMass, r[4].PromptMass = nil, r[3].PromptMass }},
		{name: "prompt mass in one stream", rule: trace.RulePromptMass, text: "0 lists in the stream's 3 rows", spoil: func(r []rawRow) { r[3].PromptMass = nil }},
		{name: "prompt mass not in the first stream", rule: trace.RulePromptMass, text: "1 lists in the stream's 3 rows, but is null in the file's first row", spoil: func(r []rawRow) { r[0].PromptMass = nil }},
		{name: "list longer than M", rule: trace.RuleList, text: "4 values, the metadata allows M = 3", spoil: func(r []rawRow) {
			r[0].TopKIndices, r[0].Scores, r[0].AttentionMass = []int32{1, 2, 3, 4}, []float32{1, 1, 1, 1}, []float32{0, 0, 0, 0}
		}},
		{name: "empty list", rule: trace.RuleList, text: "empty", spoil: func(r []rawRow) {
			r[0].TopKIndices, r[0].Scores, r[0].AttentionMass = []int32{}, []float32{}, []float32{}
		}},
		{name: "not ascending", rule: trace.RuleOrder, text: "topk_indices[1] = 1 after 4", spoil: func([]rawRow) {}, meta: index},
		{name: "K above M", rule: trace.RuleMetadata, text: "topk K = 4 exceeds candidates M = 3", meta: replaced(`"topk":2`, `"topk":4`)},
		{name: "order=index with candidates", rule: trace.RuleMetadata, text: "expected K = M", meta: replaced(`"rank"`, `"index"`)},
		{name: "version", rule: trace.RuleMetadata, text: "format version 2, this program reads version 1", meta: replaced(`"version":1`, `"version":2`)},
		{name: "unknown field", rule: trace.RuleMetadata, text: `unknown field "page_size"`, meta: replaced(`"version":1`, `"page_size":4,"version":1`)},
		{name: "no metadata", rule: trace.RuleMetadata, text: `no metadata key "kvreplay"`, meta: meta("")},
		{name: "metadata are no JSON", rule: trace.RuleMetadata, text: "metadata: ", meta: meta("{")},
		{name: "altered seal", rule: trace.RuleDigest, text: "metadata were altered", meta: map[string]string{"kvreplay": rawMeta, "kvreplay.seal": "0123456789abcdef"}},
		{name: "other digest", rule: trace.RuleDigest, text: "content or metadata were altered", meta: map[string]string{"kvreplay": rawMeta, "kvreplay.digest": "sha256:00"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rows := goodRows()
			if c.spoil != nil {
				c.spoil(rows)
			}
			if c.meta == nil {
				c.meta = meta(rawMeta)
			}
			if c.meta["kvreplay"] == "" {
				delete(c.meta, "kvreplay")
			}
			path := writeRaw(t, c.meta, rows)
			expectRule(t, path, c.rule, c.text)
		})
	}
	t.Run("good", func(t *testing.T) {
		if rules, messages := violated(t, writeRaw(t, meta(rawMeta), goodRows())); rules != nil {
			t.Errorf("a good file breaks %q:\n%s", rules, messages)
		}
	})
	t.Run("a context of no token", func(t *testing.T) { // every index is outside of it as well
		rows := goodRows()[:1]
		rows[0].PromptLen, rows[0].Step, rows[0].SeqLen = 0, -1, 0
		rules, messages := violated(t, writeRaw(t, meta(rawMeta), rows))
		if rules[0] != trace.RuleSeqLen || !strings.Contains(messages, "= 0, and at least 1") {
			t.Errorf("validate reports %q:\n%s", rules, messages)
		}
	})
	t.Run("stream split across row groups", func(t *testing.T) {
		rows := goodRows()
		rows[0].PromptMass, rows[3].PromptMass = nil, nil
		expectRule(t, writeRaw(t, meta(rawMeta), rows[:2], rows[2:]), trace.RuleKey, "row group 1 row 0: request \"a\" layer 0 step 2: continues")
	})
	t.Run("no rows", func(t *testing.T) {
		expectRule(t, writeRaw[rawRow](t, meta(rawMeta)), trace.RuleFile, "has no rows")
	})
}

// Every violation is reported with its place, up to the limit of the caller.
func TestValidateReportsAll(t *testing.T) {
	rows := goodRows()
	rows[0].Scores[1] = 9
	rows[2].TopKIndices[0] = 99
	rows[5].SeqLen = 3
	path := writeRaw(t, map[string]string{"kvreplay": rawMeta}, rows)
	rules, messages := violated(t, path)
	if want := []string{trace.RuleSeqLen, trace.RuleIndex, trace.RuleScore}; !slices.Equal(rules, want) {
		t.Errorf("rules %q, expected %q:\n%s", rules, want, messages)
	}
	for _, place := range []string{"row group 0 row 5: request \"a\" layer 1 step 2: seq_len 3", "row group 0 row 2: request \"a\" layer 0 step 2: topk_indices[0] = 99", "row group 0 row 0: request \"a\" layer 0 step 0: scores[1]"} {
		if !strings.Contains(messages, place) {
			t.Errorf("no message has %q:\n%s", place, messages)
		}
	}
	n := 0
	if _, err := trace.Validate(t.Context(), path, func(*trace.Error) bool { n++; return n < 2 }); err != nil || n != 2 {
		t.Errorf("a limit of 2 reported %d violations, error %v", n, err)
	}
}

// A column that is null in only some rows is left out. Faults in other columns of the stream are
// still reported, each at its row.
func TestValidateGoesOn(t *testing.T) {
	rows := goodRows()
	rows[1].Scores = nil
	rows[2].TopKIndices[1] = 500
	rows[1].CoveredMass = ptr(float32(7))
	rows[2].Predicted = nil
	rows[3].PromptMass, rows[5].PromptMass = nil, rows[3].PromptMass
	rows[5].AttentionMass = []float32{1}
	_, messages := violated(t, writeRaw(t, map[string]string{"kvreplay": rawMeta}, rows))
	for _, place := range []string{"row 1: request \"a\" layer 0 step 1: scores is null", "row 2: request \"a\" layer 0 step 2: topk_indices[1] = 500",
		"row 1: request \"a\" layer 0 step 1: covered_mass = 7", "row 2: request \"a\" layer 0 step 2: predicted_indices is null",
		"row 3: request \"a\" layer 1 step 0: prompt_mass has 1 lists", "row 5: request \"a\" layer 1 step 2: attention_mass and topk_indices differ"} {
		if !strings.Contains(messages, place) {
			t.Errorf("no message has %q:\n%s", place, messages)
		}
	}
	if n := strings.Count(messages, "\n"); n != 6 {
		t.Errorf("%d violations, expected 6:\n%s", n, messages)
	}
}

// Validation stops between streams if its context ends.
func TestValidateCancelled(t *testing.T) {
	path := writeRaw(t, map[string]string{"kvreplay": rawMeta}, goodRows())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v, err := trace.Validate(ctx, path, func(e *trace.Error) bool { t.Error(e); return true })
	if !errors.Is(err, context.Canceled) || v.Digest != "" {
		t.Errorf("%+v, error %v, expected that of the context", v, err)
	}
}

// Opening closes a file whose directory breaks a rule, even if report stops early.
func TestValidateCloses(t *testing.T) {
	const open = "/proc/self/fd"
	before, err := os.ReadDir(open)
	if err != nil {
		t.Skip("no list of open files here")
	}
	rows := goodRows()
	rows[5].SeqLen = 3
	path := writeRaw(t, map[string]string{"kvreplay": rawMeta}, rows)
	for range 8 {
		if _, err := trace.Validate(t.Context(), path, func(*trace.Error) bool { return false }); err != nil {
			t.Fatal(err)
		}
	}
	if after, err := os.ReadDir(open); err != nil || len(after) > len(before)+4 {
		t.Errorf("%d files are open, %d were before; %v", len(after), len(before), err)
	}
}
