package result_test

import (
	"bytes"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// TestSyntheticRows compares testdata/rows.jsonl, which the documents show, with its generator's
// output.
func TestSyntheticRows(t *testing.T) {
	var out bytes.Buffer
	fatal.If(t, result.WriteJSONL(&out, rowstest.Synthetic()))
	rowstest.Golden(t, "rows.jsonl", out.Bytes())
}
