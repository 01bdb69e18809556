package names

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

func TestFind(t *testing.T) {
	known := []Name{{"lru", nil}, {"s3-fifo", []string{"s3"}}, {"rtx4090", []string{"4090"}}, {"da", []string{"ess"}}, {"dba", []string{"ess", "both"}},
		{"llama-3.1-8b", nil}, {"llama-31-8b", nil}, {"h100", []string{"lru"}}}
	for text, want := range map[string]string{
		"lru": "lru", "LRU": "lru", "s3fifo": "s3-fifo", "S3_FIFO": "s3-fifo", "S3": "s3-fifo", "RTX 4090": "rtx4090", "4090": "rtx4090",
		"dba": "dba", "Both": "dba", "llama-3.1-8b": "llama-3.1-8b", "llama-31-8b": "llama-31-8b",
	} {
		if got, err := Find("thing", text, known); got != want || err != nil {
			t.Errorf("%s: %q, %v; expected %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":            `unknown thing ""; known: lru, s3-fifo,`,
		"--":          `unknown thing "--"; known:`,
		"lruu":        `unknown thing "lruu", did you mean lru or h100?; known: lru,`,
		"409":         `unknown thing "409", did you mean rtx4090?; known:`,
		"ESS":         `thing "ESS" is ambiguous, did you mean da or dba?`,
		"Llama-318-b": `thing "Llama-318-b" is ambiguous, did you mean llama-3.1-8b or llama-31-8b?`,
	} {
		_, err := Find("thing", text, known)
		if e := new(Error); !errors.As(err, &e) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, expected %s", text, err, want)
		}
	}
}

// A message lists some of many names, and the command that lists all if there is one.
func TestManyNames(t *testing.T) {
	many := Of("a1", "b2", "c3", "d4", "e5", "f6", "g7", "h8")
	for kind, want := range map[string]string{
		"policy": `unknown policy "zzz"; known: a1, b2, c3, d4, e5, f6 and 2 more (` + "`kvreplay policies`)",
		"thing":  `unknown thing "zzz"; known: a1, b2, c3, d4, e5, f6 and 2 more`,
	} {
		if _, err := Find(kind, "zzz", many); err == nil || err.Error() != want {
			t.Errorf("%s: %v, expected %s", kind, err, want)
		}
	}
	if _, err := Find("policy", "zzz", many[:6]); err == nil || err.Error() != `unknown policy "zzz"; known: a1, b2, c3, d4, e5, f6` {
		t.Error(err)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"lfu", "lru", "lrfu", "sieve", "window", "wind", "sieve"}
	for name, want := range map[string]string{
		"LRU": ", did you mean lru?", "lur": "", "lrf": ", did you mean lru or lrfu?", "seive": "", "siev2": ", did you mean sieve?", "wi": ", did you mean wind or window?", "siev": ", did you mean sieve?",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%s: %q, expected %q", name, got, want)
		}
	}
}

// An error of a YAML file states the line, the key and the expected kind of value, and no type of Go.
func TestOfYAML(t *testing.T) {
	type name string
	type inner struct {
		Rows *int   `yaml:"rows"`
		Wide *bool  `yaml:"wide"`
		At   [2]int `yaml:"at"`
	}
	type outer struct {
		Method  name             `yaml:"method"`
		Share   float64          `yaml:"share"`
		Streams []inner          `yaml:"streams"`
		By      map[string]inner `yaml:"by"`
	}
	for text, want := range map[string]string{
		"method: [a]":                   "line 1: method is a list, expected text",
		"share: 0.5\nmethod:\n  - a\n":  "line 3: method is a list, expected text",
		"share: half":                   "line 1: share is half, expected a number",
		"streams: 3":                    "line 1: streams is 3, expected a list",
		"streams:\n  - rows: x\n":       "line 2: rows is x, expected a whole number",
		"streams: [{rows: 1, wide: 7}]": "line 1: wide is 7, expected true or false",
		"by: {a: {rows: 1}, b: [1]}":    "line 1: b is a list, expected keys with values",
		"streams: [{at: {x: 1}}]":       "line 1: at is a mapping, expected a list",
		"only text":                     "line 1: the file is only text, expected keys with values",
		"share: x\nstreams: 1\n":        "line 1: share is x, expected a number; line 2: streams is 1, expected a list",
		"methud: a":                     `line 1: unknown field "methud", did you mean method?`,
		"method: a\nmethod: b":          `line 2: mapping key "method" already defined at line 1`,
		"share: 1\n\tmethod: a":         "line 2: found a tab character that violates indentation",
	} {
		var o outer
		err := yaml.Load([]byte(text), &o, yaml.WithKnownFields(), yaml.WithUniqueKeys())
		if err = OfYAML(err, []byte(text), o); err == nil || err.Error() != want {
			t.Errorf("%q: %v, expected %s", text, err, want)
		}
	}
	if other := errors.New("other"); OfYAML(other, nil, outer{}) != other || OfYAML(nil, nil, outer{}) != nil {
		t.Error("other errors are changed")
	}
}

// The error for an unknown field offers the fields of the type and of nested types.
func TestOfFields(t *testing.T) {
	type inner struct {
		Capacity *int `json:"capacity_entries" yaml:"capacity_entries"`
	}
	type outer struct {
		Method  string  `json:"method" yaml:"method"`
		Streams []inner `json:"streams,omitempty" yaml:"streams,omitempty"`
		Self    *outer  `json:"-" yaml:"-"`
	}
	var o outer
	for text, want := range map[string]string{
		`{"methud": ""}`:                        `unknown field "methud", did you mean method?`,
		`{"streams": [{"capacity_entry": 1}]}`:  `unknown field "capacity_entry", did you mean capacity_entries?`,
		`{"streams": [{"nothing_like_it": 1}]}`: `unknown field "nothing_like_it"`,
		`{"methud": "", "stream": []}`:          `unknown field "methud", did you mean method?`, // YAML names both
	} {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		for _, err := range []error{decoder.Decode(&o), yaml.Load([]byte(text), &o, yaml.WithKnownFields())} {
			if err = OfFields(err, o); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "in type") {
				t.Errorf("%s: %v, expected %s", text, err, want)
			}
		}
	}
	if other := errors.New("other"); OfFields(other, o) != other || OfFields(nil, o) != nil {
		t.Error("other errors are changed")
	}
}
