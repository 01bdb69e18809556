package run

import "testing"

// The digest depends on every figure of a row, on the order of rows, and on the metadata.
func TestProfileSumCoversRows(t *testing.T) {
	digest := func(meta string, rows ...ProfileRow) string {
		s := NewProfileSum()
		for i := range rows {
			s.Add(&rows[i])
		}
		return s.Digest(meta)
	}
	head, capacity := int32(0), "2x"
	seen := map[string]string{digest("m"): "no row", digest("n"): "other metadata", digest("m", ProfileRow{}): "a row", digest("m", ProfileRow{}, ProfileRow{}): "two rows"}
	if len(seen) != 4 {
		t.Fatalf("of four profiles some have one digest: %v", seen)
	}
	for name, row := range map[string]ProfileRow{
		"request": {RequestID: "r"}, "layer": {LayerID: 1}, "head": {Head: &head}, "policy": {Policy: "r"}, "capacity": {Capacity: &capacity}, "tier": {Tier: 1}, "above": {Above: "r"},
		"step": {Step: 1}, "context": {SeqLen: 1}, "demand": {Demand: 1}, "misses": {Misses: 1}, "runs": {MissRuns: 1}, "births": {Births: 1}, "residents": {Resident: 1},
		"moved": {Moved: 1}, "positions": {Positions: 1}, "an index": {MissedIndices: []int32{0}}, "another": {MissedIndices: []int32{1}},
	} {
		d := digest("m", row)
		if other, known := seen[d]; known {
			t.Errorf("a row with another %s has the digest of %s", name, other)
		}
		seen[d] = name
	}
	first, second := ProfileRow{Step: 1}, ProfileRow{Step: 2}
	if digest("m", first, second) == digest("m", second, first) {
		t.Error("the order of rows is not in the digest")
	}
}
