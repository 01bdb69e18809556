package result_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// Every field has its line in the tables, in the order of the fields.
func TestRowFieldsAreDocumented(t *testing.T) {
	var names []string
	for _, first := range tableLine.FindAllStringSubmatch(rowstest.Document(t, "ROWS.md"), -1) {
		for _, name := range fieldName.FindAllStringSubmatch(first[1], -1) {
			names = append(names, name[1])
		}
	}
	if want := result.FieldNames(); !slices.Equal(names, want) {
		t.Errorf("ROWS.md documents\n%v\nrows have\n%v", names, want)
	}
}

var (
	tableLine = regexp.MustCompile("(?m)^\\| (`[^|]*) \\|")
	fieldName = regexp.MustCompile("`(\\w+)`")
)
