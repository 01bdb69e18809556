package importer

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

func line(step, seqLen int, pos, rest string) string {
	return fmt.Sprintf(`{"request_id":"r","layer_id":0,"step_idx":%d,"seq_len_current":%d,"selected_token_pos":[%s]%s}`+"\n", step, seqLen, pos, rest)
}

const scored = `,"scores_topk":[0.5,0.25]`

func number(v int) *int { return &v }

// Faults in JSON lines give errors with the expected words.
func TestJSONLErrors(t *testing.T) {
	rank := Options{Meta: trace.Meta{Order: trace.OrderRank}}
	for _, c := range []struct {
		name    string
		text    string
		options Options
		words   []string
	}{
		{"order unsaid", line(0, 11, "1,2", ""), Options{}, []string{"line 1", "--order rank"}},
		{"order against scores", line(0, 11, "1,2", scored), Options{Meta: trace.Meta{Order: trace.OrderIndex}}, []string{"line 1", "has scores", "--order"}},
		{"scores in some", line(0, 11, "1,2", scored) + line(1, 12, "1,2", ""), Options{}, []string{"line 1", "line 2", "in all records or in none"}},
		{"scores in some, order stated", line(0, 11, "1,2", scored) + line(1, 12, "1,2", ""), rank, []string{"line 2", "scores present: false"}},
		{"beyond the context", line(0, 11, "1,2", scored) + line(1, 12, "1,12", scored), Options{}, []string{"line 2", "step 1", "topk_indices[1] = 12", "< 12"}},
		{"negative", line(0, 11, "1,-7", scored), Options{}, []string{"line 1", "-7"}},
		{"twice in a list", line(0, 11, "3,3", scored), Options{}, []string{"line 1", "appears twice"}},
		{"only padding", line(0, 11, "-1,-1", scored), Options{}, []string{"line 1", "no index"}},
		{"step twice", line(0, 11, "1,2", scored) + line(1, 12, "1,2", scored) + line(0, 11, "1,2", scored), Options{}, []string{"line 3", "line 1", "step 0"}},
		{"scores rise, order stated", line(0, 11, "1,2", `,"scores_topk":[0.25,0.5]`), rank, []string{"line 1", "step 0", "--order rank"}},
		{"scores too few", line(0, 11, "1,2,3", scored), Options{}, []string{"line 1", "2 values in scores_topk for 3"}},
		{"NaN", line(0, 11, "1,2", `,"scores_topk":[NaN,1]`), Options{}, []string{"line 1", "NaN"}},
		{"null score", line(0, 11, "1,2", `,"scores_topk":[1,null]`), Options{}, []string{"line 1", "scores_topk[1] is null"}},
		{"infinite", line(0, 11, "1,2", `,"scores_topk":[1,1e99]`), Options{}, []string{"line 1", "scores_topk"}},
		{"prompt varies", line(0, 11, "1,2", scored) + line(1, 15, "1,2", scored), Options{}, []string{"line 1", "line 2", "--prompt-len"}},
		{"prompt against flag", line(0, 11, "1,2", scored), Options{PromptLen: 9}, []string{"line 1", "10 tokens", "--prompt-len is 9"}},
		{"prompt negative", line(20, 11, "1,2", scored), Options{}, []string{"line 1", "implies a prompt of -10"}},
		{"no layer", `{"request_id":"r","step_idx":0,"seq_len_current":11,"selected_token_pos":[1]}`, rank, []string{"line 1", "layer_id is missing"}},
		{"wrong request", line(0, 11, "1,2", scored), Options{RequestID: "q"}, []string{"line 1", `"r"`, `"q"`}},
		{"not JSON", line(0, 11, "1,2", scored) + "xyz\n", Options{}, []string{"line 2", "invalid character"}},
		{"field in other case", line(0, 11, "1,2", scored+`,"Layer_ID":7`), rank, []string{"line 1", `field "Layer_ID", expected "layer_id"`}},
		{"field twice", line(0, 11, "1,2", scored+`,"scores_stats":{"x":[{"layer_id":1,"a":"\\\""}]},"other":",","layer\u005fid":7`), rank, []string{"line 1", `field "layer_id" appears twice`}},
		{"Latin-1 id", strings.Replace(line(0, 11, "1,2", scored), `"r"`, "\"\xe9\"", 1), Options{}, []string{"line 1", `\xe9`, "not UTF-8 text"}},
		{"half a surrogate pair", strings.Replace(line(0, 11, "1,2", scored), `"r"`, `"\ufffd\ud800"`, 1), Options{}, []string{"line 1", "not UTF-8 text"}},
		{"id by flag", strings.Replace(line(0, 11, "1,2", scored), `"request_id":"r",`, "", 1), Options{RequestID: "\xff"}, []string{"line 1", `"\xff"`, "UTF-8"}},
		{"pretty-printed", "{\n\"step_idx\":0,\n\"layer_id\":0}\n", Options{}, []string{"line 1", "one record per line", "jq -c ."}},
		{"cut", line(0, 11, "1,2", scored) + `{"request_id":"r","layer_id":0,"st`, Options{}, []string{"line 2", "incomplete"}},
		{"K too large", line(0, 11, "1,2", scored), Options{Meta: trace.Meta{TopK: 8}}, []string{"K = 8", "line 1"}},
		{"K beyond all contexts", line(0, 11, "1,2", scored), Options{Meta: trace.Meta{TopK: 100}}, []string{"K = 100", "2 indices of a context of 11 blocks", "line 1"}},
		{"K without ranks", line(0, 11, "1,2", ""), Options{Meta: trace.Meta{TopK: 1, Order: trace.OrderIndex}}, []string{"K = 1", "order=index"}},
		{"an id that is no text", strings.Replace(line(0, 11, "1,2", scored), `"r"`, `1.5`, 1), Options{}, []string{"line 1", "1.5 is neither a string nor an integer"}},
		{"a head for none", line(0, 11, "1,2", `,"head_id":-1`), rank, []string{"line 1", "head -1"}},
		{"two heads", line(0, 11, "1,2", `,"head":1,"head_id":2`), rank, []string{"line 1", "head 1 and head_id 2"}},
		{"negative head", line(0, 11, "1,2", `,"head":-1`), rank, []string{"line 1", "head -1"}},
		{"no windows left", line(-1, 10, "1,2", ""), Options{Windows: number(0), Meta: trace.Meta{Order: trace.OrderRank}}, []string{"--windows"}},
		{"a prompt beyond int32", line(0, 11, "1,2", ""), Options{PromptLen: 1<<32 + 10, Meta: trace.Meta{Order: trace.OrderRank}}, []string{"prompt length 4294967306", "expected 0 (not stated) to 2147483647"}},
		{"a double", line(0, 11, "1.0,2", ""), rank, []string{"line 1", "selected_token_pos: found number 1.0, expected a whole number"}},
		{"a text", strings.Replace(line(0, 11, "1", ""), `"layer_id":0`, `"layer_id":"0"`, 1), rank, []string{"line 1", "layer_id: found string, expected a whole number"}},
		{"no list", strings.Replace(line(0, 11, "1", ""), `[1]`, `7`, 1), rank, []string{"line 1", "selected_token_pos: found number, expected a list of numbers"}},
		{"no record", line(0, 11, "1", "") + "[1]\n", rank, []string{"line 2", "found array, expected an object"}},
		{"score of a text", line(0, 11, "1,2", `,"scores_topk":["a",1]`), Options{}, []string{"line 1", "scores_topk: found string, expected a number"}},
		{"blank", "{\"selected_token_pos\":[1]}\n", Options{}, []string{"line 1", "request_id"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, t.TempDir(), "src", []byte(c.text))
			words := c.words
			if strings.HasPrefix(words[0], "line") {
				words = append([]string{path + ": " + words[0]}, words[1:]...)
			}
			mustFail(t, c.options, words, path)
		})
	}
}

// Either field name identifies a head, counted from 0. No head means that the layer shares a list.
func TestJSONLHeads(t *testing.T) {
	rank := Options{Meta: trace.Meta{Order: trace.OrderRank}}
	text := line(0, 11, "5,6", `,"head_id":1`) + line(0, 11, "3,4", `,"head":0`) + strings.Replace(line(0, 11, "7,8", `,"head":null`), `"layer_id":0`, `"layer_id":1`, 1)
	_, streams := importAll(t, rank, write(t, t.TempDir(), "src", []byte(text)))
	var got []string
	for _, s := range streams {
		got = append(got, fmt.Sprint(s.Layer, s.Head, s.List(0)))
	}
	if want := fmt.Sprintf("[0 0 [3 4] 0 1 [5 6] 1 %d [7 8]]", trace.NoHead); fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// A request id may be a number of any length. Its digits are the id.
func TestJSONLNumberedRequests(t *testing.T) {
	text := line(0, 11, "5,6", "") + line(0, 11, "7,8", "") + line(0, 11, "1,2", "")
	for _, id := range []string{`9007199254740993`, `"9007199254740992"`, `-7`} { // float64 would merge the first two ids, which exceed 2^53
		text = strings.Replace(text, `"r"`, id, 1)
	}
	_, streams := importAll(t, Options{Meta: trace.Meta{Order: trace.OrderRank}}, write(t, t.TempDir(), "src", []byte(text)))
	var got []string
	for _, s := range streams {
		got = append(got, fmt.Sprint(s.Request, s.List(0)))
	}
	if want := "[-7[1 2] 9007199254740992[7 8] 9007199254740993[5 6]]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// A flag may repeat the prompt length of a source. A prompt without tokens has no prompt masses.
func TestJSONLPrompts(t *testing.T) {
	for prompt, o := range map[int32]Options{10: {PromptLen: 10}, 0: {}} {
		o.Meta.Order = trace.OrderRank
		_, streams := importAll(t, o, write(t, t.TempDir(), "src", []byte(line(0, int(prompt)+1, "0", ""))))
		if s := streams[0]; s.PromptLen != prompt || s.EmptyPromptMass || len(s.PromptMass) > 0 {
			t.Errorf("prompt %d, masses %v (empty: %v), expected %d and none", s.PromptLen, s.PromptMass, s.EmptyPromptMass, prompt)
		}
	}
}

// An import warns if a trace has no windows, or if some streams end early.
func TestResultWarns(t *testing.T) {
	second := strings.Replace(line(0, 11, "1", ""), `"layer_id":0`, `"layer_id":1`, 1)
	for text, want := range map[string][2]bool{
		line(-1, 10, "1", "") + line(0, 11, "1", ""):         {false, false},
		line(0, 11, "1", "") + second:                        {true, false},
		line(0, 11, "1", "") + line(1, 12, "1", "") + second: {true, true},
	} {
		path := write(t, t.TempDir(), "src", []byte(text))
		result, _ := importAll(t, Options{Meta: trace.Meta{Order: trace.OrderRank}}, path)
		all := strings.Join(result.Warnings, "\n")
		if cold, uneven := strings.Contains(all, "replay can only start cold"), strings.Contains(all, `request "r": its streams end at different steps`); want != [2]bool{cold, uneven} {
			t.Errorf("%s: warnings %q", text, all)
		}
		if result.BytesIn != int64(len(text)) {
			t.Errorf("%d bytes in, expected %d", result.BytesIn, len(text))
		}
	}
}

// Scores rank a list, and equal scores keep their order. A list without an order is sorted. Padding
// is removed. A stated prompt length replaces step numbers that do not follow it.
func TestJSONLNormalised(t *testing.T) {
	for _, c := range []struct {
		name, text string
		options    Options
		want       string
	}{
		{"ranked", line(0, 11, "1,2,3,-1", `,"scores_topk":[0.25,0.5,0.25,9]`), Options{}, "[2 1 3] [0.5 0.25 0.25]"},
		{"ranked beyond float32", line(0, 11, "1,2,3,4", `,"scores_topk":[1.00000001,16777216,1.00000002,16777217]`), Options{}, "[4 2 3 1] [1.6777216e+07 1.6777216e+07 1 1]"},
		{"sorted", line(0, 11, "3,-1,1", ""), Options{Meta: trace.Meta{Order: trace.OrderIndex}}, "[1 3] []"},
		{"kept", line(0, 11, "3,1", ""), Options{Meta: trace.Meta{Order: trace.OrderRank}}, "[3 1] []"},
		{"byte order mark", "\ufeff" + line(0, 11, "3,1", ""), Options{Meta: trace.Meta{Order: trace.OrderRank}}, "[3 1] []"},
		{"byte order mark, gzip", string(zipped(t, []byte("\ufeff"+line(0, 11, "3,1", "")))), Options{Meta: trace.Meta{Order: trace.OrderRank}}, "[3 1] []"},
		{"stats ignored", line(0, 11, "3,1", `,"scores_stats":{"max":1},"head":null`), Options{Meta: trace.Meta{Order: trace.OrderRank}}, "[3 1] []"},
	} {
		_, streams := importAll(t, c.options, write(t, t.TempDir(), "src", []byte(c.text)))
		if got := fmt.Sprint(streams[0].List(0), streams[0].Scores); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	text := line(5, 11, "1", "") + line(7, 12, "1", "")
	_, streams := importAll(t, Options{PromptLen: 10, Meta: trace.Meta{Order: trace.OrderRank}}, write(t, t.TempDir(), "src", []byte(text)))
	if got := fmt.Sprint(streams[0].Steps, streams[0].PromptLen); got != "[0 1] 10" {
		t.Errorf("steps and prompt %s, want [0 1] 10", got)
	}
}

// A field that no import reads is reported once, and a known field that it resembles is named.
func TestJSONLIgnoredFields(t *testing.T) {
	text := line(0, 11, "1,2", `,"scores":[2,1],"x":{"head":1}`) + line(1, 12, "1,2", `,"scores":[2,1],"y":"scores_topk"`)
	result, _ := importAll(t, Options{Meta: trace.Meta{Order: trace.OrderRank}}, write(t, t.TempDir(), "src", []byte(text)))
	all := strings.Join(result.Warnings, "\n")
	for _, want := range []string{`src: field "scores" is ignored, did you mean scores_topk?`, `src: field "x" is ignored`, `src: field "y" is ignored`} {
		if strings.Count(all, want) != 1 {
			t.Errorf("warnings lack %q:\n%s", want, all)
		}
	}
	if n := strings.Count(all, "is ignored"); n != 3 {
		t.Errorf("%d fields, expected 3:\n%s", n, all)
	}
}

// K may exceed every list if all contexts are shorter than K and lists hold all of them.
func TestShortContexts(t *testing.T) {
	o := Options{Meta: trace.Meta{Order: trace.OrderRank, TopK: 8}}
	result, _ := importAll(t, o, write(t, t.TempDir(), "src", []byte(line(0, 3, "1,2,0", ""))))
	if m := result.Meta; m.TopK != 8 {
		t.Errorf("K = %d, expected 8", m.TopK)
	}
}

// Contradicting flags and sources are errors, and so are missing flags.
func TestContradictions(t *testing.T) {
	sglang, npz := "testdata/sglang.json.gz", "testdata/niah.npz"
	flags := func(m trace.Meta) Options { return Options{Meta: m, RequestID: "niah"} }
	for _, c := range []struct {
		name    string
		options Options
		words   []string
		path    string
	}{
		{"sglang order", Options{Meta: trace.Meta{Order: trace.OrderRank}}, []string{"order index", "--order states rank"}, sglang},
		{"sglang K", Options{Meta: trace.Meta{TopK: 32}}, []string{"topk 64", "--topk states 32"}, sglang},
		{"sglang id", Options{RequestID: "x"}, []string{"response 1", `"niah-1k-excerpt"`, `"x"`}, sglang},
		{"sglang layers", Options{Layers: 6}, []string{"3 layers × index_topk 64", "6 × 32"}, sglang},
		{"sglang layers do not divide", Options{Layers: 7}, []string{"--layers 7"}, sglang},
		{"sglang both", Options{Layers: 3, IndexTopK: 65}, []string{"--layers 3", "--index-topk 65"}, sglang},
		{"sglang prompt", Options{PromptLen: 70}, []string{"72 tokens", "--prompt-len is 70"}, sglang},
		{"npz without id", Options{Meta: trace.Meta{Order: trace.OrderRank}}, []string{"--request-id"}, npz},
		{"npz without order", Options{RequestID: "niah"}, []string{"--order rank"}, npz},
		{"npz K", flags(trace.Meta{Order: trace.OrderRank, TopK: 300}), []string{"K = 300", "256"}, npz},
		{"npz K without ranks", flags(trace.Meta{Order: trace.OrderIndex, TopK: 100}), []string{"K = 100", "order=index"}, npz},
		{"too large", Options{RequestID: "niah", Memory: minMemory, Meta: trace.Meta{Order: trace.OrderRank}}, []string{"16384 bytes", "--memory"}, npz},
		{"sglang too large", Options{Memory: minMemory}, []string{"16384 bytes", "--memory"}, sglang},
	} {
		t.Run(c.name, func(t *testing.T) { mustFail(t, c.options, append(c.words, c.path), c.path) })
	}
	bad := Options{Meta: trace.Meta{Reducer: "median"}}
	mustFail(t, bad, []string{"median"}, sglang)
	mustFail(t, Options{Memory: 1}, []string{"memory"}, sglang)
}

// Files of other formats are errors.
func TestNoSource(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		content string
		words   []string
	}{
		"empty":      {"", []string{"is empty: copy"}},
		"text":       {"hello world", []string{`"hello world"`, "SGLang", "Parquet"}},
		"object":     {`{"a":1,"b":[2]}`, []string{"meta_info", "keys: a, b"}},
		"list":       {`[{"selected_token_pos":[1]}]`, []string{"one record per line", "jq"}},
		"numbers":    {`[1,2]`, []string{"JSON list"}},
		"cut object": {`{"text":"abc`, []string{"incomplete"}},
		"npy":        {"\x93NUMPY\x01\x00", []string{"numpy.savez"}},
		"zstd":       {"\x28\xb5\x2f\xfd....", []string{"zstd -d"}},
		"gzip twice": {string(zipped(t, zipped(t, []byte("x")))), []string{"gzip inside gzip"}},
		"empty gzip": {string(zipped(t, nil)), []string{"is empty"}},
		"zip":        {"PK\x05\x06..................", []string{"empty zip"}},
		"a list":     {`{"meta_info":{"id":"a","indexer_topk":[1]}}`, []string{"response 1", "indexer_topk: found [1]", "expected a text of base64"}},
		"pickle":     {"\x80\x05\x95", []string{"a Python pickle", "to_parquet"}},
		"our names":  {`{"request_id": "r", "step": 0, "topk_indices": [1]}`, []string{"JSON with columns of a trace", "to_parquet"}},
		"UTF-16":     {"\xff\xfe{\x00", []string{"UTF-16", "iconv"}},
		"no topk":    {`{"meta_info":{"id":"a","prompt_tokens":1}}`, []string{"response 1", "--enable-return-indexer-topk"}},
		"no base64":  {`{"meta_info":{"id":"a","indexer_topk":"%%%"}}`, []string{"base64"}},
		"blank":      {"\n\n \n", []string{"expected SGLang"}},
	} {
		path := write(t, dir, strings.ReplaceAll(name, " ", "_"), []byte(c.content))
		mustFail(t, Options{}, append(c.words, path), path)
	}
	mustFail(t, Options{}, []string{"is a folder"}, dir)
	mustFail(t, Options{}, []string{"no such file"}, filepath.Join(dir, "missing"))
	secret := write(t, dir, "secret", []byte("x"))
	fatal.If(t, os.Chmod(secret, 0))
	if os.Geteuid() != 0 { // root can read any file
		mustFail(t, Options{}, []string{"permission denied"}, secret)
	}
}

// SGLang responses may be one value, a list, nested lists, or several values in a row.
func TestSGLangNesting(t *testing.T) {
	one := string(unzip(t, read(t, "testdata/sglang.json.gz")))
	two := strings.Replace(one, "niah-1k-excerpt", "other", 1)
	want := ""
	for _, text := range []string{"[" + one + "," + two + "]", "[[" + one + "],[[" + two + "]]]", one + "\n" + two} {
		result, _ := importAll(t, Options{}, write(t, t.TempDir(), "src", []byte(text)))
		if want == "" {
			want = result.Digest
		}
		if result.Requests != 2 || result.Streams != 6 || result.Digest != want {
			t.Errorf("%d requests, %d streams, %s", result.Requests, result.Streams, result.Digest)
		}
	}
	path := write(t, t.TempDir(), "src", []byte(one+one))
	mustFail(t, Options{}, []string{path + ": response 2", "is also at", "response 1"}, path)
}

// A list of responses is read one by one, so only a single response has to fit into the budget. A
// list without its closing bracket is an error, even if its responses are complete.
func TestSGLangLongList(t *testing.T) {
	one := strings.TrimSpace(string(unzip(t, read(t, "testdata/sglang.json.gz"))))
	var all []string
	for i := range 12 {
		all = append(all, strings.Replace(one, "niah-1k-excerpt", fmt.Sprint("r", i), 1))
	}
	o := Options{Memory: int64(4 * (len(one) + 1024))}
	result, _ := importAll(t, o, write(t, t.TempDir(), "src", []byte("[\n"+strings.Join(all, " ,\n")+"\n]\n")))
	if result.Requests != len(all) {
		t.Errorf("%d requests, expected %d", result.Requests, len(all))
	}
	for text, want := range map[string]string{
		"[" + all[0] + "," + all[1]:             "incomplete",
		"[" + all[0] + "," + all[1] + ",":       "incomplete",
		"[" + all[0] + " " + all[1] + "]":       "expected comma after array element",
		"[" + all[0] + "," + all[1] + "]]":      "invalid character ']'",
		"[" + all[0] + "," + all[1] + ",]":      "invalid character ']'",
		"[" + all[0] + "," + all[1] + "}":       "invalid character '}'",
		"[" + all[0] + "," + all[1] + "]" + "[": "incomplete",
	} {
		mustFail(t, o, []string{"response ", want}, write(t, t.TempDir(), "src", []byte(text)))
	}
}

// The trace has the requested number of windows.
func TestWindows(t *testing.T) {
	for _, want := range []int{0, 1, 5, 32, 72} {
		result, _ := importAll(t, Options{Windows: number(want)}, "testdata/sglang.json.gz")
		if result.Windows != want {
			t.Errorf("%d windows, want %d", result.Windows, want)
		}
	}
	result, _ := importAll(t, Options{Windows: number(2)}, "testdata/news.jsonl.gz")
	if result.Windows != 2 || result.First != -2 {
		t.Errorf("%d windows from %d, want 2 from -2", result.Windows, result.First)
	}
}

// The output must not be a source or a folder.
func TestOutput(t *testing.T) {
	path := write(t, t.TempDir(), "src", bytes.Repeat([]byte(line(0, 11, "1", "")), 1))
	for out, word := range map[string]string{path: "also an input", filepath.Dir(path): "is a folder", filepath.Join(path, "x"): "cannot write"} {
		if err := checkOutput(out, []string{path}); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v, expected %q", out, err, word)
		}
	}
}
