package trace_test

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// Canonical text is sorted, compact, without HTML escapes, and parses back.
func TestCanonical(t *testing.T) {
	m := trace.Meta{Version: 1, Order: trace.OrderRank, TopK: 2, Candidates: 3, BlockTokens: 1, Sink: intPtr(0),
		Notes: map[string]string{"b": "<&>", "a": "ü \u2028\u2029 \\u2028 \"x\"\n"}, Model: "m"}
	got, err := m.Canonical()
	fatal.If(t, err)
	want := `{"block_tokens":1,"candidates":3,"model":"m","notes":{"a":"ü ` + "\u2028\u2029" + ` \\u2028 \"x\"\n","b":"<&>"},"order":"rank","sink":0,"topk":2,"version":1}`
	if string(got) != want {
		t.Errorf("canonical text\n%s, expected\n%s", got, want)
	}
	back, err := trace.ParseMeta(got)
	fatal.If(t, err)
	if again, _ := back.Canonical(); string(again) != want {
		t.Errorf("after parsing: %s", again)
	}
}

// Fields out of range cause errors that name the field.
func TestMetaFields(t *testing.T) {
	for old, c := range map[string]struct{ new, text string }{
		`"block_tokens":1`:             {`"block_tokens":0`, "block_tokens 0, expected at least 1"},
		`"topk":2`:                     {`"topk":0`, "topk 0, expected at least 1"},
		`"candidates":3`:               {`"candidates":4611686018427387904`, "at most 2³⁰"},
		`"order":"rank"`:               {`"order":"score"`, `order "score"`},
		`"version":1`:                  {`"sink":-1,"version":1`, "sink -1 is negative"},
		`{"block_tokens"`:              {`{"local":0,"block_tokens"`, "local 0, expected at least 1"},
		`,"version":1`:                 {`,"version":1,"entry_bytes":-2`, "entry_bytes -2 is negative"},
		`"candidates":3,`:              {`"candidates":3,"entry_bytes":1073741825,`, "entry_bytes 1073741825, expected at most 2³⁰"},
		`,"topk":2`:                    {`,"topk":2,"reducer":"min"`, `reducer "min"`},
		`,"order"`:                     {`,"score_mantissa_bits":24,"order"`, "score_mantissa_bits 24"},
		`1}`:                           {`1} {}`, "text behind the JSON object"},
		`"version":1}`:                 {`"version":1}}`, "text behind the JSON object"},
		`:1}`:                          {`:1} garbage`, "text behind the JSON object"},
		`{`:                            {`{"TOPK":1,`, `unknown field "TOPK"`},
		`"order"`:                      {`"topk":1,"order"`, `field "topk" appears twice`},
		`"version"`:                    {`"notes":{"a":"x","a":"y"},"version"`, `field "a" appears twice`},
		`rank`:                         {``, `order ""`},
		`"rank","topk":2,"version":1}`: {`"rank"`, "unexpected EOF"},
		`,"order":`:                    {`,"notes":` + strings.Repeat("[", 20_000_000), "exceeded max depth"},
	} {
		text := strings.Replace(rawMeta, old, c.new, 1)
		if _, err := trace.ParseMeta([]byte(text)); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%.300s: error %v, expected %q", text, err, c.text)
		}
	}
}
