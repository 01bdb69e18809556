package rowstest

import (
	"bytes"
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

var update = flag.Bool("update", false, "rewrite testdata")

// Golden compares with a file of metrics/testdata. -update rewrites it.
func Golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "../testdata/" + name
	if *update {
		fatal.If(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	fatal.If(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got:\n%s", path, got)
	}
}

// WantNote fails a test whose notes lack a text.
func WantNote(t *testing.T, notes []string, want string) {
	t.Helper()
	if !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, want) }) {
		t.Errorf("no note %q in %q", want, notes)
	}
}

// LineOf returns the words of the line of a text that has a policy's name.
func LineOf(t *testing.T, text, policy string) []string {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if words := strings.Fields(line); slices.Contains(words, policy) {
			return words
		}
	}
	t.Fatalf("no line of %s in\n%s", policy, text)
	return nil
}

// Document reads a document of the folder metrics.
func Document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../" + name)
	fatal.If(t, err)
	return string(text)
}

// JSONNames lists the JSON names of a type's fields, in depth.
func JSONNames(t reflect.Type) []string {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return JSONNames(t.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	var names []string
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() {
			if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" && tag != "-" {
				names = append(names, tag)
			}
			for _, name := range JSONNames(f.Type) {
				if !slices.Contains(strings.Fields(f.Tag.Get("moves")), name+"<") { // left out
					names = append(names, name)
				}
			}
		}
	}
	return names
}
