package bom

import "testing"

func TestBytes(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"plain \xff bytes":         "plain \xff bytes",
		"\ufeff{\"a\": \"é\"}":     "{\"a\": \"é\"}",
		"\xff\xfe{\x00}\x00":       "{}",
		"\xfe\xff\x00{\x00}":       "{}",
		"not at first: \ufeffthis": "not at first: \ufeffthis",
	} {
		if got, err := Bytes([]byte(text)); err != nil || string(got) != want {
			t.Errorf("%q is read as %q, %v, expected %q", text, got, err, want)
		}
	}
}
