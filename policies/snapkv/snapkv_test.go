package snapkv

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

func TestConformance(t *testing.T) {
	for _, options := range []string{"", "window=2,kernel=1", "window=0,kernel=3,pooling=avg"} {
		policytest.RunLossy(t, Entry, options)
	}
}

// The last two of eight tokens are the observation window. Token 7 is pinned until step 0. The pooled
// maxima of three neighbours in front of the observation window are
//
//	token  0 1 2 3 4 5
//	mass   4 0 1 0 2 0
//	pooled 4 4 1 2 2 2
func TestHistory(t *testing.T) {
	policytest.LossyHistory(t, Entry, "window=2,kernel=3", `
capacity 4
prompt 8
mass 4 0 1 0 2 0 9 9
prompt |     | 2 3 4  # 0 to 6 are held; 6 stays, of the others the two highest: 0 and 1; 5 before 4 and 3, as ties go by index
3 5    | 3   | 5      # 7 leaves the local window and stays: of 0, 1, 5 the least is 5
5 7    | 5   | 0      # 8 is born
1 8    |     | 1      # 9 is born: no scores are left
6 8    |     | 6      # 10 is born: the oldest of 6, 7, 8, 9, 10
`)
}

// The scores are averages of three. Tokens beyond the ends count as 0, and there is no window.
//
//	token  0   1  2   3   4
//	mass   6   0  0   3   3
//	pooled 2   2  1   2   2
func TestAverages(t *testing.T) {
	policytest.LossyHistory(t, Entry, "window=0,kernel=3,pooling=avg", `
capacity 3
prompt 5
mass 6 0 0 3 3
prompt |   | 2    # 4 is pinned
2 4    | 2 | 0    # 4 is ranked like the others: 0, 1, 3 and 4 tie
`)
}

// Without window and pooling, a birth that is a block of the prompt is ranked by its mass.
func TestBirthsAreRanked(t *testing.T) {
	policytest.LossyHistory(t, Entry, "window=0,kernel=1", `
capacity 3
prompt 5
mass 6 1 2 3 4
prompt |   | 1    # 4 is pinned
0      |   | 2    # 4 is born: 3, 4, 0 in this order
0      |   | 3    # 5 and 6 are born, without a score
0      |   | 4
`)
}

// The last four of ten blocks are in the observation window. Pinned blocks are not held.
func TestObserved(t *testing.T) {
	for _, c := range []struct{ window, first, end, want int }{
		{4, 0, 10, 4}, {4, 2, 8, 2}, {4, 7, 9, 2}, {4, 0, 6, 0}, {4, 0, 5, 0}, {0, 0, 9, 0}, {20, 2, 8, 6},
	} {
		p := &Policy{Window: c.window}
		if got := p.Observed(&policies.Prompt{Blocks: 10, First: c.first, End: c.end}); got != c.want {
			t.Errorf("window %d: %d of the blocks from %d to %d are observed, want %d", c.window, got, c.first, c.end, c.want)
		}
	}
}

func TestOptions(t *testing.T) {
	for options, want := range map[string]string{"kernel=4": "an odd number", "pooling=sum": "none of max, avg", "beta=2": "unknown option"} {
		if _, _, err := Entry.New(options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
	}
}
