package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

const requestsData = "../../datasets/requests/testdata/"

// Traces of requests are recognised by content and printed in both formats.
func TestInspectRequests(t *testing.T) {
	disguised := filepath.Join(t.TempDir(), "t.parquet")
	text, err := os.ReadFile(requestsData + "mooncake_conversation_300.jsonl.gz")
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(disguised, text, 0o644))
	out, _ := kvreplay(t, 0, "inspect", disguised, requestsData+"azure_code_300.csv")
	for _, want := range []string{"mooncake-jsonl", "azure-csv", "arrivals per second", "1.379", "345,966", "8.1 %"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, _ = kvreplay(t, 0, "inspect", "--format", "json", disguised, newsTrace, requestsData+"azure_conv_300.csv.gz")
	var kinds []string
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var r struct{ Kind, Format string }
		var raw json.RawMessage
		fatal.If(t, d.Decode(&raw))
		json.Unmarshal(raw, &r) // in a trace, "requests" is a list
		kinds = append(kinds, r.Kind+r.Format)
	}
	if want := "requestsmooncake-jsonl  requestsazure-csv"; strings.Join(kinds, " ") != want {
		t.Errorf("kinds %q, want %q", kinds, want)
	}
}

// A useless option is an error of the command line. The error for a file that is not a trace of
// either kind states the expected content.
func TestInspectRequestsErrors(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.csv")
	fatal.If(t, os.WriteFile(bad, []byte("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,5,-3\n"), 0o644))
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{2, []string{"--topk", "3", requestsData + "azure_code_300.csv"}, "--topk needs a trace of selections"},
		{2, []string{"--layers", requestsData + "azure_code_300.csv"}, "--layers needs a trace of selections"},
		{2, []string{"--layers", newsTrace, requestsData + "azure_code_300.csv"}, "azure_code_300.csv"},
		{1, []string{bad}, `bad.csv:2: GeneratedTokens "-3"`},
		{1, []string{"inspect_test.go"}, "kvreplay import"},
		{1, []string{"nowhere.csv"}, "no such file"},
		{1, []string{t.TempDir()}, "is a folder"},
	} {
		_, stderr := kvreplay(t, c.code, append([]string{"inspect"}, c.args...)...)
		if !strings.Contains(stderr, c.want) {
			t.Errorf("%v: %s, expected %q", c.args, stderr, c.want)
		}
	}
}

// --layers of inspect is a flag without a value, unlike that of other commands. A list of layers
// after it is neither a file nor a boolean.
func TestInspectLayersTakesNone(t *testing.T) {
	path := smallTrace(t, small)
	for want, args := range map[string][]string{
		`no value here, and "0,5" is no file`:        {path, "--layers", "0,5"},
		`no value here, and "1" is no file`:          {"--layers", "1", path},
		`--layers "1": expected true or false`:       {path, "--layers=1"},
		`--layers "0": expected true or false`:       {path, "--layers=0"},
		`--layers "0,1-3": expected true or false; `: {path, "--layers=0,1-3"},
	} {
		if stdout, stderr := kvreplay(t, 2, append([]string{"inspect"}, args...)...); stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v: %q, expected %q", args, stderr, want)
		}
	}
	each, _ := kvreplay(t, 0, "inspect", path, "--layers")
	none, _ := kvreplay(t, 0, "inspect", path, "--layers=false")
	if plain, _ := kvreplay(t, 0, "inspect", path); none != plain || len(each) <= len(plain) {
		t.Error("--layers does not add the layers, or --layers=false does")
	}
	file := filepath.Join(t.TempDir(), "5")
	fatal.If(t, os.Link(path, file))
	t.Chdir(filepath.Dir(file))
	kvreplay(t, 0, "inspect", "5", "--layers")
}

// Commands with a number of layers, and those with a list of layers, state the existing layers.
func TestLayersOfSummaries(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.parquet")
	if _, stderr := kvreplay(t, 0, "derive", smallTrace(t, small), "--layers", "1", "-o", out); !strings.Contains(stderr, " indices; layers 1\n") {
		t.Error(stderr)
	}
	if _, stderr := kvreplay(t, 0, "datasets", "make", "synthetic", "--layers", "2", "--heads", "0", "--steps", "4", "--requests", "1", "-o", out); !strings.Contains(stderr, " indices; layers 0 to 1\n") {
		t.Error(stderr)
	}
}
