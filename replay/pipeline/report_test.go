package pipeline

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// A table names its results, and each note names the results that it is about.
func TestTableSaysWhatWasRun(t *testing.T) {
	result := func(machine, schedule string, notes ...string) *Result {
		return &Result{Machine: machine, Model: "m", Schedule: schedule, Cell: Cell{"lru", "2x"}, Batch: 8, Steps: 3, Notes: notes}
	}
	results := []*Result{
		result("a", "da", "of all", "of a", "of da", "of a da", "of a da and b"),
		result("a", "kvpr:order=row", "of all", "of a", "of kvpr"),
		result("b", "da", "of all", "of da", "of a da and b"),
		result("b", "kvpr:order=row", "of all", "of kvpr", "of a da and b"),
	}
	var text strings.Builder
	fatal.If(t, WriteTable(&text, results))
	for _, want := range []string{"m, batch 8, lru @ 2x, 3 steps\n", "note: of all\n", "note: a: of a\n", "note: da: of da\n", "note: a da: of a da\n",
		"note: a da, b da, b kvpr: of a da and b\n", "note: kvpr: of kvpr\n"} {
		if strings.Count(text.String(), want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, &text)
		}
	}
	half := 0.5
	text.Reset()
	plan := Planned{Machine: "a", Model: "m", Steps: 3, Candidates: []Candidate{{Result: results[0], Ratio: &half, Serves: schedule.SparseTopK}, {Result: results[1], Serves: schedule.SparseTopK}}}
	fatal.If(t, plan.WriteTable(&text))
	table, notes, _ := strings.Cut(text.String(), "note: ")
	if !strings.HasPrefix(table, "m on a, 3 steps: sparse Top-K attention\n") || !strings.Contains(table, "  0.500        -  ") || !strings.Contains(table, "  -            -  ") {
		t.Errorf("the plan's table lacks model, machine, steps or a ratio:\n%s", table)
	}
	if want := "of all\nnote: of a\nnote: da: of da\nnote: da: of a da\nnote: da: of a da and b\nnote: kvpr: of kvpr\n"; notes != want {
		t.Errorf("notes %q, expected %q", notes, want)
	}
}

// TestCSVNames checks that columns have the names of JSON's fields.
func TestCSVNames(t *testing.T) {
	var out strings.Builder
	fatal.If(t, WriteCSV(&out, nil))
	for _, name := range strings.Split(strings.TrimSpace(out.String()), ",") {
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			t.Errorf("column %q, expected lower case with underscores", name)
		}
	}
	causes := reflect.TypeFor[Causing]()
	for i := range causes.NumField() {
		if name := "exposed_" + causes.Field(i).Tag.Get("json") + "_s"; !strings.Contains(out.String(), ","+name+",") {
			t.Errorf("no column %q in %s", name, out.String())
		}
	}
}
