package transfer

import "math"

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
