package links_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/reproduce/links"
)

// past counts lines past their gates.
func past(t *testing.T, lib *hardware.Library) (lines, n int) {
	t.Helper()
	sections, err := links.Of(lib)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sections {
		lines += len(s.Lines)
		for i := range s.Lines {
			if s.Lines[i].Verdict() == reproduce.PastGate {
				n++
			}
		}
	}
	return lines, n
}

func TestLinks(t *testing.T) {
	lib, err := hardware.Load("")
	if err != nil {
		t.Fatal(err)
	}
	if lines, n := past(t, lib); lines < 80 || n > 0 {
		t.Errorf("%d lines, %d past their gates, expected at least 80 and none", lines, n)
	}
	link, err := lib.Link("pcie5-x16")
	if err != nil {
		t.Fatal(err)
	}
	link.HostToDevice.Call.Regimes[0].Descriptor.Value *= 2
	if _, n := past(t, lib); n == 0 {
		t.Error("a descriptor of twice the time is not noticed")
	}
}
