package ess

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// one returns the line of a study with a statement about real traces.
func one(t *testing.T, study func(*reproduce.Draft)) reproduce.Line {
	t.Helper()
	const data = `sections: [{section: s, title: S, method: M, lines: [
		{id: "real: small", item: "{traces}", unit: "", kind: ordinal, miss: "not on {against}; {others}", absent: none}]}]`
	p := reproduce.Paper{Name: "p", Data: strings.ReplaceAll(data, "\t", ""), Study: func(s *reproduce.Study) { study(s.Section("s")) }}
	s, err := reproduce.Begin(t.Context(), p, reproduce.Inputs{})
	fatal.If(t, err)
	defer s.Close()
	sections, err := s.Run()
	fatal.If(t, err)
	return sections[0].Lines[0]
}

// A statement about several traces shows their median, and for an even number the mean of the two
// in the middle. It names the traces for which it fails.
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
		l := one(t, func(d *reproduce.Draft) {
			o.each(d, "small", func(t *traced) (float64, bool, bool) { return values[t.name], values[t.name] < 10, of(t.name) })
		})
		if float64(l.Ours) != want || (l.Result == reproduce.Holds) == of("c") || of("c") && !strings.Contains(l.Note, "not on c (100)") {
			t.Errorf("%+v, expected %v", l, want)
		}
	}
}
