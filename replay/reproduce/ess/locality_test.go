package ess

import (
	"strings"
	"testing"
)

// What a statement about several traces shows is their median: of an even number the mean of
// the two in the middle. Where one of them is against it, it is named.
func TestEach(t *testing.T) {
	o := &observed{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		o.traces = append(o.traces, &traced{name: name})
	}
	values := map[string]float64{"a": 7, "b": 1, "c": 100, "d": 2}
	for want, of := range map[float64]func(string) bool{
		4.5: func(name string) bool { return name != "e" },
		7:   func(name string) bool { return name != "b" && name != "e" },
		2:   func(name string) bool { return name == "d" },
	} {
		l := o.each("small", "", func(t *traced) (float64, bool, bool) { return values[t.name], values[t.name] < 10, of(t.name) })
		if l.Ours != want || l.Holds == of("c") || of("c") && !strings.Contains(l.Note, "not on c (100)") {
			t.Errorf("%+v, expected %v", l, want)
		}
	}
}
