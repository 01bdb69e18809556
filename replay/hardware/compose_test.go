package hardware_test

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/replay/hardware"
)

// The parts replace those of the base, and the note says what is left of it.
func TestCompose(t *testing.T) {
	lib := load(t)
	for _, c := range []struct {
		parts  hardware.Parts
		name   string
		gpus   int
		memory hardware.Bytes
		note   string
	}{
		{hardware.Parts{GPU: "H100", GPUs: 8, HostMemory: 2e12, Link: "pcie5"}, "8 × h100 with pcie5-x16 and 2 TB", 4, 1e12, "rates of host dgx-h100; assumed: 2 sockets, each with 4 GPUs and 1 TB"},
		{hardware.Parts{GPU: "h100", GPUs: 2}, "2 × h100 with pcie5-x16 and 1.024 TB", 2, 1.024e12, "assumed as in machine h100: drives, link pcie5-x16, host dgx-h100"},
		{hardware.Parts{GPU: "h100"}, "4 × h100 with pcie5-x16 and 1.024 TB", 4, 1.024e12, "host dgx-h100"},
		{hardware.Parts{GPU: "4090", GPUs: 8, HostMemory: 5e11, Link: "PCIe 3"}, "8 × rtx4090 with pcie3-x16 and 500 GB", 8, 5e11, "drives, rates of host"},
		{hardware.Parts{GPU: "h20", Link: "pcie5"}, "1 × h20 with pcie5-x16-h20 and 200 GB", 1, 2e11, "machine h20"}, // the link of the base
	} {
		m, err := lib.Compose(c.parts)
		if err != nil {
			t.Errorf("%+v: %v", c.parts, err)
			continue
		}
		if m.Name != c.name || m.GPUs != c.gpus || m.Host.Memory.Value != c.memory || !strings.Contains(m.Note, c.note) {
			t.Errorf("%+v: %q, %d GPUs, %s, note %q", c.parts, m.Name, m.GPUs, m.Host.Memory.Value, m.Note)
		}
		if found, err := lib.Machine(m.Name); err != nil || found != m {
			t.Errorf("%s is not found: %v", m.Name, err)
		}
	}
	if m, err := lib.Machine("h100"); err != nil || m.GPUs != 4 || m.Note != "" {
		t.Errorf("machine h100 changed: %+v, %v", m, err)
	}
	for want, parts := range map[string]hardware.Parts{`unknown gpu "h101"`: {GPU: "h101"}, `unknown link "pcie9"`: {GPU: "h100", Link: "pcie9"}} {
		if _, err := lib.Compose(parts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, expected %q", parts, err, want)
		}
	}
}
