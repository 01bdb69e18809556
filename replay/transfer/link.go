package transfer

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Direction is the direction of a transfer.
type Direction int

// The directions.
const (
	HostToDevice Direction = iota // a fetch
	DeviceToHost                  // a write-back
)

func (d Direction) String() string { return [...]string{"h2d", "d2h"}[d] }

// Mechanism is the device that moves data.
type Mechanism int

// The mechanisms.
const (
	Call   Mechanism = iota // copy engine, one driver call per piece
	Batch                   // copy engine, one driver call for all pieces
	Kernel                  // threads on SMs, zero copy
)

func (m Mechanism) String() string { return hardware.PathNames[m] }

// Link is a host link with the paths that its data file has.
type Link struct {
	name   string
	paths  [2][3]*Curve
	duplex [3]float64 // rate of both directions together, bytes/s, +Inf without slowdown
	pcie   bool       // and not NVLink-C2C
}

// NewLink returns a link with the constants of a data file.
func NewLink(l *hardware.Link) *Link {
	link := &Link{name: l.Name, pcie: l.PCIe != nil}
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

// PacketsOf returns the packets of one path of a link.
func PacketsOf(l *hardware.Link, d Direction, m Mechanism) Packets {
	if l.PCIe == nil {
		return Packets{}
	}
	payload, request := float64(l.PCIe.MaxPayload.Value), float64(l.PCIe.MaxReadRequest.Value)
	switch {
	case d == DeviceToHost: // a GPU's caches combine the writes of a kernel
		return DeviceWrites(payload)
	case m == Kernel:
		return KernelReads(payload)
	}
	return DeviceReads(payload, request)
}

// Path returns one path, or an error that lists the paths of the link.
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
	return nil, fmt.Errorf("link %s has no %s %s path: choose among %s", l.name, d, m, strings.Join(known, ", "))
}

// Fastest returns a path that takes the fastest path for each request. Systems that switch between
// copy engine and kernel by size and count do the same.
func (l *Link) Fastest(d Direction) Path {
	return fastest(slice.Filter(l.paths[d][:], func(c *Curve) bool { return c != nil }))
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

// StagingRate is the rate in bytes/s at which a CPU thread copies pageable memory into the driver's
// pinned buffer. It is derived: an RTX PRO 6000 on PCIe 5.0 copies 9.7 GB/s from pageable memory and
// 51.5 GB/s from pinned memory, and 1/9.7 = 1/51.5 + 1/11.95. The source is
// https://github.com/run-ai/runai-model-streamer/issues/161.
const StagingRate = 11.95e9

// Pageable returns the link for host memory that is not pinned. Kernels cannot read it over PCIe,
// and the driver stages each copy through a pinned buffer, one part after the other. So a byte takes
// the time of both copies. NVLink-C2C needs no staging: a GH200 copies pageable memory at 0.955 of
// the rate of pinned memory (vortex-data/vortex pull request 7815), and the link stays as it is.
func (l *Link) Pageable() *Link {
	if !l.pcie {
		return l
	}
	p := &Link{name: l.name, duplex: l.duplex, pcie: true}
	for d := range l.paths {
		if l.paths[d][Call] == nil {
			continue
		}
		c := *l.paths[d][Call]
		c.Regimes = slices.Clone(c.Regimes)
		for i := range c.Regimes {
			c.Regimes[i].Rate = 1 / (1/c.Regimes[i].Rate + 1/StagingRate)
		}
		p.paths[d][Call] = &c
	}
	return p
}

// Both returns the seconds until a fetch and a write-back that begin together have both ended. m
// moves both. Together their rates are scaled so that the sum keeps to the link's measured rate in
// both directions. The longer one finishes at its own rate.
func (l *Link) Both(m Mechanism, fetch, store Cost) float64 {
	long, short := math.Max(fetch.Seconds, store.Seconds), math.Min(fetch.Seconds, store.Seconds)
	if short == 0 {
		return long
	}
	together := float64(fetch.Bytes)/fetch.Seconds + float64(store.Bytes)/store.Seconds
	return long + short*math.Max(0, together/l.duplex[m]-1)
}

// Capped limits a path to a rate in bytes per second: a share of host memory's bandwidth if several
// GPUs read it, or CXL memory behind the host. Additional seconds count as Link.
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

// Bytes of packet headers with framing and link CRC, 64-bit addresses, no ECRC. The source is
// Neugebauer et al., "Understanding PCIe performance for end host networking", SIGCOMM 2018, with
// its model (github.com/pcie-bench/pcie-model, model/pcie.py).
const (
	writeHeader      = 24 // MWr
	readHeader       = 24 // MRd
	completionHeader = 20 // CplD
)

// A kernel reads host memory through the GPU's caches. Each line of 128 B that a piece touches costs
// a request (EMOGI, PVLDB 2020, arXiv 2006.06890). The L2 cache fetches 64 B at a time, the default
// of CUDA's cudaLimitMaxL2FetchGranularity. With sectors of 32 B instead, gathers of 47 B would come
// out 20 % too fast.
const (
	kernelAccess = 128
	kernelSector = 64
)

// Packets describes the packets of a payload. The zero value has no headers, for links whose
// packets are not modelled.
type Packets struct {
	Payload       float64 // largest payload of a packet, bytes
	Header        float64 // header bytes of a packet
	Request       float64 // bytes per read request, 0 for writes, which need none
	RequestHeader float64
	Sector        float64 // bytes that are read together, 0 for devices that read any number
}

// DeviceReads returns the packets of a device that reads host memory (host to device). Requests go
// against the payload, and completions with it.
func DeviceReads(maxPayload, maxRequest float64) Packets {
	return Packets{Payload: maxPayload, Header: completionHeader, Request: maxRequest, RequestHeader: readHeader}
}

// KernelReads returns the packets of a kernel that reads host memory.
func KernelReads(maxPayload float64) Packets {
	p := DeviceReads(min(maxPayload, kernelAccess), kernelAccess)
	p.Sector = kernelSector
	return p
}

// DeviceWrites returns the packets of a device that writes host memory (device to host).
func DeviceWrites(maxPayload float64) Packets {
	return Packets{Payload: maxPayload, Header: writeHeader}
}

// Forward returns the mean wire bytes of a contiguous piece in the direction of its payload. The
// piece starts at a random multiple of align bytes. Align 0 is the start of a cache line. Only the
// reads of a kernel depend on it.
func (p Packets) Forward(bytes, align float64) float64 {
	if p.Header == 0 {
		return bytes
	}
	if p.Sector == 0 || align == 0 {
		return bytes + p.Header*math.Ceil(bytes/p.Payload)
	}
	return touched(bytes, align, p.Sector) + p.Header*touched(bytes, align, p.Payload)/p.Payload
}

// Back returns the mean wire bytes against the direction of the payload, as in Forward.
func (p Packets) Back(bytes, align float64) float64 {
	switch {
	case p.Request == 0:
		return 0
	case p.Sector == 0 || align == 0:
		return p.RequestHeader * math.Ceil(bytes/p.Request)
	}
	return p.RequestHeader * touched(bytes, align, p.Request) / p.Request
}

// touched returns the mean bytes of the units that a piece touches. Its start is a random multiple
// of align, which divides its length. Then b bytes touch (b + unit − align) ÷ unit units.
func touched(bytes, align, unit float64) float64 { return bytes + unit - min(align, unit) }

// efficiency returns payload ÷ wire bytes in full packets.
func (p Packets) efficiency() float64 {
	if p.Header == 0 {
		return 1
	}
	return p.Payload / (p.Payload + p.Header)
}

// Ceiling returns the payload rate at a wire rate, in full packets.
func (p Packets) Ceiling(wireRate float64) float64 { return wireRate * p.efficiency() }
