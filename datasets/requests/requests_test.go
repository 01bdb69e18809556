package requests_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/datasets/requests"
	"github.com/kvreplay/kvreplay/internal/fatal"
)

const (
	code         = "testdata/azure_code_300.csv"
	conv         = "testdata/azure_conv_300.csv.gz"
	conversation = "testdata/mooncake_conversation_300.jsonl.gz"
	synthetic    = "testdata/mooncake_synthetic_300.jsonl.gz"
)

// figures are the expected figures of an excerpt.
type figures struct {
	duration, rate      float64
	peak, peakMinute    int64
	gap                 [6]float64 // min mean p50 p90 p99 max, in seconds
	cv, zeroGaps        float64
	input, output       [6]float64
	inputAll, outputAll int64
	prefixes            []float64 // blocks, distinct, seen share, hit tokens, hit share, hit requests, full requests, used once
	uses                [6]float64
}

// The figures of the excerpts come from a separate Python script, with csv and json of the standard
// library. A quantile is sorted(v)[ceil(p·n) − 1], deviations are statistics.stdev, and hits come
// from a set of the ids seen so far.
var excerpts = map[string]figures{
	code: {
		216.838239, 1.3789080808759013, 237, 3,
		[6]float64{6e-06, 0.7252115016722408, 0.079029, 0.301404, 8.068023, 143.734274}, 11.682286866738858, 0,
		[6]float64{14, 2091.7633333333333, 1364, 5923, 7436, 7436}, [6]float64{6, 23.753333333333334, 13, 41, 155, 697},
		627529, 7126, nil, [6]float64{},
	},
	conv: {
		84.029102, 3.5582910311239555, 191, 0,
		[6]float64{6e-06, 0.2810337859531773, 0.181214, 0.622089, 1.528606, 4.314579}, 1.4152281311584332, 0,
		[6]float64{2, 900, 972, 1314, 4085, 4107}, [6]float64{12, 256.23333333333335, 217, 426, 575, 649},
		270000, 76870, nil, [6]float64{},
	},
	conversation: {
		102, 2.9313725490196076, 162, 0,
		[6]float64{0, 0.3411371237458194, 0, 2.999, 3.001, 3.001}, 2.796475058048677, 0.8862876254180602,
		[6]float64{892, 14233.236666666666, 8767, 28214, 87172, 120633}, [6]float64{1, 376.93, 396, 615, 906, 2000},
		4269971, 113079,
		[]float64{8490, 7814, 0.07962308598351, 345966, 0.08102303270912144, 299, 1, 0.9521371896595854},
		[6]float64{1, 1.086511389813156, 1, 1, 2, 300},
	},
	synthetic: {
		86.79, 3.445097361447171, 208, 0,
		[6]float64{0, 0.29026755852842806, 0.209, 0.635, 1.544, 1.842}, 0.9839757326071076, 0.0033444816053511705,
		[6]float64{13, 12843.883333333333, 5891, 35397, 56397, 134773}, [6]float64{2, 191.10333333333332, 161, 442, 790, 809},
		3853165, 57331,
		[]float64{7721, 7352, 0.047791736821655224, 187951, 0.04877834196044031, 13, 3, 0.9549782372143635},
		[6]float64{1, 1.0501904243743199, 1, 1, 2, 4},
	},
}

func TestSummarise(t *testing.T) {
	for path, want := range excerpts {
		s, err := requests.Summarise(context.Background(), path)
		fatal.If(t, err)
		check := func(name string, got *float64, want float64) {
			t.Helper()
			if got == nil || math.Abs(*got-want) > 1e-9*math.Abs(want) {
				t.Errorf("%s: %s is %v, want %v", path, name, text(got), want)
			}
		}
		whole := func(name string, got, want int64) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s is %d, want %d", path, name, got, want)
			}
		}
		spread := func(name string, got requests.Spread, want [6]float64) {
			t.Helper()
			for i, v := range []*float64{got.Min, got.Mean, got.P50, got.P90, got.P99, got.Max} {
				check(name+" "+[]string{"min", "mean", "p50", "p90", "p99", "max"}[i], v, want[i])
			}
		}
		a := &s.Arrivals
		whole("requests", s.Requests, 300)
		check("duration", &a.DurationSeconds, want.duration)
		check("rate", a.RatePerSecond, want.rate)
		whole("peak", a.PeakPerMinute, want.peak)
		whole("peak minute", a.PeakMinute, want.peakMinute)
		spread("gap", a.Gap, want.gap)
		check("variation", a.GapCV, want.cv)
		check("zero gaps", a.Simultaneous, want.zeroGaps)
		spread("input", s.Input.Spread, want.input)
		spread("output", s.Output.Spread, want.output)
		whole("input", s.Input.Total, want.inputAll)
		whole("output", s.Output.Total, want.outputAll)
		if (s.Prefixes != nil) != (want.prefixes != nil) {
			t.Fatalf("%s: prefixes %v", path, s.Prefixes)
		}
		if p := s.Prefixes; p != nil {
			blocks, distinct, hits, some, all := float64(p.Blocks), float64(p.Distinct), float64(p.HitTokens), float64(p.HitRequests), float64(p.FullRequests)
			for i, got := range []*float64{&blocks, &distinct, p.SeenShare, &hits, p.HitShare, &some, &all, p.UsedOnceShare} {
				check("prefix figure", got, want.prefixes[i])
			}
			spread("uses", p.Uses, want.uses)
			whole("displaced", p.Displaced, 0)
		}
	}
}

func text(v *float64) any {
	if v == nil {
		return "null"
	}
	return *v
}

// readAll returns all requests of a file, each with its own blocks.
func readAll(path string) (all []requests.Request, err error) {
	r, err := requests.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		var q requests.Request
		if err := r.Read(&q); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, q)
	}
}

// Read returns the first and a later row of the excerpts as the files have them.
func TestReadAll(t *testing.T) {
	azure, err := readAll(code)
	fatal.If(t, err)
	if len(azure) != 300 || azure[0].Arrival != 0 || azure[0].InputTokens != 4808 || azure[0].OutputTokens != 10 || azure[0].PrefixBlocks != nil {
		t.Errorf("%d requests, the first %+v", len(azure), azure[0])
	}
	if q := azure[2]; q.Arrival != 98189*time.Microsecond || q.InputTokens != 110 || q.OutputTokens != 27 { // 04.0781490 − 03.9799600
		t.Errorf("third %+v", q)
	}
	mooncake, err := readAll(conversation)
	fatal.If(t, err)
	q := mooncake[3] // {"timestamp": 0, "input_length": 2290, "output_length": 316, "hash_ids": [0, 42, 43, 44, 45]}
	if len(mooncake) != 300 || q.InputTokens != 2290 || q.OutputTokens != 316 || len(q.PrefixBlocks) != 5 || q.PrefixBlocks[1] != 42 || q.PrefixBlocks[4] != 45 {
		t.Errorf("%d requests, the fourth %+v", len(mooncake), q)
	}
}

// Six requests by hand, with blocks of 512 tokens. Request 1 fills its cache with 1 2 3. Request 2
// hits 1 2, and not 3, which follows another block. Request 3 is wholly known, and its last block
// is short. Request 4 shares nothing. Request 5 knows a block only behind an unknown one. Request 6
// has no tokens. Hits: 1024 of 1, 700 of 3.
const byHand = `{"timestamp": 5000, "input_length": 1536, "output_length": 1, "hash_ids": [1, 2, 3]}
{"timestamp": 5000, "input_length": 1537, "output_length": 2, "hash_ids": [1, 2, 4, 3]}
{"timestamp": 64999, "input_length": 700, "output_length": 3, "hash_ids": [1, 2]}
{"timestamp": 65000, "input_length": 5, "output_length": 0, "hash_ids": [5]}
{"hash_ids": [6, 2], "output_length": 5, "input_length": 513, "timestamp": 65000}
{"timestamp": 125000, "input_length": 0, "output_length": 6, "hash_ids": []}
`

func TestByHand(t *testing.T) {
	s, err := requests.Summarise(context.Background(), file(t, byHand))
	fatal.If(t, err)
	p, a := s.Prefixes, s.Arrivals
	if s.Requests != 6 || a.DurationSeconds != 120 || *a.RatePerSecond != 5.0/120 {
		t.Errorf("%d requests in %v s, %v a second", s.Requests, a.DurationSeconds, *a.RatePerSecond)
	}
	if a.PeakPerMinute != 3 || a.PeakMinute != 0 || *a.Simultaneous != 0.4 { // 2 at 0, one at 59.999 s. Gaps 0 59.999 0.001 0 60
		t.Errorf("peak %d in minute %d, zero gaps %v", a.PeakPerMinute, a.PeakMinute, *a.Simultaneous)
	}
	if p.Blocks != 12 || p.Distinct != 6 || *p.SeenShare != 0.5 || p.Displaced != 2 {
		t.Errorf("%+v", p)
	}
	if p.HitTokens != 1024+700 || p.HitRequests != 2 || p.FullRequests != 1 || *p.Uses.Max != 4 || *p.Uses.P50 != 1 { // uses 3 4 2 1 1 1
		t.Errorf("%+v, uses up to %v, median %v", p, *p.Uses.Max, *p.Uses.P50)
	}
}

// A block that was seen behind another one ends the hit, though those behind it follow each
// other as before.
func TestDisplacedBlocksEndTheHit(t *testing.T) {
	s, err := requests.Summarise(context.Background(), file(t, `{"timestamp": 0, "input_length": 2048, "output_length": 1, "hash_ids": [1, 2, 3, 4]}
{"timestamp": 1, "input_length": 1536, "output_length": 1, "hash_ids": [1, 3, 4]}
`))
	fatal.If(t, err)
	if p := s.Prefixes; p.HitTokens != 512 || p.Displaced != 1 || p.FullRequests != 0 || *p.SeenShare != 3.0/7 {
		t.Errorf("%+v, expected a hit of one block", p)
	}
}

// A block that a prompt names twice was not found by another request, and one request uses it.
func TestBlockTwiceInAPrompt(t *testing.T) {
	s, err := requests.Summarise(context.Background(), file(t, `{"timestamp": 0, "input_length": 2048, "output_length": 1, "hash_ids": [5, 7, 5, 7]}
{"timestamp": 1, "input_length": 1024, "output_length": 1, "hash_ids": [5, 5]}
`))
	fatal.If(t, err)
	p := s.Prefixes
	if p.Blocks != 6 || p.Distinct != 2 || *p.SeenShare != 2.0/6 || p.Displaced != 3 || p.HitTokens != 512 || p.FullRequests != 0 {
		t.Errorf("%+v, expected the blocks of the second request to be seen before, and one of them hit", p)
	}
	if *p.Uses.Max != 2 || *p.Uses.Min != 1 || *p.UsedOnceShare != 0.5 {
		t.Errorf("uses %v to %v, used once %v, expected 2 for block 5 and 1 for block 7", *p.Uses.Min, *p.Uses.Max, *p.UsedOnceShare)
	}
}

// One request has no gaps, no rate and no deviation, which are null in JSON.
func TestOneRequest(t *testing.T) {
	s, err := requests.Summarise(context.Background(), file(t, azureHead+"2024-05-10 00:00:00.009930+00:00,7,1\n"))
	fatal.If(t, err)
	out, err := json.Marshal(s)
	fatal.If(t, err)
	for _, want := range []string{`"kind":"requests"`, `"requests":1`, `"rate_per_s":null`, `"gap_cv":null`, `"gap_s":{"min":null`, `"peak_per_minute":1`, `"prefixes":null`, `"total":7,"min":7`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
	var b bytes.Buffer
	if err := s.Text(&b); err != nil || !strings.Contains(b.String(), "arrivals per second              –") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// Equal gaps have no variation. Variation is undefined for gaps of 0 and for a single gap.
func TestVariation(t *testing.T) {
	for content, want := range map[string]any{"0 0 0": "null", "0 7": "null", "0 1000 2000": 0.0, "3 1003 5003": math.Sqrt(0.72)} {
		var lines string
		for ms := range strings.FieldsSeq(content) {
			lines += strings.Replace(moonRow, "9", ms, 1)
		}
		s, err := requests.Summarise(context.Background(), file(t, lines))
		fatal.If(t, err)
		if got := text(s.Arrivals.GapCV); got != want {
			t.Errorf("at %s ms: variation %v, want %v", content, got, want)
		}
	}
}

// The first of two minutes with equal numbers of requests is the busiest. A prompt without tokens
// is known to have no block.
func TestTiesAndEmptyPrompts(t *testing.T) {
	row := `{"timestamp": 9, "input_length": 0, "output_length": 3, "hash_ids": []}` + "\n"
	path := file(t, row+strings.Replace(row, "9", "60009", 1)+strings.Replace(row, "9", "180009", 1))
	s, err := requests.Summarise(context.Background(), path)
	fatal.If(t, err)
	if a := s.Arrivals; a.PeakMinute != 0 || a.PeakPerMinute != 1 {
		t.Errorf("peak of %d in minute %d, want 1 in minute 0", a.PeakPerMinute, a.PeakMinute)
	}
	all, err := readAll(path)
	fatal.If(t, err)
	for i, q := range all {
		if q.PrefixBlocks == nil || len(q.PrefixBlocks) != 0 {
			t.Errorf("request %d has blocks %#v, want a list of none", i, q.PrefixBlocks)
		}
	}
}

func file(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "requests")
	fatal.If(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

func packed(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.String()
}

const (
	azureHead = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
	azureRow  = "2023-11-16 18:17:03.9799600,4808,10\r\n"
	moonRow   = `{"timestamp": 9, "input_length": 513, "output_length": 3, "hash_ids": [7, 8]}` + "\n"
)

const classHead = "TIMESTAMP,ContextTokens,GeneratedTokens,Class\n"

var moonClass = strings.Replace(moonRow, "}", `, "class": "chat_1"}`, 1)

// Each format may state classes.
func TestClasses(t *testing.T) {
	for _, content := range []string{classHead + strings.Replace(azureRow, "\r\n", ",chat_1\n", 1), moonClass,
		"arrival_s,input_tokens,output_tokens,first_token_s,last_token_s,class\n0,10,3,1,2,chat_1\n"} {
		all, err := readAll(file(t, content))
		if err != nil || len(all) != 1 || all[0].Class != "chat_1" {
			t.Errorf("%q: %+v, %v", content, all, err)
		}
	}
	all, err := readAll("testdata/azure_classes_300.csv.gz")
	count := map[string]int{}
	for _, q := range all {
		count[q.Class]++
	}
	if err != nil || len(count) != 2 || count["code"] != 63 || count["conv"] != 237 {
		t.Errorf("%v, %v", count, err)
	}
}

// The content decides the format, packed or not, with any file name.
func TestDetect(t *testing.T) {
	for content, want := range map[string]requests.Format{
		azureHead + azureRow:            requests.Azure,
		packed(azureHead + azureRow):    requests.Azure,
		moonRow:                         requests.Mooncake,
		packed(moonRow):                 requests.Mooncake,
		`{"hash_ids": [`:                requests.Mooncake,
		"PAR1....PAR1":                  requests.Parquet,
		"":                              requests.Unknown,
		"{}":                            requests.Unknown,
		"time,tokens\n":                 requests.Unknown,
		`{"timestamp": 3, "step": 4}`:   requests.Unknown,
		`{"request_id": "a", "step_idx`: requests.Unknown,
	} {
		got, err := requests.Detect(file(t, content))
		if err != nil || got != want {
			t.Errorf("%.40q: %v, error %v, want %v", content, got, err, want)
		}
	}
}

// An error names the malformed line with file and line, and the expectation.
func TestMalformed(t *testing.T) {
	long := `{"timestamp": 9, "input_length": 513, "output_length": 3, "hash_ids": [` + strings.Repeat(" ", 17<<20) + "7, 8]}\n"
	for _, c := range []struct {
		content string
		line    int // 0: of no line
		want    string
	}{
		{"", 0, "is empty: copy or make it again"},
		{"nonsense", 0, `begins with "nonsense"`},
		{"PAR1", 0, "is a Parquet file"},
		{packed(azureHead + azureRow)[:40], 0, ""}, // somewhere within the data
		{"\x1f\x8bnot gzip at all", 0, "damaged"},
		{azureHead, 0, "expected at least one"},
		{classHead + "2023-11-16 18:17:03,1,1\n", 2, "3 fields, expected 4"},
		{classHead + "2023-11-16 18:17:03,1,1,a:b\n", 2, `class "a:b", expected 1 to 64 letters`},
		{classHead + "2023-11-16 18:17:03,1,1,\n", 2, `class ""`},
		{moonRow + moonClass, 2, `class "chat_1", expected one for each request or for none`},
		{moonClass + moonRow, 2, `class "", expected`},
		{strings.Replace(moonClass, `"chat_1"`, "7", 1), 1, `class ""`},
		{"TIMESTAMP,ContextTokens,GeneratedTokens,Images\n" + azureRow, 1, "the header is"},
		{azureHead + "2023-11-16 18:17:03.9799600,4808\n", 2, "2 fields, expected 3"},
		{azureHead + azureRow + "\r\n" + azureRow, 3, "empty line"},
		{azureHead + azureRow + "2023-11-16 18:17:03.9799599,1,1\n", 3, "is 100ns before the previous one"},
		{azureHead + "yesterday,1,1\n", 2, "expected one as 2023-11-16"},
		{azureHead + azureRow + "2023-11-16 18:17:04+00:00,1,1\n", 3, "like the first"},
		{azureHead + azureRow + "2523-11-16 18:17:04,1,1\n", 3, "centuries"},
		{azureHead + "2023-11-16 18:17:03,-1,1\n", 2, `ContextTokens "-1"`},
		{azureHead + "2023-11-16 18:17:03,1,2147483648\n", 2, `GeneratedTokens "2147483648"`},
		{azureHead + "2023-11-16 18:17:03,1.5,2\n", 2, "whole number"},
		{azureHead + "\"2023-11-16,1,2\n", 2, `extraneous or missing " in quoted-field`},
		{moonRow + strings.Replace(moonRow, "9", "8", 1), 2, "is 1ms before"},
		{strings.Replace(moonRow, "9", "-9", 1), 1, "timestamp -9"},
		{strings.Replace(moonRow, "9", "9.5", 1), 1, "timestamp 9.5"},
		{strings.Replace(moonRow, "9", "null", 1), 1, "timestamp null"},
		{strings.Replace(moonRow, "9", "9223372036855", 1), 1, "whole milliseconds"},
		{strings.Replace(moonRow, "513", "-513", 1), 1, `input_length "-513"`},
		{strings.Replace(moonRow, "513", "512", 1), 1, "2 hash_ids contradict input_length 512: expected 1"},
		{strings.Replace(moonRow, "513", "1025", 1), 1, "expected 3"},
		{strings.Replace(moonRow, ": 3,", `: "3",`, 1), 1, "output_length"},
		{strings.Replace(moonRow, "8]", "-8]", 1), 1, "hash_ids[1] is -8"},
		{strings.Replace(moonRow, "8]", "null]", 1), 1, "hash_ids[1] is null"},
		{strings.Replace(moonRow, "8]", "[8]]", 1), 1, "hash_ids[1] is [8]"},
		{strings.Replace(moonRow, "[7, 8]", "7", 1), 1, "hash_ids 7, expected a list"},
		{strings.Replace(moonRow, "{", `{"chat_id": 3, `, 1), 1, `unknown key "chat_id"`},
		{strings.Replace(moonRow, "{", `{"timestamp": 3, `, 1), 1, `field "timestamp" appears twice`},
		{strings.Replace(moonRow, `"output_length": 3, `, "", 1), 1, `no key "output_length"`},
		{moonRow + "\n" + moonRow, 2, "empty line"},
		{moonRow + "7\n", 2, "expected a JSON object"},
		{moonRow + strings.TrimSpace(moonRow) + moonRow, 2, "text behind the JSON object"},
		{moonRow + moonRow[:60], 2, "the line ends in the middle"},
		{moonRow + strings.Replace(moonRow, "513", "5x3", 1), 2, "invalid character 'x'"},
		{moonRow + long, 2, "longer than"},
	} {
		path := file(t, c.content)
		_, err := requests.Summarise(context.Background(), path)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%.120q: error %v, expected %q", c.content, err, c.want)
			continue
		}
		var row *requests.RowError
		if line := 0; errors.As(err, &row) {
			if line = row.Line; c.line != 0 && line != c.line {
				t.Errorf("%.120q: line %d, expected %d", c.content, line, c.line)
			}
		} else if c.line != 0 {
			t.Errorf("%.120q: %v is of no line, expected line %d", c.content, err, c.line)
		}
	}
}

// A packed file that was cut is an error at any place, never a shorter trace.
func TestTruncatedGzip(t *testing.T) {
	whole, err := os.ReadFile(conversation)
	fatal.If(t, err)
	for n := 11; n < len(whole); n += 997 {
		if _, err := readAll(file(t, string(whole[:n]))); err == nil {
			t.Errorf("%d of %d bytes are read as a trace", n, len(whole))
		}
	}
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none"), os.DevNull} {
		if _, err := requests.Open(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A cancelled context stops the reading.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	path := file(t, azureHead+strings.Repeat(azureRow, 2000))
	if _, err := requests.Summarise(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

// FuzzRead reads arbitrary bytes: an error, or requests that keep every rule.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{azureHead + azureRow, moonRow, byHand, packed(azureHead + azureRow), recordedText, "{", azureHead + "a,b,c"} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "fuzz")
	f.Fuzz(func(t *testing.T, data []byte) {
		fatal.If(t, os.WriteFile(path, data, 0o600))
		all, err := readAll(path)
		s, summaryErr := requests.Summarise(context.Background(), path)
		if (err == nil) != (summaryErr == nil) {
			t.Fatalf("ReadAll: %v, Summarise: %v", err, summaryErr)
		}
		if err != nil {
			return
		}
		if s.Requests != int64(len(all)) || len(all) == 0 {
			t.Fatalf("%d requests, summary of %d", len(all), s.Requests)
		}
		var last time.Duration
		for _, q := range all {
			if q.Arrival < last || q.InputTokens < 0 || q.OutputTokens < 0 {
				t.Fatalf("%+v after %v", q, last)
			}
			if q.PrefixBlocks != nil && len(q.PrefixBlocks) != (q.InputTokens+requests.BlockTokens-1)/requests.BlockTokens {
				t.Fatalf("%d blocks of %d tokens", len(q.PrefixBlocks), q.InputTokens)
			}
			last = q.Arrival
		}
		if p := s.Prefixes; p != nil && (p.HitTokens > s.Input.Total || p.Distinct > p.Blocks) {
			t.Fatalf("%+v of %d tokens", p, s.Input.Total)
		}
	})
}

// recordedText is a recorded run with comments.
const recordedText = "# a run\n# of two\narrival_s,input_tokens,output_tokens,first_token_s,last_token_s\n10.5,7,3,11,12.25\n# between\n12,8,1,13,13\n"

// A recorded run has its times from the first arrival on. Errors name the line.
func TestRecorded(t *testing.T) {
	all, err := readAll(file(t, recordedText))
	want := []requests.Request{
		{InputTokens: 7, OutputTokens: 3, FirstToken: 500 * time.Millisecond, LastToken: 1750 * time.Millisecond},
		{Arrival: 1500 * time.Millisecond, InputTokens: 8, OutputTokens: 1, FirstToken: 2500 * time.Millisecond, LastToken: 2500 * time.Millisecond},
	}
	if err != nil || !reflect.DeepEqual(all, want) {
		t.Errorf("%+v, %v", all, err)
	}
	short, err := readAll(file(t, "arrival_s,input_tokens,output_tokens,class\n10.5,7,3,a\n12,8,1,b\n"))
	for i := range want {
		want[i].FirstToken, want[i].LastToken, want[i].Class = 0, 0, []string{"a", "b"}[i]
	}
	if err != nil || !reflect.DeepEqual(short, want) {
		t.Errorf("without the times of answers: %+v, %v", short, err)
	}
	head := recordedText[:strings.Index(recordedText, "10.5")]
	for row, want := range map[string]string{
		"1,2,3,4":              "4: wrong number of fields",
		"x,2,3,4,5":            "4: time \"x\"",
		"-1,2,3,4,5":           "4: time \"-1\"",
		"1,2,3,0.5,5":          "4: arrival 1, first token 0.5",
		"1,2,3,4,3":            "expected them in this order",
		"1,2.5,3,4,5":          "input_tokens",
		"2,2,3,4,5\n1,2,3,4,5": "5: the timestamp is 1s before",
	} {
		if _, err := readAll(file(t, head+row+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected an error with %q", row, err, want)
		}
	}
	if _, err := readAll(file(t, "# c\narrival_s,input\n1,2\n")); err == nil || !strings.Contains(err.Error(), "2: the header is") {
		t.Error(err)
	}
}
