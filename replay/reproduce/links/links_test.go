package links_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/reproduce/links"
	"github.com/kvreplay/kvreplay/replay/transfer/fit"
)

// sections compares the points with a library that change may modify.
func sections(t *testing.T, change func(*hardware.Library)) []reproduce.Section {
	t.Helper()
	s, err := reproduce.Begin(t.Context(), links.Paper(), reproduce.Inputs{})
	fatal.If(t, err)
	defer s.Close()
	if change != nil {
		change(s.Library)
	}
	all, err := s.Run()
	fatal.If(t, err)
	return all
}

func TestLinks(t *testing.T) {
	lines := 0
	all := sections(t, nil)
	for _, s := range all {
		lines += len(s.Lines)
		for _, l := range s.Lines {
			if l.Kind.Judged() && float64(l.Relative) != fit.Tolerance {
				t.Errorf("%s: the gate is %v, the fit's tolerance %v", l.Item, l.Relative, fit.Tolerance)
			}
		}
	}
	if past := reproduce.Past(all); lines < 80 || past != nil {
		t.Errorf("%d lines, expected at least 80; past their gates: %q", lines, past)
	}
	changed := sections(t, func(lib *hardware.Library) {
		link, err := lib.Link("pcie5-x16")
		fatal.If(t, err)
		link.HostToDevice.Call.Regimes[0].Descriptor.Value *= 2
	})
	if reproduce.Past(changed) == nil {
		t.Error("a descriptor of twice the time is not noticed")
	}
}
