package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

func TestWritersRefuseUntrueRows(t *testing.T) {
	bad := rowstest.Row("a", "lru", "1x", 40)
	bad.Hits = 0
	var b bytes.Buffer
	for name, err := range map[string]error{"JSONL": result.WriteJSONL(&b, []result.Row{bad}), "CSV": result.WriteCSV(&b, []result.Row{bad}), "table": Rows(&b, []result.Row{bad})} {
		if err == nil || !strings.Contains(err.Error(), "row 1: hits 0 + misses 40") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
