package jsonobject_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/jsonobject"
)

// Members have the names and values of the text, in its order.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                  "",
		" {\n} ":                              "",
		`{"a":1}`:                             "a=1",
		` { "a" : 1 , "b" : null } `:          "a=1 b=null",
		`{"b":[1,{"c":"}],{"}],"a":{"b":{}}}`: `b=[1,{"c":"}],{"}] a={"b":{}}`,
		`{"\u0061\"b":"\\","":""}`:            `a"b="\\" =""`,
	} {
		members, err := jsonobject.Parse([]byte(text))
		fatal.If(t, err)
		var got []string
		for _, m := range members {
			got = append(got, m.Name+"="+string(m.Value))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, expected %s", text, got, want)
		}
	}
}

// Text that encoding/json accepts, and text that is no object, is refused with its place or remedy.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "not a JSON object",
		" ":                  "not a JSON object",
		"null":               "not a JSON object",
		"[{}]":               "not a JSON object",
		`{"a":1,"\u0061":2}`: `field "a" appears twice`,
		`{"a":1}{"b":2}`:     "text behind the JSON object",
		`{"a":1} x`:          "text behind the JSON object",
		`{"a":[1,2`:          "the file is incomplete",
		`{"a":NaN}`:          "at byte 6: NaN and Infinity are not JSON numbers",
		`{"a":x}`:            "invalid character 'x' looking for beginning of value at byte 6",
		`{"a":` + strings.Repeat("[", 20_000_000): "exceeded max depth",
	} {
		if _, err := jsonobject.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: error %v, expected %q", text, err, want)
		}
	}
	if _, err := jsonobject.Members([]byte("null")); !errors.Is(err, jsonobject.ErrNoObject) {
		t.Errorf("members of null: error %v", err)
	}
	if _, err := jsonobject.Parse([]byte(`{"a"`)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("an incomplete object: error %v", err)
	}
}

// FuzzParse compares with encoding/json: the same texts are objects, with the same values.
func FuzzParse(f *testing.F) {
	for _, text := range []string{`{"a":[1,"}"],"b":{"c":2}}`, ` { "a" : "\\" , "b":-1.5e3 } `, `{}`, `{"a":1,"a":2}`, `{"a"`, `{"\ud800":1}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		members, err := jsonobject.Parse(text)
		var want map[string]json.RawMessage
		failed := json.Unmarshal(text, &want)
		if err != nil {
			if failed == nil && want != nil && !strings.Contains(err.Error(), "appears twice") {
				t.Fatalf("%q: %v, but encoding/json reads it", text, err)
			}
			return
		}
		if failed != nil || len(members) != len(want) {
			t.Fatalf("%q: %d members, encoding/json has %d (%v)", text, len(members), len(want), failed)
		}
		for _, m := range members {
			if !bytes.Equal(m.Value, want[m.Name]) {
				t.Errorf("%q: %s is %s, expected %s", text, m.Name, m.Value, want[m.Name])
			}
		}
	})
}

// Lines may exceed the buffer of the reader, but not the limit.
func TestReadLine(t *testing.T) {
	long := strings.Repeat("x", 40)
	r := bufio.NewReaderSize(strings.NewReader("a\r\n\n"+long+"\nb"), 16)
	var got []string
	for {
		line, err := jsonobject.ReadLine(r, nil, 41)
		if err == io.EOF {
			break
		}
		fatal.If(t, err)
		got = append(got, string(line))
	}
	if want := fmt.Sprintf("%q", []string{"a", "", long, "b"}); fmt.Sprintf("%q", got) != want {
		t.Errorf("lines %q, expected %s", got, want)
	}
	if _, err := jsonobject.ReadLine(bufio.NewReaderSize(strings.NewReader(long+"\n"), 16), nil, 40); err == nil || !strings.Contains(err.Error(), "longer than 40 bytes") {
		t.Errorf("a long line: error %v", err)
	}
}
