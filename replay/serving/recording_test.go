package serving

import (
	"slices"
	"strings"
	"testing"
)

// A file of a series has any of the columns, in any order. Errors name the line and the remedy.
func TestReadSeries(t *testing.T) {
	s, err := ReadSeries(strings.NewReader("# a run\ntime_s,tokens_per_s,running\n0,0,1\n1.5,20.5,2\n"), "s.csv")
	if err != nil || len(s.Samples) != 2 || s.Samples[1].Time != 15e8 || !slices.Equal(s.values("tokens_per_s"), []float64{0, 20.5}) || s.values("waiting") != nil {
		t.Errorf("%v, error %v", s, err)
	}
	for text, want := range map[string]string{
		"":                                     "s.csv is empty, expected time_s and then some of running",
		"time_s\n1\n":                          "s.csv:1: columns time_s, expected time_s and then some of running",
		"running,time_s\n1,1\n":                "expected time_s and then",
		"time_s,load\n1,1\n":                   `column "load" is unknown or comes twice`,
		"time_s,running,running\n1,1,1\n":      `column "running" is unknown or comes twice`,
		"time_s,running\n1,-1\n":               `s.csv:2: running "-1", expected a number from 0`,
		"time_s,running\nsoon,1\n":             `s.csv:2: time_s "soon", expected a number from 0`,
		"time_s,tokens_per_s\n1,NaN\n":         `tokens_per_s "NaN", expected a number`,
		"time_s,tokens_per_s\n1,2\n1,3\n":      "s.csv:3: time_s 1, expected more than on the line before: sort",
		"time_s,tokens_per_s,waiting\n1,2\n":   "wrong number of fields",
		"time_s,tokens_per_s\n# no line yet\n": "has a header and no measurements",
	} {
		if _, err := ReadSeries(strings.NewReader(text), "s.csv"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, expected %q", text, err, want)
		}
	}
}

// A rate is the mean since the sample before, of the iterations that end meanwhile.
func TestRate(t *testing.T) {
	c := Comparison{Series: Series{[]string{"tokens_per_s", "running"}, []Sample{{0, []float64{0, 0}}, {1e9, []float64{30, 2}}, {3e9, []float64{10, 0}}, {4e9, []float64{0, 0}}}}}
	collect := c.Rows()
	for _, r := range []StepRow{{Start: 1e8, End: 5e8, Running: 1, Generated: 10}, {Start: 5e8, End: 1e9, Running: 2, Generated: 30}, {Start: 1e9, End: 25e8, Running: 3, Generated: 10}} {
		if err := collect.Step(&r); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.modelled(states[3]); !slices.Equal(got, []float64{0, 40, 5, 0}) {
		t.Errorf("rates %v, expected 0, 40, 5 and 0", got)
	}
	if got := c.modelled(states[0]); !slices.Equal(got, []float64{0, 2, 0, 0}) {
		t.Errorf("running %v, expected 0, 2, 0 and 0", got)
	}
	all := c.Differences()
	if want := (Difference{"tokens/s over time", "mean distance", 10, 11.25, 0.375}); len(all) != 3 || all[1] != want {
		t.Errorf("%v, expected %v in the second line", all, want)
	}
	if last := all[len(all)-1]; last.Figure != "last token" || last.Recorded != 3 || last.Modelled != 2.5 {
		t.Errorf("%v, expected a last token at 3 s and a modelled one at 2.5 s in the last line", all)
	}
}
