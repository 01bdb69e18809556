package transfer

import "testing"

// Blocks have four tokens with separate K and V. 7 blocks in 3 runs are 14 single pieces, or 6
// merged. The bytes do not change.
func TestLayout(t *testing.T) {
	l := Layout{EntryBytes: 512, BlockTokens: 4, Fragments: 2}
	if got, want := l.Request(7, 3), (Request{Descriptors: 14, Bytes: 7 * 2048, Launches: 1, Align: 128}); got != want {
		t.Errorf("alone %+v, expected %+v", got, want)
	}
	l.Merge = true
	if got, want := l.Request(7, 3), (Request{Descriptors: 6, Bytes: 7 * 2048, Launches: 1, Align: 128}); got != want {
		t.Errorf("merged %+v, expected %+v", got, want)
	}
	// Five tokens of each of 8 streams are counted as entries, not blocks.
	if got, want := l.WriteBack(8, 5), (Request{Descriptors: 16, Bytes: 8 * 5 * 512, Launches: 1}); got != want {
		t.Errorf("written back merged %+v, expected %+v", got, want)
	}
	l.Merge = false
	if got, want := l.WriteBack(8, 5), (Request{Descriptors: 80, Bytes: 8 * 5 * 512, Launches: 1}); got != want {
		t.Errorf("written back alone %+v, expected %+v", got, want)
	}
	if got := (Layout{EntryBytes: 656}).Request(1, 1).Align; got != 16 {
		t.Errorf("entries of 656 B are aligned to %d", got)
	}
	if l.Request(0, 0) != (Request{}) || l.WriteBack(0, 3) != (Request{}) || l.WriteBack(3, 0) != (Request{}) {
		t.Error("nothing makes a launch")
	}
}
