package hardware

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
)

// Parts describe a machine without a file.
type Parts struct {
	GPU        string // name of a GPU
	GPUs       int    // GPUs of the machine, 0: those of the base, which do not limit routed experts
	HostMemory int64  // bytes of the whole machine, 0: those of the base
	Link       string // name of a link, or its beginning, as in pcie5. Empty: that of the base
	Bridge     bool   // NVLink bridges join pairs of GPUs
}

// mostSockets is the number of sockets of the servers that Compose knows.
const mostSockets = 2

// Compose returns a machine made of parts. The base, a machine of the library with the same GPU, has
// the parts that are left open. Machine finds the result by its name, and its Note says which parts
// are assumed.
//
// A Machine is one socket with the GPUs on it. If the parts have twice the GPUs of a base with
// several, two such sockets are assumed. They share the host memory equally.
func (lib *Library) Compose(p Parts) (*Machine, error) {
	gpu, err := lib.GPU(p.GPU)
	if err != nil {
		return nil, err
	}
	base, err := lib.base(gpu)
	if err != nil {
		return nil, err
	}
	m := *base
	m.Stated = p.GPUs
	p.GPUs = cmp.Or(p.GPUs, base.GPUs)
	sockets := 1
	if base.GPUs > 1 && p.GPUs == mostSockets*base.GPUs {
		sockets = mostSockets
	}
	m.GPUs = p.GPUs / sockets
	kept := []string{"drives"}
	if p.Link != "" {
		if m.Link, err = lib.linkOf(p.Link, base.Link); err != nil {
			return nil, err
		}
		if err := m.Link.suits(gpu); err != nil {
			return nil, fmt.Errorf("link %w", err)
		}
		if m.GPUDirect.Known() && m.GPUDirect.Value > m.Link.Bandwidth.Value {
			m.GPUDirect = Fact[BytesPerSecond]{}
		}
	} else {
		kept = append(kept, "link "+m.Link.Name)
	}
	if p.HostMemory > 0 {
		host := *base.Host
		value := Bytes(p.HostMemory) / Bytes(sockets)
		host.Memory = Fact[Bytes]{Value: value, Written: value.String(), Status: Datasheet, Source: "the command line"}
		m.Host = &host
		kept = append(kept, "rates of host "+host.Name)
	} else {
		kept = append(kept, "host "+m.Host.Name)
	}
	m.Shown = base.Name
	m.Name = fmt.Sprintf("%d × %s with %s and %s", p.GPUs, gpu.Name, m.Link.Name, m.Host.Memory.Value*Bytes(sockets))
	if p.Bridge {
		bridged, err := m.WithBridges()
		if err != nil {
			return nil, err
		}
		m = *bridged
		m.Name += ", joined in pairs by NVLink bridges"
	}
	m.Note = fmt.Sprintf("machine of parts: %s; assumed as in machine %s: %s", m.Name, base.Name, strings.Join(kept, ", "))
	if sockets > 1 {
		m.Note += fmt.Sprintf("; assumed: %d sockets, each with %d GPUs and %s", sockets, m.GPUs, m.Host.Memory.Value)
	}
	if lib.composed == nil {
		lib.composed = map[string]*Machine{}
	}
	lib.composed[m.Name] = &m
	return &m, nil
}

// base returns the machine of a GPU: the one of its name, or else the first that has it.
func (lib *Library) base(gpu *GPU) (*Machine, error) {
	var found *Machine
	for _, it := range lib.Items(KindMachine) {
		m, err := lib.Resolve(it)
		if err != nil {
			return nil, err
		}
		if m.GPU == gpu && (found == nil || m.Name == gpu.Name) {
			found = m
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no machine has GPU %s, whose host and drives are needed: write one (replay/hardware/README.md)", gpu.Name)
	}
	return found, nil
}

// linkOf finds a link by its name or by the beginning of it. The link of the base is preferred to
// others with that beginning.
func (lib *Library) linkOf(name string, base *Link) (*Link, error) {
	if _, err := get[*Link](lib, KindLink, name); err != nil && begins(base.Name, name) {
		return base, nil
	}
	return lib.Link(name)
}

// begins reports whether a name begins with text, whatever its case and separators.
func begins(name, text string) bool {
	text = names.Fold(text)
	return text != "" && strings.HasPrefix(names.Fold(name), text)
}
