package board

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

func oneCell(t *testing.T, rows []result.Row) *cell {
	t.Helper()
	cells, err := newCells(result.Pointers(rows))
	fatal.If(t, err)
	if len(cells) != 1 {
		t.Fatalf("%d cells", len(cells))
	}
	return cells[0]
}

// TestDetailIsCountedOnce: any level alone, and all of them together, make the same cell.
func TestDetailIsCountedOnce(t *testing.T) {
	all := rowstest.Detailed()
	for name, rows := range map[string][]result.Row{
		"pooled": all[:1], "by layer": all[1:3], "by request": all[3:5], "by request and layer": all[5:9],
		"heads where there are": append(append([]result.Row(nil), all[6:9]...), all[9:]...), "all": all,
		"twice": append(append([]result.Row(nil), all...), all...),
	} {
		c := oneCell(t, rows)
		if c.total.misses != 80 || c.total.streams != 8 || c.total.demand != 800 {
			t.Errorf("%s: %+v", name, c.total)
		}
		if c.requests != nil && (len(c.requests) != 2 || c.requests[0].misses != 20 || c.work.ids[1] != "y") {
			t.Errorf("%s: requests %v %+v", name, c.work.ids, c.requests)
		}
	}
	if c := oneCell(t, all[:3]); c.requests != nil {
		t.Error("requests out of rows pooled over them")
	}
	if c := oneCell(t, all); c.requests == nil {
		t.Error("no requests, though there are rows by request")
	}
}

func TestLevelsMustAgree(t *testing.T) {
	without := func(i int) []result.Row { return append(rowstest.Detailed()[:i], rowstest.Detailed()[i+1:]...) }
	for _, c := range []struct {
		rows []result.Row
		want string
	}{
		{without(1), "trace a, p at 1x: pooled row and rows by layer disagree: streams 8 and 4"},
		{rowstest.Detailed()[:4], "trace a, p at 1x: pooled row and rows by request disagree: streams 8 and 4"},
		{without(8), "trace a, p at 1x, request y: pooled row and rows by layer disagree: streams 4 and 2"},
		{without(10), "layer 0: row of the layer and rows by head disagree: streams 2 and 1"},
	} {
		if _, err := newCells(result.Pointers(c.rows)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v; want %q", err, c.want)
		}
	}
}

func TestRepeatedRows(t *testing.T) {
	again := rowstest.Row("a", "p", "1x", 50)
	again.Warnings = []string{"seen twice"}
	c := oneCell(t, []result.Row{rowstest.Row("a", "p", "1x", 50), again, rowstest.Row("a", "p", "1x", 50)})
	if c.total.misses != 50 || len(c.warnings) != 1 {
		t.Errorf("%+v", c)
	}
	_, err := newCells(result.Pointers([]result.Row{rowstest.Row("a", "p", "1x", 50), rowstest.Row("a", "p", "1x", 51)}))
	if err == nil || !strings.Contains(err.Error(), "two rows of trace a, p at 1x (all) with different counts: hits 50 and 49") {
		t.Errorf("error %v", err)
	}
}

func TestCellsMustBeOfTheSameWork(t *testing.T) {
	rows := append(rowstest.HandRows(), rowstest.ForRequest(rowstest.PartRow(rowstest.Row("a", "q", "1x", 0), "", -1, -1, 2, 9), "r"))
	_, err := NewBoard(rows, Options{})
	if err == nil || !strings.Contains(err.Error(), "replayed different work: streams 2 and 1") {
		t.Errorf("error %v", err)
	}
}
