package result_test

import (
	"bytes"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// TestSyntheticRows keeps testdata/rows.jsonl, which the documents show, equal to what
// makes it.
func TestSyntheticRows(t *testing.T) {
	var out bytes.Buffer
	if err := result.WriteJSONL(&out, rowstest.Synthetic()); err != nil {
		t.Fatal(err)
	}
	rowstest.Golden(t, "rows.jsonl", out.Bytes())
}
