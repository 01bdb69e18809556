package transfer

import (
	"fmt"
	"math"
	"strings"

	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Direction is which way data goes.
type Direction int

// The directions.
const (
	HostToDevice Direction = iota // a fetch
	DeviceToHost                  // a write-back
)

func (d Direction) String() string { return [...]string{"h2d", "d2h"}[d] }

// Mechanism is who moves data.
type Mechanism int

// The mechanisms.
const (
	Call   Mechanism = iota // copy engine, one driver call a piece
	Batch                   // copy engine, one driver call for all pieces
	Kernel                  // threads on SMs, zero copy
)

func (m Mechanism) String() string { return hardware.PathNames[m] }

// Link is a host link with the paths that its data file has.
type Link struct {
	name   string
	paths  [2][3]*Curve
	duplex [3]float64 // both directions together, bytes/s; +Inf: undisturbed
}

// NewLink takes the constants of a data file.
func NewLink(l *hardware.Link) *Link {
	link := &Link{name: l.Name}
	both := math.Inf(1)
	link.duplex = [3]float64{both, both, both}
	if d := l.Duplex; d != nil {
		link.duplex = [3]float64{float64(d.CopyEngine.Value), float64(d.CopyEngine.Value), float64(d.Kernel.Value)}
	}
	for d, paths := range []*hardware.Paths{&l.HostToDevice, &l.DeviceToHost} {
		for m, name := range hardware.PathNames {
			if c := paths.Named(name); c != nil {
				curve := NewCurve(c, PacketsOf(l, Direction(d), Mechanism(m)))
				if l.Duplex != nil {
					curve.BothWays = link.duplex[m]
				}
				link.paths[d][m] = curve
			}
		}
	}
	return link
}

// PacketsOf are the packets of one path of a link.
func PacketsOf(l *hardware.Link, d Direction, m Mechanism) Packets {
	if l.PCIe == nil {
		return Packets{}
	}
	payload, request := float64(l.PCIe.MaxPayload.Value), float64(l.PCIe.MaxReadRequest.Value)
	switch {
	case d == DeviceToHost: // a GPU's caches combine what a kernel writes
		return DeviceWrites(payload)
	case m == Kernel:
		return DeviceReads(min(payload, kernelAccess), kernelAccess)
	}
	return DeviceReads(payload, request)
}

// Path is one path, or an error that lists those that the link has.
func (l *Link) Path(d Direction, m Mechanism) (*Curve, error) {
	if c := l.paths[d][m]; c != nil {
		return c, nil
	}
	var known []string
	for m, c := range l.paths[d] {
		if c != nil {
			known = append(known, Mechanism(m).String())
		}
	}
	return nil, fmt.Errorf("link %s has no %s %s path; it has: %s", l.name, d, m, strings.Join(known, ", "))
}

// Fastest takes for each request the path that is fastest for it, as a system does that
// switches between copy engine and kernel by size and count.
func (l *Link) Fastest(d Direction) Path {
	var f fastest
	for _, c := range l.paths[d] {
		if c != nil {
			f = append(f, c)
		}
	}
	return f
}

type fastest []*Curve

func (f fastest) Time(r Request) float64 { return f.pick(r).Time(r) }
func (f fastest) Cost(r Request) Cost    { return f.pick(r).Cost(r) }

func (f fastest) pick(r Request) *Curve {
	best, least := f[0], math.Inf(1)
	for _, c := range f {
		if t := c.Time(r); t < least {
			best, least = c, t
		}
	}
	return best
}

// Both is the time until a fetch and a write-back that begin together have both ended,
// moved by m. Alone they run at their own rates; together those are scaled so that their
// sum keeps to what the link was measured to carry both ways; the longer one finishes
// alone.
func (l *Link) Both(m Mechanism, fetch, store Cost) float64 {
	long, short := math.Max(fetch.Seconds, store.Seconds), math.Min(fetch.Seconds, store.Seconds)
	if short == 0 {
		return long
	}
	together := float64(fetch.Bytes)/fetch.Seconds + float64(store.Bytes)/store.Seconds
	return long + short*math.Max(0, together/l.duplex[m]-1)
}

// Capped limits a path to a rate, bytes a second: a share of host memory's bandwidth
// where several GPUs read it, or CXL memory behind the host. Seconds over the path's own
// count as Link.
func Capped(p Path, rate float64) Path { return capped{p, rate} }

type capped struct {
	Path
	rate float64
}

func (c capped) Time(r Request) float64 { return c.Cost(r).Seconds }

func (c capped) Cost(r Request) Cost {
	cost := c.Path.Cost(r)
	if least := cost.By.Launch + float64(cost.Bytes)/c.rate; cost.Seconds < least {
		cost.By.Link += least - cost.Seconds
		cost.Load *= cost.Seconds / least
		cost.Seconds = least
	}
	return cost
}

// Bytes of packet headers with framing and link CRC, 64-bit addresses, no ECRC
// (Neugebauer et al., "Understanding PCIe performance for end host networking", SIGCOMM
// 2018, and its model, github.com/pcie-bench/pcie-model, model/pcie.py).
const (
	writeHeader      = 24 // MWr
	readHeader       = 24 // MRd
	completionHeader = 20 // CplD
)

// kernelAccess is what one read of a kernel asks for: a cache line of 128 B.
const kernelAccess = 128

// Packets says how payload is cut into packets. The zero value has no headers: a link
// whose packets are not modelled.
type Packets struct {
	Payload       float64 // bytes in one packet, at most
	Header        float64 // bytes around them
	Request       float64 // bytes that one read request asks for; 0: writes, nothing goes back
	RequestHeader float64
}

// DeviceReads are packets of a device that reads host memory (host to device): requests
// against the payload, completions with it.
func DeviceReads(maxPayload, maxRequest float64) Packets {
	return Packets{maxPayload, completionHeader, maxRequest, readHeader}
}

// DeviceWrites are packets of a device that writes host memory (device to host).
func DeviceWrites(maxPayload float64) Packets { return Packets{maxPayload, writeHeader, 0, 0} }

// Forward are the wire bytes of a contiguous piece in the direction of its payload.
func (p Packets) Forward(bytes float64) float64 {
	if p.Header == 0 {
		return bytes
	}
	return bytes + p.Header*math.Ceil(bytes/p.Payload)
}

// Back are the wire bytes against it.
func (p Packets) Back(bytes float64) float64 {
	if p.Request == 0 {
		return 0
	}
	return p.RequestHeader * math.Ceil(bytes/p.Request)
}

// efficiency is payload over wire bytes in full packets.
func (p Packets) efficiency() float64 {
	if p.Header == 0 {
		return 1
	}
	return p.Payload / (p.Payload + p.Header)
}

// Ceiling is the payload rate that headers leave of a wire rate, in full packets.
func (p Packets) Ceiling(wireRate float64) float64 { return wireRate * p.efficiency() }
