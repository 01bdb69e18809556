package h2o

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/policytest"
)

func TestConformance(t *testing.T) {
	for _, options := range []string{"", "recent=0", "recent=1", "scores=ranks"} {
		policytest.RunLossy(t, Entry, options)
	}
}

// A budget of four holds two heavy hitters and two recent blocks.
func TestHistory(t *testing.T) {
	policytest.LossyHistory(t, Entry, "", `
capacity 4
prompt 6
mass .3 .1 .2 .5 0 0
prompt     |   | 1  # 0 to 4 are held, 3 and 4 are recent; of 0, 1, 2 the least has .1
2:.5 4:.25 |   | 0  # 5 is born; 4 and 5 are recent; of 0 (.3), 2 (.7), 3 (.5) the least is 0
3:.1 4:.7  |   | 3  # 6 is born; 5 and 6 are recent; 2 has .7, 3 has .6, 4 has .95
0:.1 2:.9  | 0 | 5  # 7 is born; 6 and 7 are recent; 0 is gone, 5 was given nothing
`)
}

// Without prompt_mass, windows give the prompt's attention. With ranks, the r-th is given 1 ÷ r.
func TestRanksAndWindows(t *testing.T) {
	policytest.LossyHistory(t, Entry, "scores=ranks,recent=0", `
capacity 2
prompt 5
windows 2
3 1    |            # 3 has 1, 1 has .5
1 3    |            # 3 has 1.5, 1 has 1.5
prompt |     | 0 2
1 3    |     | 4    # 4 is born: nothing so far
0 2 3  | 0 2 | 5    # 3 is the best of what is there: 1 more
`)
}

// The second rank twice counts as much as the first rank once. The oldest of equal blocks is
// dropped.
func TestRanksAddUp(t *testing.T) {
	policytest.LossyHistory(t, Entry, "scores=ranks,recent=0", `
capacity 2
prompt 6
windows 3
3 0    |
0 1    |
0 1    |            # 0 has 2.5, 1 and 3 have 1 each, 2 and 4 nothing
prompt |   | 1 2 4
5 3 0  |   | 5      # 5 is born and has 1, 3 has 1.5
`)
}
