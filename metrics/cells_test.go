package metrics

import (
	"strings"
	"testing"
)

// part makes a row a part of its cell with other counts.
func partRow(r Row, request string, layer, head int32, streams, misses int64) Row {
	if request != "" {
		r.RequestID = &request
	}
	if layer >= 0 {
		r.LayerID = &layer
	}
	if head >= 0 {
		r.Head = &head
	}
	r.Streams, r.Steps, r.Demand = streams, 10*streams, 100*streams
	r.Misses, r.Hits = misses, r.Demand-misses
	return r
}

// detailed is one cell, 8 streams and 80 misses, at every level of detail that there
// is: pooled, by layer, by request, by request and layer, by stream.
func detailed() []Row {
	base := row("a", "p", "1x", 0)
	rows := []Row{
		partRow(base, "", -1, -1, 8, 80),
		partRow(base, "", 0, -1, 4, 30), partRow(base, "", 1, -1, 4, 50),
		partRow(base, "x", -1, -1, 4, 20), partRow(base, "y", -1, -1, 4, 60),
	}
	// Layer 0 has heads 0 and 1 in x; elsewhere two streams are pooled in a layer's row.
	return append(rows,
		partRow(base, "x", 0, -1, 2, 8), partRow(base, "x", 1, -1, 2, 12),
		partRow(base, "y", 0, -1, 2, 22), partRow(base, "y", 1, -1, 2, 38),
		partRow(base, "x", 0, 0, 1, 3), partRow(base, "x", 0, 1, 1, 5))
}

func oneCell(t *testing.T, rows []Row) *cell {
	t.Helper()
	cells, err := newCells(pointers(rows))
	if err != nil {
		t.Fatal(err)
	}
	if len(cells) != 1 {
		t.Fatalf("%d cells", len(cells))
	}
	return cells[0]
}

// TestDetailIsCountedOnce: any level alone, and all of them together, are one cell.
func TestDetailIsCountedOnce(t *testing.T) {
	all := detailed()
	for name, rows := range map[string][]Row{
		"pooled": all[:1], "by layer": all[1:3], "by request": all[3:5], "by request and layer": all[5:9],
		"heads where there are": append(append([]Row(nil), all[6:9]...), all[9:]...), "all": all,
		"twice": append(append([]Row(nil), all...), all...),
	} {
		c := oneCell(t, rows)
		if c.total.misses != 80 || c.total.streams != 8 || c.total.demand != 800 {
			t.Errorf("%s: %+v", name, c.total)
		}
		if c.requests != nil && (len(c.requests) != 2 || c.requests[0].misses != 20 || c.ids[1] != "y") {
			t.Errorf("%s: requests %v %+v", name, c.ids, c.requests)
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
	without := func(i int) []Row { return append(detailed()[:i], detailed()[i+1:]...) }
	for _, c := range []struct {
		rows []Row
		want string
	}{
		{without(1), "trace a, p at 1x: pooled row and rows by layer disagree: streams 8 and 4"},
		{detailed()[:4], "trace a, p at 1x: pooled row and rows by request disagree: streams 8 and 4"},
		{without(8), "trace a, p at 1x, request y: pooled row and rows by layer disagree: streams 4 and 2"},
		{without(10), "layer 0: row of the layer and rows by head disagree: streams 2 and 1"},
	} {
		if _, err := newCells(pointers(c.rows)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v; want %q", err, c.want)
		}
	}
}

func TestRepeatedRows(t *testing.T) {
	again := row("a", "p", "1x", 50)
	again.Warnings = []string{"seen twice"}
	c := oneCell(t, []Row{row("a", "p", "1x", 50), again, row("a", "p", "1x", 50)})
	if c.total.misses != 50 || len(c.warnings) != 1 {
		t.Errorf("%+v", c)
	}
	_, err := newCells(pointers([]Row{row("a", "p", "1x", 50), row("a", "p", "1x", 51)}))
	if err == nil || !strings.Contains(err.Error(), "two rows of trace a, p at 1x (all) with different counts: hits 50 and 49") {
		t.Errorf("error %v", err)
	}
}

func TestCellsMustBeOfTheSameWork(t *testing.T) {
	rows := append(handRows(), forRequest(partRow(row("a", "q", "1x", 0), "", -1, -1, 2, 9), "r"))
	_, err := NewBoard(rows, Options{})
	if err == nil || !strings.Contains(err.Error(), "are not of the same work: streams 2 and 1") {
		t.Errorf("error %v", err)
	}
}
